"""Runtimes, which run commands and store files for tools."""
