"""Input lines, choices and fields."""
