"""From the text of a rules file to statements."""
