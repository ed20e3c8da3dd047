"""Parsing of a rules file to statements."""
