"""The page for phones: the queue, one request, and what was decided, as one more console of the hub."""
