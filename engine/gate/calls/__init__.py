"""Calls of a session: their phases, and competition for the same tokens."""
