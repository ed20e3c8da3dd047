"""State of screens and dialogs without widgets."""
