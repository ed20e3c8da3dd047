"""Sessions hosted by a program: in a console, headless, and in a server."""
