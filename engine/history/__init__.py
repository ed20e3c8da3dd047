"""Recorded sessions: events, journal, folding, masking, audit."""
