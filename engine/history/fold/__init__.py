"""Folding events into a session's state, at any moment."""
