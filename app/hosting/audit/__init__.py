"""Audit streams: the record sent to files, syslog receivers and HTTP endpoints."""
