"""Servers that share one database: each shows the sessions of all, and acts on its own."""
