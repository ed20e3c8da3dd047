"""What a request wants to know of a person, besides whether they approve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import JsonValue

NOTHING = "This request wants an answer: fill it in"


@dataclass(frozen=True, slots=True)
class Wanted:
    """An answer to fill in: its JSON Schema, and what says why a given one is `unfit`, or `None`.

    `title` and `message` are what the request says.
    """

    title: str
    message: str
    schema: dict[str, JsonValue]
    unfit: Callable[[dict[str, JsonValue]], str | None]

    def problem(self, answer: dict[str, JsonValue] | None) -> str | None:
        """Why an answer cannot be taken; `None` when it can."""
        return NOTHING if answer is None else self.unfit(answer)
