"""The hub: sessions, requests and events, behind every screen and server."""
