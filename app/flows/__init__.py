"""Flows named on the command line: loading, checks, drawings and input."""
