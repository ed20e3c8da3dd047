"""Sessions of flow runs."""
