"""The `interlock` command: one module a subcommand, imported when it runs."""
