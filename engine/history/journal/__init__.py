"""The SQLite journal: schema, writer, reader, maintenance."""
