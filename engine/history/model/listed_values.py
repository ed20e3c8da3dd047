"""Values of enumerated columns that a newer version added.

Servers of two versions share a database during an upgrade. A value that one of them does not know must
not make the whole list unreadable for it: it shows the line, but does not act on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Listed: TypeAlias = Mapping[str, Sequence[str | None]]
"""The values of each column that this version knows; the first one replaces unknown ones."""


def unknown_value(values: Mapping[str, object], listed: Listed) -> str | None:
    """Name the first enumerated value that this version does not know, as in `status 'asleep'`."""
    for name, choices in listed.items():
        value = values.get(name)
        if isinstance(value, str) and value not in choices:
            return f"{name} '{value}'"
    return None


def known_values(values: Mapping[str, object], listed: Listed) -> dict[str, object]:
    """Return the values with each unknown enumerated value replaced by the first known one."""
    result = dict(values)
    for name, choices in listed.items():
        if isinstance(result.get(name), str) and result[name] not in choices:
            result[name] = choices[0]
    return result
