"""A call's input as an operator edits it: each field as text, parsed back to its JSON type."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal, cast

from pydantic import JsonValue

from ...engine.core.json_values import same_json
from ...engine.core.plan import PLAN
from ...engine.core.sanitize import json_escaped, visible, visible_json
from ...engine.history.model.state import ApprovalState
from ..terminal.charset import ascii_only, with_certain_width

Kind = Literal["text", "escaped", "number", "boolean", "json", "kept"]

LONGEST = 100_000
"""Maximum characters of an editable field; a longer one is kept unchanged."""
MOST = 40
"""Maximum fields that are edited individually; a larger input is edited as one object."""
ALL = ""
"""Name of the field that represents the whole input."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class FieldError(ValueError):
    """Typed text that the field does not accept; the message says what was found and where."""


@dataclass(frozen=True, slots=True)
class InputField:
    """One editable field; `text` is its value as first shown.

    The value of kind `text` is shown unchanged. Kind `escaped` has invisible characters and is shown as
    JSON. Kind `kept` is not editable.
    """

    name: str
    value: JsonValue
    kind: Kind
    text: str

    @property
    def type_name(self) -> str:
        """Return the type of the value, in words."""
        names = {
            "text": "text",
            "escaped": "text as JSON",
            "number": "number",
            "boolean": "true or false",
        }
        return names.get(self.kind) or type_name(self.value)

    def read(self, text: str) -> JsonValue:
        """Parse `text`. Raises `FieldError`."""
        if text == self.text:
            return self.value
        match self.kind:
            case "text":
                return text
            case "number":
                return _number(text)
            case "boolean":
                return text == "true"
            case "kept":
                return self.value
            case "escaped" | "json":
                return self._json(text)

    def _json(self, text: str) -> JsonValue:
        value = read_json(text)
        # Null has no type to keep.
        if self.value is not None and type_name(value) != type_name(self.value):
            expected, found = with_article(type_name(self.value)), with_article(type_name(value))
            raise FieldError(f"expected {expected}, found {found}")
        return value


def type_name(value: JsonValue) -> str:
    """Return a value's JSON type, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case dict():
            return "object"


def with_article(name: str) -> str:
    """Return the name of a type for use in a sentence."""
    if name in ("null", "text", "true or false"):
        return name
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def field_of(name: str, value: JsonValue) -> InputField:
    """Return the field for editing a value, by the value's type and length."""
    match value:
        case bool():
            return InputField(name, value, "boolean", json.dumps(value))
        case int() | float():
            return InputField(name, value, "number", json.dumps(value))
        case str():
            kind: Kind = "text" if _plain(value) else "escaped"
            text = value if kind == "text" else safe_json(value)
        case _:
            kind, text = "json", safe_json(value, 2)
    return InputField(name, value, kind if len(text) <= LONGEST else "kept", text)


def _plain(text: str) -> bool:
    """Return whether a text can be edited unescaped: every character is shown as itself."""
    if ascii_only() and not text.isascii():
        return False
    return visible(text, keep_newlines=True) == text == with_certain_width(text)


def safe_json(value: JsonValue, indent: int | None = None) -> str:
    """Return a value as JSON, with escapes for characters that a terminal would interpret or hide."""
    if ascii_only():
        return json.dumps(value, indent=indent)
    return visible_json(
        with_certain_width(json.dumps(value, ensure_ascii=False, indent=indent), json_escaped)
    )


def read_json(text: str) -> JsonValue:
    """Parse JSON that an operator typed. Raises `FieldError`, with line and column if known."""
    try:
        value = cast(
            "JsonValue",
            json.loads(text, object_pairs_hook=_once, parse_constant=_constant, parse_float=_finite),
        )
    except json.JSONDecodeError as error:
        raise FieldError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise FieldError("it is nested too deeply") from error
    except ValueError as error:
        raise FieldError(str(error)) from error
    if _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise FieldError("it has only half of a surrogate pair")
    return value


def _once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Build an object; reject a repeated name, which would hide the earlier value."""
    found: dict[str, JsonValue] = {}
    for name, value in pairs:
        if name in found:
            raise FieldError(f"'{visible(name)}' occurs twice")
        found[name] = value
    return found


def _constant(name: str) -> float:
    raise FieldError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise FieldError(f"{text} is too large")
    return number


def _number(text: str) -> JsonValue:
    try:
        value = read_json(text)
    except FieldError as error:
        found = f"'{visible(text.strip())[:40]}'" if text.strip() else "nothing"
        raise FieldError(f"expected a number, found {found}") from error
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError(f"expected a number, found {with_article(type_name(value))}")
    return value


@dataclass(frozen=True, slots=True)
class Change:
    """A field before and after an edit."""

    name: str
    before: JsonValue
    after: JsonValue


@dataclass(slots=True)
class InputDraft:
    """An input, and the text typed for its fields so far."""

    original: Mapping[str, JsonValue]
    texts: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def fields(self) -> list[InputField]:
        """Return the fields in order, or one field for a large input."""
        if len(self.original) > MOST:
            return [field_of(ALL, dict(self.original))]
        return [field_of(name, value) for name, value in self.original.items()]

    def text_of(self, each: InputField) -> str:
        """Return the current text of a field."""
        return self.texts.get(each.name, each.text)

    def edited(self) -> dict[str, JsonValue]:
        """Return the whole edited input. Raises `FieldError`, which names the field."""
        values: dict[str, JsonValue] = {}
        for each in self.fields:
            try:
                values[each.name] = each.read(self.text_of(each))
            except FieldError as error:
                raise FieldError(f"{visible(each.name)}: {error}" if each.name else str(error)) from error
        if len(self.original) > MOST:
            return cast("dict[str, JsonValue]", values[ALL])
        return values


def edit_effects(request: ApprovalState) -> tuple[str, ...]:
    """Return sentences on the consequences of an edit."""
    checked = (
        "Rules are checked again on the edited call; it may be blocked or need approval. "
        "The agent sees your changes."
    )
    if not request.renewed_by_edit:
        return (checked,)
    if request.called == PLAN:
        return (checked, "The edited plan is asked about again, with its own forecast.")
    approvers = "your passkey signs" if request.passkey else "everybody approves"
    return (checked, f"The edited call is asked about again, and {approvers} that one.")


def edit_words(request: ApprovalState) -> str:
    """Return the label for the action of a reviewed edit."""
    return f"{'ask again' if request.renewed_by_edit else 'approve'} with these changes"


def changes(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> list[Change]:
    """Return the fields that differ, compared as JSON values."""
    names = dict.fromkeys([*before, *after])
    return [
        Change(name, before.get(name), after.get(name))
        for name in names
        if name not in before or name not in after or not same_json(before[name], after[name])
    ]
