"""Initial rules from the permissions of other programs."""
