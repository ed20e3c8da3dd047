"""Text of findings, decisions, sessions and nets, for terminals and files."""
