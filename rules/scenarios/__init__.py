"""Scenario files: calls and the decisions expected."""
