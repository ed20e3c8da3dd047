"""Readers of logs that other programs wrote."""
