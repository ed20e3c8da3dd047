"""One run of an agent: model call, decision, tool execution."""
