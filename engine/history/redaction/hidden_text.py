"""Masked texts that may be more than a secret, and their position in a call's input.

A secret is one word, or a key in PEM. A text that is masked because of the name before it may be code
that runs if it has a line break, a substitution or an operator. An operator must see such a text before
approving.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ConfigDict, JsonValue

from ...core.plan import PLAN
from ...core.sanitize import visible
from .formats.private_keys import is_private_key
from .shell.masking import Paths, is_shell_field, paths_below
from .spans import MASKED, behind_masks

_PAIRS = re.compile(r"[\w.-]+=[^\s;|&$`<>()]*(?:; ?[\w.-]+=[^\s;|&$`<>()]*)*;?")
"""Names with values, as in cookies."""
_SCHEME = re.compile(r"(?:Bearer|Basic|Digest|Token|Api-?Key|Negotiate) +[^\s;|&$`<>()]+", re.IGNORECASE)
_SIGNS = (
    (re.compile(r"[\r\n]"), "a line break"),
    (re.compile(r"\$\("), "$("),
    (re.compile(r"`"), "a backquote"),
    (re.compile(r"[<>]\("), "a process substitution"),
    (re.compile(r";"), ";"),
    (re.compile(r"\|"), "|"),
    (re.compile(r"&"), "&"),
    (re.compile(r"[<>]"), "a redirection"),
)


class HiddenText(BaseModel):
    """A masked text that may be more than a secret.

    `place` is its field, as in `headers.Authorization` or `args[2]`; `holds` names what a plain secret
    does not have.
    """

    model_config = ConfigDict(frozen=True)

    place: str
    characters: int
    lines: int
    holds: str


class RevealedText(BaseModel):
    """A masked text in clear, for the operator who decides on it."""

    model_config = ConfigDict(frozen=True)

    place: str
    text: str


def suspicion(text: str, *, shell: bool = False) -> str | None:
    """Name what a masked text has that a plain secret does not; `None` for a plausible secret.

    In a field with a `shell` command a space is reason enough: several words may be a command.
    """
    if is_private_key(text.strip()) or _PAIRS.fullmatch(text) or _SCHEME.fullmatch(text):
        return None
    for pattern, name in _SIGNS:
        if pattern.search(text):
            return name
    if visible(text, keep_newlines=True) != text:
        return "an invisible character"
    return "a blank" if shell and re.search(r"\s", text) else None


def hidden_texts(
    shown: Mapping[str, JsonValue],
    real: Mapping[str, JsonValue],
    shell_fields: Paths = (),
    *,
    tool: str = "",
) -> tuple[tuple[HiddenText, str], ...]:
    """Return the masked texts of an input that may be more than secrets, each with its unmasked text.

    `shell_fields` are fields with shell commands besides those with the usual names. In the steps of a
    plan, which are the input of calls of its `tool`, every masked text counts, because it is part of what
    is approved.
    """
    masked_texts: list[tuple[HiddenText, str]] = []
    for place, text, shell in _fields(shown, real, "", shell_fields, shell=False):
        content = suspicion(text, shell=shell)
        if content is None and tool == PLAN and place.removeprefix("the name ").startswith("steps"):
            content = "a part of the plan"
        if content is not None:
            lines = text.strip("\r\n").count("\n") + 1
            masked_texts.append(
                (HiddenText(place=place, characters=len(text), lines=lines, holds=content), text)
            )
    return tuple(masked_texts)


Masked = tuple[str, str, bool]
"""A position, the text that is masked there, and whether a shell reads it."""


def _fields(
    masked_fields: Mapping[str, JsonValue],
    real: Mapping[str, JsonValue],
    where: str,
    paths: Paths,
    *,
    shell: bool,
) -> Iterator[Masked]:
    for (label, value), (name, actual) in zip(masked_fields.items(), real.items(), strict=True):
        place = f"{where}{label}"
        if label != name:
            yield from _text(label.rstrip("'"), name, f"the name {place}", shell=shell)
        in_shell = shell or is_shell_field(name, paths)
        yield from _value(value, actual, place, paths_below(name, paths), shell=in_shell)


def _value(
    masked_value: JsonValue, real: JsonValue, place: str, paths: Paths, *, shell: bool
) -> Iterator[Masked]:
    if masked_value is real:
        return
    match masked_value, real:
        case dict(), dict():
            yield from _fields(masked_value, real, f"{place}.", paths, shell=shell)
        case list(), list():
            for index, (one, other) in enumerate(zip(masked_value, real, strict=True)):
                yield from _value(one, other, f"{place}[{index}]", paths, shell=shell)
        case str(), str():
            yield from _text(masked_value, real, place, shell=shell)
        case _:
            pass  # a number can be nothing else


def _text(masked_text: str, real: str, place: str, *, shell: bool) -> Iterator[Masked]:
    unmasked_texts = behind_masks(masked_text, real)
    for text in (real,) if unmasked_texts is None else unmasked_texts:
        if MASKED.fullmatch(text) is None:
            yield place, text, shell
