"""Starting and resuming sessions: agents, flows, imported records, under which rules."""
