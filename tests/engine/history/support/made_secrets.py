"""Secrets for tests of masking."""

from __future__ import annotations

from typing import TypeVar, cast

from pydantic import JsonValue

from interlock.engine.history.redaction.redaction import MASK, Redaction
from interlock.engine.history.redaction.spans import MASKED

Shown = TypeVar("Shown")


def sizeless(value: Shown) -> Shown:
    """Return a value whose masks have no length; without masks, the same object."""
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
    """A redaction whose masks have no length, for tests that compare only their positions."""

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
    """Return the random part of a made-up key."""
    return (of * (length // len(of) + 1))[:length]
