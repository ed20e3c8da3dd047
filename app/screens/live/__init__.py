"""The live screen, its queue and its panels."""
