"""Notifications of waiting requests, to people outside the console."""
