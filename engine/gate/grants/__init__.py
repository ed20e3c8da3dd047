"""Grants: nets whose tokens are the uses left."""
