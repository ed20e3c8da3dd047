"""Agent Approval Protocol: requests over HTTP, which are calls of external agents' sessions."""
