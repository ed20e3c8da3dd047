"""Widgets of approval requests."""
