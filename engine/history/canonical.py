"""One text for one JSON value, so that equal values have equal hashes: RFC 8785 (JCS).

Two things that JSON texts can hold are outside of it, and of I-JSON, and keep their notation here:
integers beyond 2^53, whose digits all count, and `NaN`, `Infinity` and `-Infinity`.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal

from pydantic import JsonValue

_encode = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False
).encode
_LAST_IN_ORDER = "\ud7ff"
"""Up to here, sorting by code point is sorting by UTF-16 code unit."""

_EXACT = 2**53
"""Below this size every integer is a double, and written with its own digits."""


class _UncommonError(ValueError):
    """A number that Python and ECMAScript write differently."""


def parse(text: str) -> tuple[JsonValue, bool]:
    """The value of a JSON text, and whether `canonical` may take it as plain. Raises `ValueError`."""
    try:
        return _plain.decode(text), True
    except _UncommonError:
        return json.loads(text), False


def canonical(value: JsonValue, *, plain: bool = False) -> str:
    """The canonical text of a value. `plain` is what `parse` said of it, and makes it fast.

    Raises `UnicodeEncodeError` for text that is not valid Unicode.
    """
    if plain:
        text = _encode(value)
        if text.isascii() or max(text) <= _LAST_IN_ORDER:
            return text
    return _text(value)


def _text(value: JsonValue) -> str:
    match value:
        case dict():
            keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
            return "{" + ",".join(f"{_encode(key)}:{_text(value[key])}" for key in keys) + "}"
        case list():
            return "[" + ",".join(map(_text, value)) + "]"
        case float():
            return _number(value)
        case _:
            return _encode(value)


def _number(value: float) -> str:
    """As ECMAScript's `Number::toString` writes it."""
    if not math.isfinite(value):
        return _encode(value)
    size = abs(value)
    if value.is_integer() and size < _EXACT:
        return str(int(value))
    if 1e-6 <= size < 1e21:
        return format(Decimal(repr(value)), "f").removesuffix(".0")
    digits, _, exponent = repr(value).partition("e")
    return f"{digits}e{int(exponent):+d}"


def _read(text: str) -> float | int:
    """A number with a fraction or an exponent, as something that Python writes as ECMAScript does."""
    value = float(text)
    if value.is_integer() and abs(value) < _EXACT:
        return int(value)
    if "e" in repr(value) or value.is_integer():
        raise _UncommonError(text)
    return value


_plain = json.JSONDecoder(parse_float=_read)
