"""Gating proxy for MCP servers."""
