"""Commands about rules files: check, test, draw, explain."""
