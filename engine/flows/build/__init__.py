"""Flow graphs: built, checked, drawn."""
