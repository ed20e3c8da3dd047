"""What is never shown: values of fields with telling names, and keys whose format is known.

The journal keeps everything, so that a session can go on and be judged again; what leaves it towards a
screen or a file passes here. Masking errs on the side of hiding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar, cast

from pydantic import BaseModel, JsonValue

from .chain import CONTENT
from .elements import elements
from .events import EventBody, JournalEvent
from .given import given, options, users
from .key_formats import MARKS, without_keys
from .named_values import named_values
from .parts import CallRecord
from .spans import MASK, masked
from .telling import NAMES, TellingNames

__all__ = ["MASK", "NAMES", "Redaction"]

_USERS = ("-u", "-U", "--user", "--proxy-user")
_HELD = ("value", "Value")
_NAMED_BY = ("name", "key", "Name", "Key", "field", "header", "variable")
_NAME_BEHIND = re.compile(re.escape(MASK) + r"[A-Za-z0-9_.-]")

Body = TypeVar("Body", bound=BaseModel)


class Redaction:
    """Which values are masked. `also` are names of fields beyond `NAMES`; none takes one away."""

    def __init__(self, also: Iterable[str] = ()) -> None:
        self._names = TellingNames(also)
        self.telling = self._names.telling

    def text(self, text: str) -> str:
        """`text` with the secrets in it masked; the same object where there are none."""
        valueless = self._without_values(text)
        shown = without_keys(valueless)
        if shown is not valueless and _NAME_BEHIND.search(shown):  # of which the key was a part
            shown = without_keys(self._without_values(shown))
        return text if shown == text else shown

    def _without_values(self, text: str) -> str:
        """`text` with what it gives to telling names masked."""
        names = self._names
        ends = names.ends(text)
        if ends and "<" in text:
            whole, text = text, masked(text, elements(text, names, ends))
            ends = ends if text is whole else names.ends(text)
        if ends and "alue" in text:
            whole, text = text, masked(text, named_values(text, names, ends))
            ends = ends if text is whole else names.ends(text)
        if ends:
            text = masked(text, given(text, names, ends))
        if ends and "-" in text:
            text = masked(text, options(text, names))
        if ("-u" in text or "-U" in text) and "curl" in text.lower():
            text = masked(text, users(text))
        return text

    def value(self, value: JsonValue) -> JsonValue:
        """`value` with its secrets masked; the same object where there are none."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return self.fields(value)
            case list():
                shown = [self.value(item) for item in value]
                if all(isinstance(item, list) and len(item) == 2 for item in value):
                    shown = [self._pair(item) for item in shown]
                curl = "curl" in value
                for at, option in enumerate(value[:-1]):
                    if self._takes(option, value[at + 1]):
                        shown[at + 1] = _hidden(value[at + 1])
                    elif curl and option in _USERS:
                        shown[at + 1] = _user(shown[at + 1])
                return value if all(a is b for a, b in zip(shown, value, strict=True)) else shown
            case _:
                return value

    def _pair(self, pair: JsonValue) -> JsonValue:
        """A name and its value in a list of such, as headers are given."""
        match pair:
            case [str(name), value] if self.telling(name) and _hidden(value) is not value:
                return [name, _hidden(value)]
            case _:
                return pair

    def _takes(self, option: JsonValue, value: JsonValue) -> bool:
        """Whether `option` of a command is one whose value, the next word, is hidden."""
        return (
            isinstance(option, str)
            and option.startswith("-")
            and self.telling(option)
            and isinstance(value, str)
            and not value.startswith("-")
        )

    def fields(self, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """An object likewise. Under a telling name all is masked but `null`, `true` and `false`."""
        shown = {k: self.value(v) for k, v in value.items()}
        shown = {k: _hidden(v) if self.telling(k) else v for k, v in shown.items()}
        for held in _HELD:
            if held in value and any(map(self._is_telling, map(value.get, _NAMED_BY))):
                shown[held] = _hidden(shown[held])
        same = all(shown[k] is v for k, v in value.items())
        if all(map(str.isidentifier, value)) and not any(map(MARKS.search, value)):
            return value if same else shown
        named: dict[str, JsonValue] = {}
        for name, each in shown.items():
            label = self.text(name)
            while label in named:  # two keys may look alike behind their masks
                label = f"{label}'"
            named[label] = each
        return value if same and named.keys() == value.keys() else named

    def _is_telling(self, name: JsonValue) -> bool:
        return isinstance(name, str) and self.telling(name)

    def body(self, body: EventBody) -> EventBody:
        """An event's body as it may be shown; the same object where nothing is hidden."""
        return self.model(body)

    def event(self, event: JournalEvent) -> JournalEvent:
        """An event as it may be shown; the same object where nothing is hidden."""
        body = self.body(event.body)
        return event if body is event.body else event.model_copy(update={"body": body})

    def model(self, model: Body) -> Body:
        """Anything with fields named as an event's content, such as a call's state, likewise."""
        update: dict[str, object] = {}
        for name in _content_fields(type(model)):
            value: object = getattr(model, name)
            shown = self._content(value)
            if shown is not value:
                update[name] = shown
        return model.model_copy(update=update) if update else model

    def _content(self, value: object) -> object:
        match value:
            case str():
                return self.text(value)
            case tuple():
                calls = cast(tuple[CallRecord, ...], value)
                shown = tuple(self.model(call) for call in calls)
                return calls if all(a is b for a, b in zip(shown, calls, strict=True)) else shown
            case dict():
                return self.fields(cast(dict[str, JsonValue], value))
            case _:
                return value


@lru_cache(maxsize=256)
def _content_fields(kind: type[BaseModel]) -> tuple[str, ...]:
    """The fields of a model that are looked through."""
    return tuple(CONTENT & kind.model_fields.keys())


def _user(value: JsonValue) -> JsonValue:
    """A user without the password, as curl has both behind an option."""
    if not isinstance(value, str) or ":" not in value:
        return value
    name, _, password = value.partition(":")
    return f"{name}:{MASK}" if password not in ("", MASK) else value


def _hidden(value: JsonValue) -> JsonValue:
    """`value` under a telling name; the same object where nothing is to be hidden."""
    match value:
        case None | bool() | "":
            return value
        case str() if value == MASK:
            return value
        case dict():
            fields = {k: _hidden(v) for k, v in value.items()}
            return value if all(fields[k] is v for k, v in value.items()) else fields
        case list():
            items = [_hidden(v) for v in value]
            return value if all(a is b for a, b in zip(items, value, strict=True)) else items
        case _:
            return MASK
