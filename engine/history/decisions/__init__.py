"""Decisions listed, filtered and counted."""
