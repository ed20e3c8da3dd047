"""Notice for the model that an operator has changed the input of one of its calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ..core.json_values import same_json
from ..net.net import Input

MAX_CHARACTERS = 200
"""Most characters of a value in the notice; of a longer value, only the difference with its context."""
CONTEXT_CHARACTERS = 20
_NOTICE = re.compile(r"\n\nA person .* before it ran\.\Z", re.DOTALL)


def describe_edit(before: Input, after: Input) -> str | None:
    """`A person changed env from "prod" to "staging"`; `None` when both are the same JSON."""
    changes = list(_changes(before, after))
    if not changes:
        return None
    *most, last = changes
    return f"A person {', '.join(most)} and {last}" if most else f"A person {last}"


def with_notice(result: object, before: Input, after: Input) -> object:
    """A tool's result with the notice appended if it is text; any other result is returned unchanged."""
    notice = describe_edit(before, after)
    return f"{result}\n\n{notice} before it ran." if isinstance(result, str) and notice else result


def without_notice(text: str) -> str:
    """Text without the notice that `with_notice` appended."""
    return _NOTICE.sub("", text)


def _changes(before: Input, after: Input) -> Iterator[str]:
    for name, value in before.items():
        if name not in after:
            yield f"removed {name}"
        elif not same_json(value, after[name]):
            old, new = _differing_parts(_json(value), _json(after[name]))
            yield f"changed {name} from {old} to {new}"
    for name, value in after.items():
        if name not in before:
            yield f"added {name}: {_shortened(_json(value))}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def _differing_parts(old: str, new: str) -> tuple[str, str]:
    """Both texts; if they are long, only the parts that differ."""
    if max(len(old), len(new)) <= MAX_CHARACTERS:
        return old, new
    same = _common(old, new)
    room = min(len(old), len(new)) - same
    tail = min(room, _common(old[::-1], new[::-1]))
    return _excerpt(old, same, len(old) - tail), _excerpt(new, same, len(new) - tail)


def _common(one: str, other: str) -> int:
    """Length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _excerpt(text: str, start: int, end: int) -> str:
    first, last = max(0, start - CONTEXT_CHARACTERS), min(len(text), end + CONTEXT_CHARACTERS)
    return f"{'…' if first else ''}{_shortened(text[first:last])}{'…' if last < len(text) else ''}"


def _shortened(text: str) -> str:
    """`text`, without its middle if it is long."""
    half = MAX_CHARACTERS // 2
    return text if len(text) <= MAX_CHARACTERS else f"{text[:half]}…{text[-half:]}"
