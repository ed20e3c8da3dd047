"""Screens over recorded sessions."""
