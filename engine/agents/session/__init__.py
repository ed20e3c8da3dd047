"""An agent's session: conversation, inbox, settings, subagents."""
