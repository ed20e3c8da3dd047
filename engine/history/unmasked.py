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
    stand for the same as before, in their order. A masked name of a member is the real one likewise, as
    long as nobody changed it. Raises `StillMaskedError` for any other mask.
    """
    return _fields(edited, shown, real, "")


def _fields(
    edited: dict[str, JsonValue], shown: dict[str, JsonValue], real: dict[str, JsonValue], where: str
) -> dict[str, JsonValue]:
    # Masking keeps the order of members, and every one of them.
    alike = zip(shown, real, strict=True) if len(shown) == len(real) else ()
    names = {label: name for label, name in alike if MASK in label}
    found: dict[str, JsonValue] = {}
    for label, value in edited.items():
        name, place = names.get(label, label), f"{where}{label}"
        if MASK in name and name not in real:
            raise StillMaskedError(
                f"The name '{place}' holds {MASK}. Write out what belongs there, or leave it as it was."
            )
        found[name] = _value(value, shown.get(label), real.get(name), place)
    return found


def _value(edited: JsonValue, shown: JsonValue, real: JsonValue, where: str) -> JsonValue:
    if edited == shown:
        return real
    match edited, shown, real:
        case dict(), dict(), dict():
            return _fields(edited, shown, real, f"{where}.")
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
