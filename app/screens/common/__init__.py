"""Bases and panels that several screens use."""
