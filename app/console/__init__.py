"""The console's apps: live, and read-only over a recorded journal."""
