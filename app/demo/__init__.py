"""The demo: a scripted agent and a release flow, each with a project of its own."""
