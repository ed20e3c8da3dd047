"""The demo: a scripted agent and a release flow, with projects of their own."""
