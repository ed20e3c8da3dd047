"""What the decisions screen says where there is nothing to list."""

from __future__ import annotations

from ..engine.history.decision_filter import EVERYTHING, DecisionFilter, quoted

EMPTY = (
    "No decisions are recorded yet.\n\nEvery call that an agent makes under rules is listed here, and "
    "whatever people change of rules, modes, limits and grants."
)


def nothing_found(wanted: DecisionFilter, back: str) -> str:
    """Why the list is empty, and what to do; `back` is the key that clears the filter."""
    if wanted == EVERYTHING:
        return EMPTY
    hint = f"No decision matches. Press {back} to see all of them."
    if wanted.words:
        hint += "\nWords look at the first 200 characters of an input; input:WORD looks at all of it."
    for key, values in wanted.named.items():
        for value in values:
            if "," in value:
                several = " ".join(f"{key}:{quoted(each.strip())}" for each in value.split(",") if each)
                hint += f"\nSeveral are named one by one: {several}"
    return hint


def choose_shadow(key: str) -> str:
    """What to do before a session can be switched; `key` shows the sessions."""
    return f"Choose a decision that was made in shadow mode, or press {key} for the sessions."
