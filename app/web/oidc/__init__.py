"""Logins to the console in a browser through an OpenID Connect provider."""
