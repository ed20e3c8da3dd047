"""Events and the state they fold into."""
