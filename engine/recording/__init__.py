"""Sessions and their records: writing in order, resuming, branching."""
