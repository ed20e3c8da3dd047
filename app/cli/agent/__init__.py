"""Commands that run agents, flows and proxies, or open a console."""
