"""Starting and resuming sessions of agents, flows and imported records, with their rules."""
