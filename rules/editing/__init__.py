"""Names, and possible next words, in a text that is being edited."""
