"""A server as others watch it: metrics, probes, traces and a stream of its record."""
