"""Hook command of coding agents: it answers one tool call and ends."""
