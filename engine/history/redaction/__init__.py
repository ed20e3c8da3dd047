"""Masking of secrets."""
