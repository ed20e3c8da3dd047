"""The approval dialog, the batch dialog and their panels."""
