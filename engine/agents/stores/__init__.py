"""Stores of agents' sessions."""
