"""Gate around the tools of a program that has its own agent loop."""
