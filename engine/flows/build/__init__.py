"""Flow graphs: building, checking, drawing."""
