"""Lists of sessions, decisions, rules, and the transcript."""
