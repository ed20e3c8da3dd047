"""Rules in editors: a Language Server Protocol server."""
