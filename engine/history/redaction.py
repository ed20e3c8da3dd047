"""What is never shown: values of fields with telling names, and keys whose format is known.

The journal keeps everything, so that a session can go on and be judged again; what leaves it towards a
screen or a file passes here. Masking errs on the side of hiding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeVar, cast

from pydantic import BaseModel, JsonValue

from .chain import CONTENT
from .events import CallRecord, EventBody, JournalEvent

MASK = "[masked]"

NAMES = (
    "access key",
    "api key",
    "apikey",
    "auth",
    "authorization",
    "client secret",
    "connection string",
    "cookie",
    "credential",
    "credentials",
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
    "token",
)
"""A field is telling when its name ends with the words of one of these: `dbPassword`, `X-Api-Key`."""

_KEY_FORMATS: Mapping[str, str] = {
    "-----BEGIN": r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    "AKIA": r"\bAKIA[A-Z0-9]{16}\b",
    "ASIA": r"\bASIA[A-Z0-9]{16}\b",
    "AIza": r"\bAIza[A-Za-z0-9_-]{30,}",
    "gh": r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    "github_pat_": r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    "glpat-": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "hf_": r"\bhf_[A-Za-z0-9]{30,}",
    "npm_": r"\bnpm_[A-Za-z0-9]{30,}",
    "pypi-": r"\bpypi-[A-Za-z0-9_-]{30,}",
    "k_live_": r"\b[rs]k_live_[A-Za-z0-9]{16,}",
    "k_test_": r"\b[rs]k_test_[A-Za-z0-9]{16,}",
    "sk-": r"\bsk-[A-Za-z0-9_-]{16,}",
    "SG.": r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    "xox": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "eyJ": r"\beyJ[A-Za-z0-9_-]{7,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
}
"""Keys that can be told by their look, by the text that each has in it."""

_FORMATS = {mark: re.compile(pattern, re.DOTALL) for mark, pattern in _KEY_FORMATS.items()}
_SCHEME = re.compile(r"\b((?:bearer|basic)\s{1,8})[A-Za-z0-9+/._~-]{8,}=*", re.IGNORECASE)
_USER = re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)")
_GIVEN = re.compile(r"=|\\?[\"']\s{0,8}:\s{0,8}(?=\\?[\"'])")
"""What stands between a name and its value: `NAME=value`, `--name=value`, `"name": "value"`."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_VALUE = re.compile(
    r"""\\".*?(?:\\"|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z)|'[^']*(?:'|\Z)|[^\s"'&;|,)}\]]+""", re.DOTALL
)
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
        return any(words[-size:] in self._names for size in range(1, len(words) + 1))

    def text(self, text: str) -> str:
        """`text` with the keys in it masked; the same object where there are none."""
        original = text
        for mark, pattern in _FORMATS.items():
            if mark in text:
                text = pattern.sub(MASK, text)
        lower = text.lower()
        if "bearer" in lower or "basic" in lower:
            text = _SCHEME.sub(rf"\1{MASK}", text)
        if "://" in text:
            text = _USER.sub(rf"\1{MASK}", text)
        text = self._given(text)
        return original if text == original else text

    def _given(self, text: str) -> str:
        """Values that are given to a telling name, as shells, URLs and JSON write it."""
        parts: list[str] = []
        done = 0
        for given in _GIVEN.finditer(text):
            if given.start() < done:
                continue
            name = _NAME.search(text, max(done, given.start() - 64), given.start())
            if name is None or not self.telling(name[0]):
                continue
            value = _VALUE.match(text, given.end())
            if value is not None:
                quote = next((q for q in ('\\"', '"', "'") if value[0].startswith(q)), "")
                parts += (text[done : given.end()], quote, MASK, quote)
                done = value.end()
        return "".join((*parts, text[done:])) if parts else text

    def value(self, value: JsonValue) -> JsonValue:
        """`value` with its secrets masked; the same object where there are none."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return self.fields(value)
            case list():
                shown = [self.value(item) for item in value]
                return value if all(a is b for a, b in zip(shown, value, strict=True)) else shown
            case _:
                return value

    def fields(self, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """An object likewise. Under a telling name all is masked but `null`, `true` and `false`."""
        shown = {k: _hidden(v) if self.telling(k) else self.value(v) for k, v in value.items()}
        return value if all(shown[k] is v for k, v in value.items()) else shown

    def body(self, body: EventBody) -> EventBody:
        """An event's body as it may be shown; the same object where nothing is hidden."""
        return self._model(body)

    def event(self, event: JournalEvent) -> JournalEvent:
        """An event as it may be shown; the same object where nothing is hidden."""
        body = self.body(event.body)
        return event if body is event.body else event.model_copy(update={"body": body})

    def _model(self, model: Body) -> Body:
        update: dict[str, object] = {}
        for name in CONTENT & type(model).model_fields.keys():
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
                shown = tuple(self._model(call) for call in calls)
                return calls if all(a is b for a, b in zip(shown, calls, strict=True)) else shown
            case dict():
                return self.fields(cast(dict[str, JsonValue], value))
            case _:
                return value


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORDS.split(name) if word)


def _hidden(value: JsonValue) -> JsonValue:
    match value:
        case None | bool() | "":
            return value
        case dict():
            return {k: _hidden(v) for k, v in value.items()}
        case list():
            return [_hidden(v) for v in value]
        case _:
            return MASK
