"""Rules in editors: a server of the Language Server Protocol."""
