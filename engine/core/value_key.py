"""Keys of the values that distinguish calls: one net for each value of a field.

`require review before merge for same input.pr` has a net for every `input.pr` that a call names, and
`limit refund to 2 per session for each input.customer` one for every customer. A value is identified by
its digest, so that neither a key nor a step in the journal contains it (G-89 to G-91).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite

from .condition import DOUBLED, MISSING, Input, at_path, field_text
from .sanitize import folded_name

MOST_VALUES = 10_000
"""Most values of one rule in a session; restricted calls with further values are blocked."""

LONGEST_VALUE = 10_000
"""Most characters of a value; a longer text is not a value."""

_KEY = re.compile(r"(?P<net>.+)\[(?P<digest>[0-9a-f]{32})\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ValueKey:
    """Field whose values distinguish calls, by its path in a call's input.

    Calls by a name in `needed_by`, by default all names that the nets know, are blocked without a value.
    With `folded`, values that differ only in case, blanks, width or invisible characters are the same.
    """

    path: tuple[str, ...]
    folded: bool = False
    needed_by: tuple[str, ...] | None = None

    @property
    def field(self) -> str:
        """`input.pr`, as shown to people."""
        return field_text(self.path)

    def digest(self, value: Input) -> str | None:
        """Digest of a call's value, 32 hexadecimal digits; `None` for a call without one."""
        text = self.text(value)
        if text is None:
            return None
        if self.folded:
            text = " ".join(folded_name(text).split())
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def text(self, value: Input) -> str | None:
        """A call's value as text, 17 and "17" alike; `None` for a missing value, `null`, and a list.

        Also `None` if another field of the call differs only in looks, because it is unknown which of
        them counts.
        """
        field_value = at_path(value, self.path)
        if (
            field_value is MISSING
            or field_value is DOUBLED
            or not isinstance(field_value, str | int | float)
        ):
            return None
        text = field_value if isinstance(field_value, str) else _number_text(field_value)
        return None if text is None or len(text) > LONGEST_VALUE else text


def _number_text(value: float) -> str | None:
    """A number as JSON writes it, a whole one without its fraction; `true` and `false` as words."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not isfinite(value):
            return None
        if not value.is_integer():
            return repr(value)
        value = int(value)
    # Python refuses to write integers with more digits than this limit.
    return str(value) if abs(value) < 10**1_000 else None


def value_net(key: str, digest: str) -> str:
    """Key of the net of one value."""
    return f"{key}[{digest}]"


def split_key(key: str) -> tuple[str, str | None]:
    """Key of the registered net, and the value's digest; `None` for a net without a value."""
    if not key.endswith("]"):
        return key, None
    match = _KEY.fullmatch(key)
    return (key, None) if match is None else (match["net"], match["digest"])
