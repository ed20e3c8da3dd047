"""One text for one JSON value, so that equal values have equal hashes: RFC 8785 (JCS).

Two things that JSON texts can hold are outside of it, and of I-JSON, and keep their notation here:
integers beyond 2^53, whose digits all count, and `NaN`, `Infinity` and `-Infinity`.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal

import orjson
from pydantic import JsonValue

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_UNCOMMON = re.compile(rb"[\[:,]-?[0-9.]+(?:\.0|e[+-]?[0-9]+)[\]},]|[\[:,]-?[0-9]{16}")
"""Numbers that orjson may have read or written otherwise than ECMAScript does, or than they were."""

_DIGITS = bytes.maketrans(b"123456789E", b"000000000e")
_LONG = b"0" * 16

_LAST_IN_ORDER = 0xED
"""The first byte of the last characters for which sorting by UTF-8 is sorting by UTF-16."""

_EXACT = 2**53
"""Below this size every integer is a double, and written with its own digits."""


def canonical(value: JsonValue) -> str:
    """The canonical text of a value. Encoding it raises `UnicodeEncodeError` for no valid Unicode."""
    match value:
        case dict():
            keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
            return "{" + ",".join(f"{_encode(key)}:{canonical(value[key])}" for key in keys) + "}"
        case list():
            return "[" + ",".join(map(canonical, value)) + "]"
        case float():
            return _number(value)
        case _:
            return _encode(value)


def common(value: JsonValue) -> bytes | None:
    """The same in UTF-8, quickly, for what `orjson` has read; `None` where it may be another text."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    # A value at the very end is looked at as if something followed.
    if _UNCOMMON.search(b":%b}" % text) or (not text.isascii() and max(text) > _LAST_IN_ORDER):
        return None
    return text


def canonical_line(value: JsonValue, body: object) -> bytes:
    """The canonical text in UTF-8 of a line that shows an event with this body: the quick one mostly.

    `orjson` writes what is no finite number as null, and neither long integers nor halves of characters.
    """
    if isinstance(body, str) and "NaN" not in body and "Infinity" not in body:
        try:
            if (text := common(value)) is not None:
                return text
        except (TypeError, RecursionError):
            pass
    return canonical(value).encode()


def is_plain(text: bytes) -> bool:
    """Tell whether `orjson` surely writes all numbers in a JSON text canonically.

    It does for those without an exponent, without a fraction that begins with 0, and not too long. What
    looks like another is looked for in strings, too: that is quicker than to tell them from numbers.
    """
    digits = text.translate(_DIGITS)
    return b"0e" not in digits and _LONG not in digits and b".0" not in text


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
