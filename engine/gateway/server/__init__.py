"""The WebSocket server."""
