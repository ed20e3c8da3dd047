"""Flows named on the command line: found, checked, drawn, given their input."""
