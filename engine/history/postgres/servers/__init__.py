"""The servers of one database: their leases and clock, what they own, outages of the database."""
