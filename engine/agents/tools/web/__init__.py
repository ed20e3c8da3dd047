"""The web_fetch tool: public addresses only, within bounds."""
