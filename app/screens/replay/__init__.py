"""The replay screen, and the what-if analysis with other rules."""
