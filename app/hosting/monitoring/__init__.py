"""Monitoring of a server: metrics, probes and traces."""
