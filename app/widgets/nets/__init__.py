"""Drawings and lists of nets, flows and grants."""
