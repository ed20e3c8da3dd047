"""The answer to a request as a person fills it in, field by field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from pydantic import JsonValue

from ..engine.history.state import ApprovalState
from ..engine.text import visible
from .answer_schema import AnswerField, LeftOut, fields_of
from .input_draft import FieldError


@dataclass(slots=True)
class AnswerDraft:
    """The fields of an answer, and what was typed so far."""

    fields: list[AnswerField]
    texts: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, request: ApprovalState) -> AnswerDraft:
        """With nothing filled in but what stands there beforehand; no field where nothing is wanted."""
        return cls([] if request.wants is None else fields_of(request.wants))

    def text_of(self, each: AnswerField) -> str:
        """What stands in a field now."""
        return self.texts.get(each.name, each.text)

    def answer(self) -> dict[str, JsonValue]:
        """The whole answer. Raises `FieldError`, which names the field."""
        found: dict[str, JsonValue] = {}
        for each in self.fields:
            try:
                value = each.read(self.text_of(each))
            except FieldError as error:
                raise FieldError(f"{visible(each.name)}: {error}" if each.path else str(error)) from error
            if not each.path:
                return cast("dict[str, JsonValue]", value)
            inside = found
            for step in each.path[:-1]:
                inside = cast("dict[str, JsonValue]", inside.setdefault(step, {}))
            if not isinstance(value, LeftOut):
                inside[each.path[-1]] = value
        return found

    def complained(self, problem: str) -> dict[str, str]:
        """What whoever checked the answer says, by the fields that it names."""
        found: dict[str, str] = {}
        for said in problem.split("; "):
            named = [each.name for each in self.fields if _about(said, each.name)]
            if named:
                name = max(named, key=len)
                found[name] = said.removeprefix(name).removeprefix(": ")
        return found


def _about(said: str, name: str) -> bool:
    return bool(name) and said.startswith((f"{name}: ", f"{name}."))
