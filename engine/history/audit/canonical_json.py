"""Canonical text of a JSON value, so that equal values have equal hashes: RFC 8785 (JCS).

Two things that JSON texts can contain are outside of JCS and of I-JSON, and are written unchanged:
integers beyond 2^53, all of whose digits count, and `NaN`, `Infinity` and `-Infinity`.
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
"""Numbers that orjson may have parsed inexactly, or may write differently from ECMAScript."""

_DIGITS = bytes.maketrans(b"123456789E", b"000000000e")
_LONG = b"0" * 16

_LAST_IN_ORDER = 0xED
"""Highest first byte for which sorting by UTF-8 and by UTF-16 give the same order."""

_EXACT = 2**53
"""Every integer below this is exact as a double, and is written with its own digits."""


def canonical(value: JsonValue) -> str:
    """Return a value's canonical text. Encoding it raises `UnicodeEncodeError` for invalid Unicode."""
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
    """Return the canonical UTF-8 of a value that `orjson` parsed, fast; `None` if it might differ."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    # Added so that a number at the very end matches as well.
    if _UNCOMMON.search(b":%b}" % text) or (not text.isascii() and max(text) > _LAST_IN_ORDER):
        return None
    return text


def canonical_line(value: JsonValue, body: object) -> bytes:
    """Return the canonical UTF-8 of a line that shows an event with this body, mostly the fast way.

    `orjson` writes non-finite numbers as null, and writes neither long integers nor lone surrogates.
    """
    if isinstance(body, str) and "NaN" not in body and "Infinity" not in body:
        try:
            if (text := common(value)) is not None:
                return text
        except (TypeError, RecursionError):
            pass
    return canonical(value).encode()


def is_plain(text: bytes) -> bool:
    """Return whether `orjson` certainly writes all numbers in a JSON text canonically.

    It does for those without an exponent, without a fraction that begins with 0, and not too long.
    Strings are searched for other numbers too, because that is faster than distinguishing them from
    numbers.
    """
    digits = text.translate(_DIGITS)
    return b"0e" not in digits and _LONG not in digits and b".0" not in text


def _number(value: float) -> str:
    """Format a number like ECMAScript's `Number::toString`."""
    if not math.isfinite(value):
        return _encode(value)
    size = abs(value)
    if value.is_integer() and size < _EXACT:
        return str(int(value))
    if 1e-6 <= size < 1e21:
        return format(Decimal(repr(value)), "f").removesuffix(".0")
    digits, _, exponent = repr(value).partition("e")
    return f"{digits}e{int(exponent):+d}"
