"""Values used throughout the engine: clock, conditions, durations, rules, safe text."""
