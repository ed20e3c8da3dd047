"""Screens over recorded decisions and approval statistics."""
