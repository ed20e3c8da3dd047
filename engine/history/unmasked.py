"""An input that a person edited while parts of it were masked, with what was behind the masks."""

from __future__ import annotations

import re

from pydantic import JsonValue

from .redaction import MASK


class StillMaskedError(ValueError):
    """An edited input has a mask of which nobody knows what was behind it; the message says where."""


def unmasked(
    edited: dict[str, JsonValue], shown: dict[str, JsonValue], real: dict[str, JsonValue]
) -> dict[str, JsonValue]:
    """`edited` with each mask of `shown` replaced by what `real` has there.

    A value that was left as it was shown is the real one. In a text edited around its masks, these
    stand for the same as before, in their order. Raises `StillMaskedError` for any other mask.
    """
    return {key: _value(value, shown.get(key), real.get(key), key) for key, value in edited.items()}


def _value(edited: JsonValue, shown: JsonValue, real: JsonValue, where: str) -> JsonValue:
    if edited == shown:
        return real
    match edited, shown, real:
        case dict(), dict(), dict():
            return {k: _value(v, shown.get(k), real.get(k), f"{where}.{k}") for k, v in edited.items()}
        case list(), list(), list() if len(edited) == len(shown) == len(real):
            each = enumerate(zip(edited, shown, real, strict=True))
            return [_value(e, s, r, f"{where}[{n}]") for n, (e, s, r) in each]
        case str(), str(), str() if MASK in edited:
            return _text(edited, shown, real, where)
        case _ if _has_mask(edited):
            raise StillMaskedError(
                f"'{where}' still holds {MASK}. Write out what belongs there, or leave it as it was."
            )
        case _:
            return edited


def _text(edited: str, shown: str, real: str, where: str) -> str:
    pattern = "(.*?)".join(map(re.escape, shown.split(MASK)))
    hidden = re.fullmatch(pattern, real, re.DOTALL)
    if hidden is None or edited.count(MASK) != shown.count(MASK):
        raise StillMaskedError(
            f"'{where}' holds {MASK} more or less often than before. "
            "Write out what belongs there, or leave it as it was."
        )
    parts = edited.split(MASK)
    return "".join(text for pair in zip(parts, (*hidden.groups(), ""), strict=True) for text in pair)


def _has_mask(value: JsonValue) -> bool:
    match value:
        case str():
            return MASK in value
        case dict():
            return any(_has_mask(each) for each in value.values())
        case list():
            return any(map(_has_mask, value))
        case _:
            return False
