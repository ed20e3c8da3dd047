"""A rule's line with a further condition."""

from __future__ import annotations

from ...engine.core.condition import Condition, Or, condition_text
from ..parse.lines import parts


def narrowed(line: str, when: Condition | None, condition: Condition) -> str:
    """The line of a rule, with the condition `when` so far, that applies only if `condition` holds as
    well.

    Its reason and its comment stay unchanged.
    """
    found = parts(line)
    text = condition_text(condition, whole=True)
    if found.condition:
        text = f"{_closed(found.condition, when)} and {_closed(text, condition)}"
    return "".join((found.head, f" when {text}", *(f" {end}" for end in found.ends if end)))


def _closed(text: str, condition: Condition | None) -> str:
    """A condition as a part of `and`."""
    return f"({text})" if isinstance(condition, Or) else text
