"""Commands that read and keep the journal."""
