"""Alembic's scripts, packaged so that an installed Interlock can upgrade a journal."""
