"""The queue as a table, in which requests are decided without opening each."""
