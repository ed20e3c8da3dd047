"""Messages about requests that wait, to people outside of the console."""
