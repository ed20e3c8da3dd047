"""A proxy before MCP servers."""
