"""Masking of secrets: values of fields with sensitive names, and keys of known formats.

The journal keeps everything, so that a session can continue and be judged again. What leaves it for a
screen or a file is masked here. In doubt a text is masked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache
from operator import is_
from typing import NamedTuple, TypeVar, cast

from pydantic import BaseModel, JsonValue

from ..audit.canonical_json import canonical
from ..audit.hash_chain import CONTENT
from ..model.events import ApprovalRequested, EventBody, JournalEvent
from ..model.records import CallRecord
from ..model.state import ApprovalState
from .assignments import assigned_values, curl_passwords, option_values, sentence_values
from .formats.blocks import SECRET_KIND, manifest_values
from .formats.key_formats import KEY_SIGNS, hide_keys, may_hold_key
from .formats.markup import elements, properties
from .hidden_text import hidden_texts
from .named_values import changed_values, default_values, named_values
from .secret_names import NAMES, TellingNames, latin
from .shell.arguments import argument_values
from .shell.masking import Paths, ShellReader, is_shell_field, paths_below, shell_spans, shell_texts
from .shell.options import holds_program, password_start
from .spans import MASK, MASKED, Masking, Span, mask_of, masked

__all__ = ["MASK", "NAMES", "Redaction"]

STATED = frozenset({"original", "comments"})
"""Fields of a state, not of an event, that are content."""
_SIGNS = ("curl", "key", "secret")
"""Parts, in lower case, of texts that assign values in other ways."""
_USERS = ("-u", "-U", "--user", "--proxy-user")
_SHORT = 1_000
"""Maximum length of a text or command whose masked form is cached for later events."""
_KEPT = 512
"""Number of cached texts. A call's input is in its proposal, its request and its decision."""
_LONG = 100_000
"""Maximum length of a text that is cached for the events right after it."""
_KEPT_LONG = 4
_WORDS = 16
"""Number of words before an option among which its program is searched."""
_HELD = ("value", "Value")
_NAMED_BY = ("name", "key", "Name", "Key", "field", "header", "variable")
_PLAIN_WORD = re.compile(r"[^\s;&|<>()$`]+")
_NAME_BEHIND = re.compile(re.escape(MASK) + r"[A-Za-z0-9_.-]")

_VALUES_OF_NAMES: tuple[tuple[str, Callable[[str, TellingNames, Sequence[int]], Iterator[Span]]], ...] = (
    ("<", elements),
    ("alue", named_values),
    ("default", lambda text, names, _: default_values(text, names)),
    ("changed ", changed_values),
    ("", argument_values),
    ("", sentence_values),
)
"""Ways in which a text assigns values to sensitive names, each with a part of such texts."""

Body = TypeVar("Body", bound=BaseModel)
Request = TypeVar("Request", ApprovalRequested, ApprovalState)


class _FieldName(NamedTuple):
    """Properties of a field name: sensitive, of shell commands, or `plain`, which is not a key itself."""

    telling: bool
    shell: bool
    plain: bool


