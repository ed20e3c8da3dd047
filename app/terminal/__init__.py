"""The terminal: characters, colours, keys, driver, garbage collection."""
