"""Forms of the approval dialog: edit the input, fill in an answer."""
