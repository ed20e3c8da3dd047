"""Hooks of coding agents: client and events."""
