"""Models: litellm, scripted answers, and the wire format they share."""
