"""Sources of the console's data: hub, server, journal file, rules files."""
