"""Values that all of the engine uses: clock, conditions, durations, rules, safe text."""
