"""Clients of a server: agents and consoles."""
