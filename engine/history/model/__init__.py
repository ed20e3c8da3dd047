"""Events, and the session state that they fold into."""
