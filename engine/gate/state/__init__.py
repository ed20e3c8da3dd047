"""The gate's state: recorded, restored, replayed, undone."""
