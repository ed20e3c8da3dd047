"""Settings: files, environment, options, and what each source may set."""
