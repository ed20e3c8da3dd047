"""Scenario files: calls and the verdicts expected."""
