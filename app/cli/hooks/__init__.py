"""Hook command of coding agents: answers one tool call and ends."""
