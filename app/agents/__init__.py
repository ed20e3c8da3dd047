"""Agent files: parsing, checks, and building agents from them."""
