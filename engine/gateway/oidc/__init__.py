"""Logins of operators at a provider of OpenID Connect."""
