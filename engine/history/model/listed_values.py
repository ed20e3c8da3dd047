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
    for name, known in listed.items():
        found = values.get(name)
        if isinstance(found, str) and found not in known:
            return f"{name} '{found}'"
    return None


def known_values(values: Mapping[str, object], listed: Listed) -> dict[str, object]:
    """Return the values with each unknown enumerated value replaced by the first known one."""
    found = dict(values)
    for name, known in listed.items():
        if isinstance(found.get(name), str) and found[name] not in known:
            found[name] = known[0]
    return found
