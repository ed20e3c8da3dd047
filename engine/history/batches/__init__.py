"""Batches of events: the rows that they make, and the writers that commit them."""
