"""Secrets in shell commands."""
