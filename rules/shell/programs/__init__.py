"""Programs that run other programs, and what they run."""
