"""Commands that read and maintain the journal."""
