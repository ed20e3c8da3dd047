"""Petri nets: definition, firing, timed firing."""
