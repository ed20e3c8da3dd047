"""One script per revision, in order."""
