"""Logins to the console in a browser at a provider of OpenID Connect."""
