"""The replay screen, and what-if under other rules."""
