"""Proxy in front of MCP servers."""
