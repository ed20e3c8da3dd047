"""Batches of events: the rows that they make, and what commits them."""
