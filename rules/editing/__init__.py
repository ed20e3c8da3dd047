"""Names and next words of a text that is being written, for editors."""
