"""The page for phones: the queue, single requests and past decisions, as another console of the hub."""
