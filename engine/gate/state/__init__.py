"""The gate's state: recorded, restored, replayed, taken back."""
