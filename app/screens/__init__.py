"""The screens, a folder each."""
