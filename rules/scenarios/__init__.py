"""Scenario files: calls and the expected decisions."""
