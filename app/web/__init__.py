"""The console in a browser: textual-serve's terminal behind a login of Interlock's own."""
