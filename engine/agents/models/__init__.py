"""Models: litellm, scripted replies, and their common wire format."""
