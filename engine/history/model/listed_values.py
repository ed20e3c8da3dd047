"""Values of listed columns that a newer version added: an older one shows the line, and acts on it not.

Servers of two versions share a database while one is replaced by the other. What one of them lists and
the other does not know must not cost that one the whole list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Listed: TypeAlias = Mapping[str, Sequence[str | None]]
"""The values that this version knows of each column; the first one stands for any that it does not."""


def unknown_value(values: Mapping[str, object], listed: Listed) -> str | None:
    """Name the first listed text that this version does not know, as `status 'asleep'`."""
    for name, known in listed.items():
        found = values.get(name)
        if isinstance(found, str) and found not in known:
            return f"{name} '{found}'"
    return None


def known_values(values: Mapping[str, object], listed: Listed) -> dict[str, object]:
    """The values, with the first of its list in place of each text that this version does not know."""
    found = dict(values)
    for name, known in listed.items():
        if isinstance(found.get(name), str) and found[name] not in known:
            found[name] = known[0]
    return found
