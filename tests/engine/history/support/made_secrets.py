"""Secrets for tests of masking."""

from __future__ import annotations

from typing import TypeVar, cast

from pydantic import JsonValue

from interlock.engine.history.redaction.redaction import MASK, Redaction
from interlock.engine.history.redaction.spans import MASKED

Shown = TypeVar("Shown")


def sizeless(value: Shown) -> Shown:
    """A masked value whose masks do not say how much they hide; the same object without any mask."""
    match cast("JsonValue", value):
        case str(text) if MASKED.search(text):
            found: object = MASKED.sub(MASK, text)
        case dict(fields) if "[masked" in str(fields):
            found = {sizeless(name): sizeless(each) for name, each in fields.items()}
        case list(items) if "[masked" in str(items):
            found = [sizeless(each) for each in items]
        case _:
            return value
    return value if found == value else cast("Shown", found)


class Sizeless(Redaction):
    """A redaction of which only places are looked at, not how much its masks say that they hide."""

    def text(self, text: str) -> str:
        return sizeless(super().text(text))

    def command(self, text: str) -> str:
        return sizeless(super().command(text))

    def value(self, value: JsonValue) -> JsonValue:
        return sizeless(super().value(value))

    def fields(
        self, value: dict[str, JsonValue], shell_fields: tuple[str, ...] = ()
    ) -> dict[str, JsonValue]:
        return sizeless(super().fields(value, shell_fields))


R = Sizeless()
SECRET = "correct-horse-9"
WORDS = "abcdefghijklmnopqrstuvwxyz"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def run(length: int, of: str = LETTERS) -> str:
    """A made-up key's random part."""
    return (of * (length // len(of) + 1))[:length]
