"""Secrets that are recognised by their format."""
