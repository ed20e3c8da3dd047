"""Fold of events into a session's state, at any moment."""
