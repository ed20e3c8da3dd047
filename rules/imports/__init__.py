"""First rules from permissions that other programs keep."""
