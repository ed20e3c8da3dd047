"""Agent files: read, checked and built into agents."""
