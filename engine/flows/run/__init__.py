"""Runs of flows: scheduling, state, snapshots."""
