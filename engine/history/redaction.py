"""What is never shown: values of fields with telling names, and keys whose format is known.

The journal keeps everything, so that a session can go on and be judged again; what leaves it towards a
screen or a file passes here. Masking errs on the side of hiding.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeVar, cast

from pydantic import BaseModel, JsonValue

from .chain import CONTENT
from .events import CallRecord, EventBody, JournalEvent
from .given import given, options

MASK = "[masked]"

NAMES = (
    "access key",
    "account key",
    "api key",
    "api keys",
    "auth",
    "auth key",
    "authorization",
    "client secret",
    "connection string",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "encryption key",
    "master key",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "private key",
    "pwd",
    "secret",
    "secret key",
    "secrets",
    "signing key",
    "ssh key",
    "token",
)
"""A field is telling when its name ends with the words of one of these: `dbPassword`, `X-Api-Key`."""

_ENDINGS = ("password", "passwd", "passphrase", "secret", "token", "apikey")
"""So does a word that ends so: `PGPASSWORD`, `authtoken`."""

_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Where a key begins: not within a word, but for one that is a newline's escape."""

_KEY_FORMATS: Mapping[str, str] = {
    "-----BEGIN": (
        r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?"
        r"(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    ),
    "AKIA": rf"{_START}AKIA[A-Z0-9]{{16}}(?![A-Z0-9])",
    "ASIA": rf"{_START}ASIA[A-Z0-9]{{16}}(?![A-Z0-9])",
    "AIza": rf"{_START}AIza[A-Za-z0-9_-]{{30,}}",
    "gh": rf"{_START}gh[pousr]_[A-Za-z0-9]{{20,}}",
    "github_pat_": rf"{_START}github_pat_[A-Za-z0-9_]{{20,}}",
    "glpat-": rf"{_START}glpat-[A-Za-z0-9_-]{{20,}}",
    "hf_": rf"{_START}hf_[A-Za-z0-9]{{30,}}",
    "npm_": rf"{_START}npm_[A-Za-z0-9]{{30,}}",
    "pypi-": rf"{_START}pypi-[A-Za-z0-9_-]{{30,}}",
    "k_live_": rf"{_START}[rs]k_live_[A-Za-z0-9]{{16,}}",
    "k_test_": rf"{_START}[rs]k_test_[A-Za-z0-9]{{16,}}",
    "sk-": rf"{_START}sk-[A-Za-z0-9_-]{{16,}}",
    "SG.": rf"{_START}SG\.[A-Za-z0-9_-]{{16,}}\.[A-Za-z0-9_-]{{16,}}",
    "xox": rf"{_START}xox[abeoprs]-[A-Za-z0-9-]{{10,}}",
    # Its first part may have hyphens: were it looked for behind each, a long text would take forever.
    "eyJ": (
        r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))eyJ[A-Za-z0-9_-]{7,}+"
        r"\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"
    ),
}
"""Keys that can be told by their look, by the text that each has in it."""

_FORMATS = {mark: re.compile(pattern, re.DOTALL) for mark, pattern in _KEY_FORMATS.items()}
_MARKS = re.compile("|".join(map(re.escape, _FORMATS)))
_BEARER = re.compile(r"\b(bearer\s{1,8})[A-Za-z0-9+/._~-]{8,}=*", re.IGNORECASE)
_BASIC = re.compile(r"\b(basic\s{1,8})([A-Za-z0-9+/_-]{6,}=*)", re.IGNORECASE)
_USER = re.compile(r"(://[^\s/:@\"'\\<>]*:)[^\s/\"'\\<>]+(?=@)")
_CURL_USER = re.compile(r"((?<!\S)(?:-u|--user)(?:\s{0,8}|=)[\"']?[^\s:\"']{1,256}:)[^\s\"']+")
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")

Body = TypeVar("Body", bound=BaseModel)


class Redaction:
    """Which values are masked. `also` are names of fields beyond `NAMES`; none takes one away."""

    def __init__(self, also: Iterable[str] = ()) -> None:
        self._names = frozenset(_words(name) for name in (*NAMES, *also)) - {()}
        self.telling = lru_cache(maxsize=4096)(self._telling)

    def _telling(self, name: str) -> bool:
        """Whether a field of this name holds what is not to be shown."""
        words = _words(name)
        return bool(words) and (
            words[-1].endswith(_ENDINGS)
            or any(words[-size:] in self._names for size in range(1, len(words) + 1))
        )

    def text(self, text: str) -> str:
        """`text` with the secrets in it masked; the same object where there are none."""
        original = text
        text = _masked(text, given(text, self.telling))
        if "-" in text:
            text = _masked(text, options(text, self.telling))
        for mark, pattern in _FORMATS.items():
            if mark in text:
                text = pattern.sub(MASK, text)
        lower = text.lower()
        if "bearer" in lower:
            text = _BEARER.sub(rf"\1{MASK}", text)
        if "basic" in lower:
            text = _BASIC.sub(_without_user, text)
        if "://" in text:
            text = _USER.sub(rf"\1{MASK}", text)
        if "curl" in lower:
            text = _CURL_USER.sub(rf"\1{MASK}", text)
        return original if text == original else text

    def value(self, value: JsonValue) -> JsonValue:
        """`value` with its secrets masked; the same object where there are none."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return self.fields(value)
            case list():
                shown = [self.value(item) for item in value]
                for at, option in enumerate(value[:-1]):
                    if self._takes(option, value[at + 1]):
                        shown[at + 1] = _hidden(value[at + 1])
                return value if all(a is b for a, b in zip(shown, value, strict=True)) else shown
            case _:
                return value

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
        name = value.get("name", value.get("key"))
        if isinstance(name, str) and self.telling(name) and "value" in value:
            shown["value"] = _hidden(shown["value"])
        same = all(shown[k] is v for k, v in value.items())
        if not any(map(_MARKS.search, value)):
            return value if same else shown
        named = {self.text(k): v for k, v in shown.items()}
        return value if same and named.keys() == value.keys() else named

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


def _words(name: str) -> tuple[str, ...]:
    """The words of a name in small letters, without a number at its end."""
    words = [word.lower() for word in _WORDS.split(name) if word]
    while words and words[-1].isdigit():
        words.pop()
    return (*words[:-1], words[-1].rstrip("0123456789")) if words else ()


def _masked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += (text[done:start], MASK)
        done = end
    return "".join((*parts, text[done:])) if parts else text


def _without_user(found: re.Match[str]) -> str:
    """`Basic` and a name with a password, masked; words of a sentence as they are."""
    text = found[2].rstrip("=")
    try:
        said = b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return found[0]
    return f"{found[1]}{MASK}" if b":" in said else found[0]


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
