"""The SQLite journal: schema, writer, reader, upkeep."""
