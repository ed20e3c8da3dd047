"""Secrets that are known by their form."""
