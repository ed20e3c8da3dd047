"""Values that are the argument after their name: `setenv TOKEN x`, `define('TOKEN', 'x')`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from string import ascii_letters, digits

from ..random_words import looks_random
from ..secret_names import TellingNames
from ..spans import Span
from .words import QUOTE, ShellWords, quoted

_WINDOW = 160
_LONGEST_NAME = 64
_NAME = f"{ascii_letters}{digits}_.:/@-"
_WORDS = (
    *("set", "SET", "SetEnv", "_param", "env", "config", "ngrok", "define", "ENV"),
    *("-e ", "--build-arg", "--global"),
)
"""Parts of texts with such a command."""
_SETTING = re.compile(
    r"(?<![\w.-])(?:set|SET)\(\Z"
    r"|(?:(?<![\w.-])(?:set|setq|setenv|SetEnv|fastcgi_param|setx|setvar|set-env|putenv|config|ngrok|#define"
    r"|ENV|circleci[ \t]env)"
    r"(?:[ \t]{1,8}(?:-{1,2}[A-Za-z][\w-]{0,20}|set|add|[\w./:@-]{1,40}(?=[ \t]{1,8}\Z)))*"
    r"|(?<!\S)(?:-e|--env|--build-arg|--global|--set-string|--set))[ \t]{1,8}[\"']?\Z"
)
"""Text before a name whose value is the next word."""
_ENVIRONMENT = ("-e", "--env", "--build-arg")
_CALL = re.compile(
    r"(?:set|put|define|header|append|add|env|property|insert|write|store|basic|with|replace|get|buildConfig)\w{0,24}"
    r"\(\s{0,8}(?:\"\w{1,20}\",\s{0,8})?(\\{0,15}[\"'])\Z",
    re.IGNORECASE,
)
_READING = re.compile(r"(?:get|env)\w{0,24}\(", re.IGNORECASE)
_COMMA = re.compile(r"\\{0,15}[\"']\s{0,8},\s{0,64}")
_BLANK = re.compile(r"[\"']?[ \t]{1,8}(?![\s=:;&|<>-])")


def argument_values(text: str, names: TellingNames, ends: Iterable[int]) -> Iterator[Span]:
    """Yield the spans of such values in `text`, whose sensitive `names` end at some of `ends`."""
    calls, sets = "(" in text, any(word in text for word in _WORDS)
    if not calls and not sets:
        return
    words = ShellWords(text)
    done = 0
    for end in ends:
        if end < done:
            continue
        comma = _COMMA.match(text, end) if calls else None
        blank = _BLANK.match(text, end) if sets and comma is None else None
        if comma is None and blank is None:
            continue
        text_before = text[max(done, end - _LONGEST_NAME) : end]
        name = text_before[len(text_before.rstrip(_NAME)) :]
        start = end - len(name)
        if not name or name.startswith("-") or not names.telling(name):
            continue
        before = text[max(done, start - _WINDOW) : start]
        if comma is not None:
            span = _in_call(text, before, comma.end())
        elif blank is not None and _SETTING.search(before) is not None:
            span = words.word(blank.end())
            if before.rstrip(" \t\"'").endswith(_ENVIRONMENT) and not looks_random(text[slice(*span)]):
                continue  # the image that runs with a variable of the caller
        else:
            continue
        if span[0] < span[1]:
            yield span
            done = span[1]


def _in_call(text: str, before: str, at: int) -> Span:
    """Return the string after a name in a call that sets it, or a random one in a call that reads it."""
    call = _CALL.search(before)
    quote = QUOTE.match(text, at)
    if call is None or quote is None:
        return at, at
    span = quoted(text, quote)[0]
    is_reading = _READING.match(call[0]) is not None
    return span if not is_reading or looks_random(text[slice(*span)]) else (at, at)
