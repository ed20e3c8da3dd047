"""Approval requests that wait: queue, digest, limits, withdrawal."""
