"""A journal in PostgreSQL, which several servers write: see docs/how-to/many-servers.md."""
