"""One turn of an agent: model call, decision, tool execution."""
