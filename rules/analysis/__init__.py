"""Findings about rules: contradictions, overlaps, advice."""
