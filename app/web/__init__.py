"""The console in a browser: textual-serve's terminal behind Interlock's own login."""
