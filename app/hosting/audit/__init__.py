"""Streams of the record to other programs: files, receivers of syslog, addresses that take posts."""
