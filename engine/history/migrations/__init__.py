"""Alembic's scripts, packaged so that an installed Interlock can bring a journal up to date."""
