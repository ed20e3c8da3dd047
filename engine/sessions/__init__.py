"""Sessions that a hub hosts or that external agents open."""
