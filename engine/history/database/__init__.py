"""The database of a journal: its tables and the statements on them."""
