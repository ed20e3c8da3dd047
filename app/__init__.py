"""The program: command line, console, screens, servers."""
