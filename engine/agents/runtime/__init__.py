"""Runtimes: what runs commands and keeps files for tools."""
