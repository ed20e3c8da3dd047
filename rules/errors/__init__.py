"""Messages for rules files that cannot be parsed."""
