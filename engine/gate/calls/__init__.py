"""Calls of a session: their phases, and those that compete for the same tokens."""
