"""Widgets of the replay screen."""
