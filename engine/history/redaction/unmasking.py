"""Restoring masked parts in an input that an operator edited."""

from __future__ import annotations

from pydantic import JsonValue

from ...core.json_values import same_json
from .spans import MASKED, behind_masks, holds_mask, masks_in


class StillMaskedError(ValueError):
    """An edited input has a mask whose text is not known; the message says where."""


def unmasked(
    edited: dict[str, JsonValue], shown: dict[str, JsonValue], real: dict[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return `edited` with each mask of `shown` replaced by the text of `real` at that position.

    A value that was not edited is the real one. In a text edited around its masks, they stand for the
    same texts as before, in order. A masked name of a member is the real name likewise, unless it was
    changed. Raises `StillMaskedError` for any other mask.
    """
    return _fields(edited, shown, real, "")


def _fields(
    edited: dict[str, JsonValue],
    masked_fields: dict[str, JsonValue],
    real: dict[str, JsonValue],
    where: str,
) -> dict[str, JsonValue]:
    # Masking keeps all members and their order.
    name_pairs = zip(masked_fields, real, strict=True) if len(masked_fields) == len(real) else ()
    names = {label: name for label, name in name_pairs if holds_mask(label)}
    fields: dict[str, JsonValue] = {}
    for label, value in edited.items():
        name, place = names.get(label, label), f"{where}{label}"
        if holds_mask(name) and name not in real:
            raise StillMaskedError(
                f"The name '{place}' has a mask. Replace it with the actual text, or leave it as it was."
            )
        fields[name] = _value(value, masked_fields.get(label), real.get(name), place)
    return fields


def _value(edited: JsonValue, masked_value: JsonValue, real: JsonValue, where: str) -> JsonValue:
    if same_json(edited, masked_value):
        return real
    match edited, masked_value, real:
        case dict(), dict(), dict():
            return _fields(edited, masked_value, real, f"{where}.")
        case list(), list(), list() if len(edited) == len(masked_value) == len(real):
            each = enumerate(zip(edited, masked_value, real, strict=True))
            return [_value(e, s, r, f"{where}[{n}]") for n, (e, s, r) in each]
        case str(), str(), str() if holds_mask(edited):
            return _text(edited, masked_value, real, where)
        case _ if _has_mask(edited):
            raise StillMaskedError(
                f"'{where}' still has a mask. Replace it with the actual text, or leave it as it was."
            )
        case _:
            return edited


def _text(edited: str, masked_text: str, real: str, where: str) -> str:
    hidden = behind_masks(masked_text, real)
    if hidden is None or masks_in(edited) != masks_in(masked_text):
        raise StillMaskedError(
            f"The masks in '{where}' are not those that were shown, in their order. "
            "Replace them with the actual text, or leave them as they were."
        )
    texts = iter(hidden)
    return MASKED.sub(lambda _: next(texts), edited)


def _has_mask(value: JsonValue) -> bool:
    match value:
        case str():
            return holds_mask(value)
        case dict():
            return any(_has_mask(each) for each in value.values())
        case list():
            return any(map(_has_mask, value))
        case _:
            return False