class Redaction:
    """Masking of values. `also` are field names beyond `NAMES`; they cannot remove any.

    `reader` determines which words of a shell command are literal; without one only plain words are
    masked.
    """

    def __init__(self, also: Iterable[str] = (), reader: ShellReader | None = None) -> None:
        self._names = TellingNames(also)
        self.telling = self._names.telling
        self._signs = tuple({*self._names.sights, *KEY_SIGNS, *_SIGNS})
        self._masked_short = lru_cache(_KEPT)(self._mask)
        self._masked_long = lru_cache(_KEPT_LONG)(self._mask)
        self._field = lru_cache(_KEPT)(self._look_at)
        self._read_with(reader)

    def reading(self, reader: ShellReader) -> Redaction:
        """Return a copy with a reader of shell commands, or this object if it has one."""
        if self._reader is not None:
            return self
        redaction = copy(self)
        redaction._read_with(reader)
        return redaction

    def _read_with(self, reader: ShellReader | None) -> None:
        self._reader = reader
        self._masked_command = lru_cache(_KEPT)(self._command)

    def text(self, text: str) -> str:
        """Return `text` with its secrets masked; the same object if it has none."""
        size = len(text)
        mask = (
            self._masked_short if size <= _SHORT else self._masked_long if size <= _LONG else self._mask
        )
        masked_text = mask(text)
        return text if masked_text == text else masked_text

    def _mask(self, text: str) -> str:
        return masked(text, self._spans(text))

    def command(self, text: str) -> str:
        """Return a shell command with the secrets in its words masked; the same object if it has none."""
        masked_text = self._masked_command(text) if len(text) <= _SHORT else self._command(text)
        return text if masked_text == text else masked_text

    def _command(self, text: str) -> str:
        return masked(text, shell_spans(text, self._spans, self._reader))

    def _spans(self, text: str) -> list[Span]:
        """Return the spans of secrets in `text`, in order."""
        masking = Masking(latin(text))
        lower = masking.lower
        signs = {sign for sign in self._signs if sign in lower}
        if signs:
            self._hide_values(masking, signs)
        if hide_keys(masking, signs) and _NAME_BEHIND.search(masking.text):  # of which it was a part
            self._hide_values(masking, signs)
            hide_keys(masking, signs)
        return masking.spans()

    def _hide_values(self, masking: Masking, signs: Collection[str]) -> None:
        """Hide the values that `text` assigns to sensitive names; `signs` are those in it."""
        names, text = self._names, masking.text
        ends = names.ends(masking.lower, signs)
        for sign, values in _VALUES_OF_NAMES:
            if ends and sign in text and masking.hide(values(text, names, ends)):
                text = masking.text
                ends = names.ends(masking.lower, signs)
        if ends:
            masking.hide(assigned_values(text, names, ends))
        if ends and "-" in masking.text:
            masking.hide(option_values(masking.text, names))
        if "key" in signs and "</key>" in text:
            masking.hide(properties(masking.text, names))
        if "secret" in signs and "kind: Secret" in text:
            masking.hide(manifest_values(masking.text))
        text = masking.text
        if "curl" in signs and ("-u" in text or "-U" in text):
            masking.hide(curl_passwords(text))

    def value(self, value: JsonValue) -> JsonValue:
        """Return `value` with its secrets masked; the same object if it has none."""
        return self._value(value, (), shell=False)

    def _value(self, value: JsonValue, paths: Paths, *, shell: bool) -> JsonValue:
        match value:
            case str():
                return self.command(value) if shell else self.text(value)
            case dict():
                return self._fields(value, paths, shell=shell)
            case list():
                return self._items(value, paths, shell=shell)
            case _:
                return value

    def _items(self, value: list[JsonValue], paths: Paths, *, shell: bool) -> list[JsonValue]:
        masked_items = [self._value(item, paths, shell=shell) for item in value]
        if all(isinstance(item, list) and len(item) == 2 for item in value):
            masked_items = [self._pair(item, one) for item, one in zip(value, masked_items, strict=True)]
        curl = "curl" in value
        programs = holds_program(value)
        for at, option in enumerate(value[:-1]):
            following = value[at + 1]
            if shell and isinstance(following, str) and _PLAIN_WORD.fullmatch(following) is None:
                continue  # what a shell may run is shown
            if self._takes(option, following):
                masked_items[at + 1] = _mask_value(following)
            elif curl and option in _USERS:
                masked_items[at + 1] = self._user(following)
            elif programs and isinstance(following, str):
                start = password_start(value[max(0, at - _WORDS) : at + 1], following)
                if start is not None:
                    masked_items[at + 1] = following[:start] + mask_of(following[start:])
        return value if all(a is b for a, b in zip(masked_items, value, strict=True)) else masked_items

    def _pair(self, pair: JsonValue, masked_value: JsonValue) -> JsonValue:
        """Mask a name and its value in a list of pairs, such as headers."""
        match pair:
            case [str(name), value] if self.telling(name) and _mask_value(value) is not value:
                return [name, _mask_value(value)]
            case _:
                return masked_value

    def _user(self, value: JsonValue) -> JsonValue:
        """Mask the password in `user:password`, as in the value of a curl option."""
        if not isinstance(value, str) or ":" not in value:
            return value
        name, _, password = value.partition(":")
        return f"{self.text(name)}:{_mask_value(password)}"

    def _takes(self, option: JsonValue, value: JsonValue) -> bool:
        """Return whether `option` of a command is one whose value, the next word, is hidden."""
        return (
            isinstance(option, str)
            and option.startswith("-")
            and self.telling(option)
            and isinstance(value, str)
            and not value.startswith("-")
        )

    def fields(self, value: dict[str, JsonValue], shell_fields: Paths = ()) -> dict[str, JsonValue]:
        """Mask an object. Under a sensitive name everything but `null`, `true` and `false` is masked.

        `shell_fields` are fields with shell commands besides those with the usual names.
        """
        return self._fields(value, shell_fields, shell=False)

    def _fields(self, value: dict[str, JsonValue], paths: Paths, *, shell: bool) -> dict[str, JsonValue]:
        masked_fields: dict[str, JsonValue] = {}
        are_names_plain = True
        for k, v in value.items():
            name = self._field(k)
            if name.telling:
                masked_value = _mask_value(v)
            else:
                inner_paths = paths_below(k, paths) if paths else ()
                masked_value = self._value(v, inner_paths, shell=shell or name.shell or k in paths)
            masked_fields[k] = masked_value
            are_names_plain = are_names_plain and name.plain
        if value.get("kind") == SECRET_KIND:
            masked_fields |= {k: _mask_value(value[k]) for k in ("data", "stringData") if k in value}
        for field in _HELD:
            if field in value and any(map(self._is_telling, map(value.get, _NAMED_BY))):
                masked_fields[field] = _mask_value(value[field])
        same = all(map(is_, masked_fields.values(), value.values()))
        if are_names_plain:
            return value if same else masked_fields
        labelled_fields: dict[str, JsonValue] = {}
        for name, each in masked_fields.items():
            label = self.text(name)
            while label in labelled_fields:  # two keys may look alike behind their masks
                label = f"{label}'"
            labelled_fields[label] = each
        return value if same and labelled_fields.keys() == value.keys() else labelled_fields

    def _look_at(self, name: str) -> _FieldName:
        return _FieldName(
            self.telling(name), is_shell_field(name), name.isidentifier() and not may_hold_key(name)
        )

    def _is_telling(self, name: JsonValue) -> bool:
        return isinstance(name, str) and self.telling(name)

    def body(self, body: EventBody) -> EventBody:
        """Return an event's body for display; the same object if nothing is hidden."""
        return self.model(body)

    def event(self, event: JournalEvent) -> JournalEvent:
        """Return an event for display; the same object if nothing is hidden and nothing filled in."""
        body = event.body
        body = self.request(body) if isinstance(body, ApprovalRequested) else self.body(body)
        return event if body is event.body else event.model_copy(update={"body": body})

    def request(self, request: Request) -> Request:
        """Return a request for display, with the commands that it runs and the texts that masks hide.

        Both are derived from the unmasked call, so that nothing runs that a mask hides (G-51).
        """
        masked_request = self.model(request)
        hidden = hidden_texts(
            masked_request.input, request.input, request.shell_fields, tool=request.called
        )
        runs = self._runs(request)
        if not hidden and not runs:
            return masked_request
        return masked_request.model_copy(
            update={"runs": runs, "hidden": tuple(hidden_text for hidden_text, _ in hidden)}
        )

    def _runs(self, request: ApprovalRequested | ApprovalState) -> tuple[str, ...]:
        """Return the simple commands of a call's shell commands, each as written except for secrets.

        Empty if that adds nothing to the input: no rule looks into it, or it is a single command.
        """
        if self._reader is None or (len(request.names) < 2 and request.uninspectable is None):
            return ()
        texts = list(shell_texts(request.input, request.shell_fields))
        commands = [command for text in texts for command in self._reader.commands(text)]
        if [command.strip() for command in commands] == [text.strip() for text in texts]:
            return ()
        if len(texts) == 1 and len(commands) == request.commands:
            first = [commands[at] for at in request.marked if 0 <= at < len(commands)]
            commands = [*first, *(each for at, each in enumerate(commands) if at not in request.marked)]
        return tuple(map(self.command, commands))

    def model(self, model: Body) -> Body:
        """Mask any model with fields named like an event's content, such as a call's state."""
        update: dict[str, object] = {}
        names, has_shell_fields = _content_fields(type(model))
        paths: Paths = getattr(model, "shell_fields", ()) if has_shell_fields else ()
        members = model.__dict__
        for name in names:
            value: object = members[name]
            if not value:
                continue
            if name == "preview" and isinstance(value, str):
                call_input: dict[str, JsonValue] = getattr(model, "input", {})
                masked_value: object = self._quoting(value, shell_texts(call_input, paths))
            else:
                masked_value = self._content(value, paths)
            if masked_value is not value:
                update[name] = masked_value
        if update and "digest_salt" in type(model).model_fields:
            # With the salt a short input could be found by trying values.
            update["digest_salt"] = None
        return model.model_copy(update=update) if update else model

    def _quoting(self, text: str, commands: Iterable[str]) -> str:
        """Mask the secrets in a text; `commands` that it quotes are masked like commands."""
        quoted_commands = sorted({each for each in commands if each.strip() and each in text}, key=len)
        if not quoted_commands:
            return self.text(text)
        pieces: list[str] = []
        at = 0
        for match in re.finditer("|".join(map(re.escape, reversed(quoted_commands))), text):
            pieces += (self.text(text[at : match.start()]), self.command(match[0]))
            at = match.end()
        masked_text = "".join((*pieces, self.text(text[at:])))
        return text if masked_text == text else masked_text

    def _content(self, value: object, paths: Paths) -> object:
        match value:
            case str():
                return self.text(value)
            case tuple():
                calls = cast(tuple[CallRecord, ...], value)
                masked_calls = tuple(self.model(call) for call in calls)
                return (
                    calls
                    if all(a is b for a, b in zip(masked_calls, calls, strict=True))
                    else masked_calls
                )
            case dict():
                return self.fields(cast(dict[str, JsonValue], value), paths)
            case _:
                return value


@lru_cache(maxsize=256)
def _content_fields(kind: type[BaseModel]) -> tuple[tuple[str, ...], bool]:
    """Return the fields of a model that are masked, and whether it declares shell fields."""
    names = kind.model_fields.keys()
    return tuple((CONTENT - {"digest_salt"} | STATED) & names), "shell_fields" in names


def _mask_value(value: JsonValue) -> JsonValue:
    """Mask `value` under a sensitive name; return the same object if there is nothing to hide."""
    match value:
        case None | bool() | "":
            return value
        case str():
            return value if MASKED.fullmatch(value) else mask_of(value)
        case dict():
            fields = {k: _mask_value(v) for k, v in value.items()}
            return value if all(fields[k] is v for k, v in value.items()) else fields
        case list():
            items = [_mask_value(v) for v in value]
            return value if all(a is b for a, b in zip(items, value, strict=True)) else items
        case _:
            return mask_of(canonical(value))  # as an export writes it
