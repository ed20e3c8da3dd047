"""Values that a text assigns to names, as in shells, URLs, headers, YAML and JSON.

A text may mix these, be cut off anywhere, and have JSON inside strings of JSON. If it can be parsed in
several ways, the longer value counts. Time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from string import ascii_letters, digits

from .formats.blocks import Heredocs, block_below
from .random_words import looks_random
from .secret_names import TellingNames
from .shell.words import QUOTE, ShellWords, closes, quoted
from .spans import MASK, Span

SENTENCES = frozenset(
    {
        "authorization",
        "cookie",
        "passcode",
        "passphrase",
        "passwd",
        "password",
        "passwords",
        "phrase",
        "pwd",
    }
)
"""Last words of names whose values may have several words, as in `Cookie: a=b; c=d`."""

_SIGN = re.compile(r"(\\{0,15}[\"']\]?)?[ \t]{0,8}(=>|:=|={1,3}|<<<|:)")
_NAME = f"{ascii_letters}{digits}_.-"
_LONGEST_NAME = 64
_OPTION = re.compile(r"-(?<![^\s\"'(,]-)-?([A-Za-z][A-Za-z0-9_.-]{0,60})[ \t]{1,8}(?![\s-])")
_USER = re.compile(r"-(?<!\S-)(?:u|U|-user|-proxy-user)(?:[ \t]{0,8}|=)(?=[^\s-])")
_LONGEST_USER = 300
_ELSEWHERE = re.compile(r"[\"']?(?:(?:file|env|fd):|stdin\b)|\(")
"""Beginnings of values that say where a password is, not what it is."""
_COLON = re.compile(r"[ \t]{0,8}:")
_TYPE = re.compile(rf"&?[\w.?|\[\]' ]{{1,40}}? ?= ?(?=[\"'][^\s|;&),\]}}]|{re.escape(MASK)})")
"""The type annotation in `password: str = "x"`."""
_BLANKS = re.compile(r"[ \t]{0,8}")
_SPACE = re.compile(r"\s{0,64}")
_CONSTANT = re.compile(r"(?:null|true|false|None|True|False)(?![^\s\"',;&|)}\]\\])")
_BRACKET = re.compile(r"(\\{0,15})([\"'])|[\[\]{}]")
_TUPLE = re.compile(r"\((?:\s{0,8}\\{0,15}(?:\"[^\"\n]{0,200}\"|'[^'\n]{0,200}')\s{0,8},?){1,8}\s{0,8}\)")
"""Strings in parentheses, as in `auth=("user", "password")`."""
_DIRECTORIES = ("PWD", "OLDPWD")
_SELVES = ("self", "this", "cls")
_OWN = re.compile(r"\s{0,8}(\w{1,64})(?![\w.\"'(!#$%@&/+-])")
_COMPARED = re.compile(r"[ \t]{1,8}([A-Za-z_][A-Za-z_.]{0,63})(?![\w.\"'(!#$%@&/+-])")
_COUNT = re.compile(r"[ \t]{0,8}\d{1,3}(?![\w.!#$%@&/+-])")
"""A number of passed tests: `pass=12 fail=3`."""
_TURN = re.compile(r"[123](?!\S)")
"""The pass number of an encoder: `ffmpeg -pass 1`."""
_SUBCOMMAND = re.compile(r"(?:create|delete|get|list|push|set|update)(?!\S)")
_UNREAD = re.compile(r"[ \t]{0,8}[\"'`]?[^\s\"'`\d]{0,11}(?![^\s\"'`])")
"""A character or a word that a parser reports as unexpected."""
_EQUAL = ("==", "===")
_AFTER_STRING = (" ", ")", ",", ";", "\n", "")
_SUBSTITUTION = "$("
_WRAPPED = re.compile(r"(?:Some\(|String::from\(|Buffer\.from\(|@)(?=[\"'])")
"""Text that some languages put around a string."""
_OTHERWISE = re.compile(r"[\w.()\[\]\"'$]{1,80}\s{1,4}(?:\|\||\?\?|or)\s{1,4}(?=[\"'])")
"""Text before the default in `process.env.TOKEN || "x"`."""
_HEREDOC = re.compile(r"<<[-~]?([A-Z_]{1,40})\n([^\n]{1,400})\n\s{0,40}\1\b")
"""A value of one line as a heredoc in Terraform."""
_SCALAR = re.compile(r"[^\s\"',}\]\\]+")
_REST = re.compile(r"(?:[^\r\n\"'\\]|\\(?![nr\"']))+")
_STATED = re.compile(r"(?:(?: is| was)[:,]?|,)? [\"'`]?([A-Za-z0-9][A-Za-z0-9+/_~=.-]{11,512})")
_LAST_NAME = re.compile(r"[\w.-]{1,64}\Z")
_LAST_WORD = re.compile(r"[A-Za-z]+(?=[^A-Za-z]*\Z)")


def assigned_values(text: str, names: TellingNames, ends: Iterable[int]) -> Iterator[Span]:
    """Yield the spans of values in `NAME=value`, `name: value`, `"name": "value"` etc., unquoted.

    Sensitive `names` end at some of `ends`.
    """
    values = _AssignedValues(text)
    done = 0
    for end in ends:
        if end < done:
            continue
        sign = _SIGN.match(text, end)
        if sign is None:
            continue
        before = text[max(done, end - _LONGEST_NAME) : end]
        name = before[len(before.rstrip(_NAME)) :]
        if not name or not names.telling(name) or _is_only_mentioned(text, end - len(name), name, sign):
            continue
        if sign[2] in _EQUAL and (other := _COMPARED.match(text, sign.end())) and names.telling(other[1]):
            continue  # code compares two variables
        start, last = values.quoted_name(sign, name) if sign[1] else values.named(sign, name)
        if start < last:
            yield start, last
            done = last


def option_values(text: str, names: TellingNames) -> Iterator[Span]:
    """Yield the spans of values in `--name value`."""
    words = ShellWords(text)
    done = 0
    for option in _OPTION.finditer(text):
        if (
            option.start() >= done
            and names.telling(option[1])
            and not _ELSEWHERE.match(text, option.end())
            and not (option[1] == "pass" and _TURN.match(text, option.end()))
        ):
            start, end = words.word(option.end())
            if start < end:
                yield start, end
                done = end


def curl_passwords(text: str) -> Iterator[Span]:
    """Yield the spans of passwords in `-u user:password`, as with curl."""
    words = ShellWords(text)
    done = 0
    for option in _USER.finditer(text):
        if option.start() < done:
            continue
        quote = QUOTE.match(text, option.end())
        if quote is not None and quote[1]:
            start, end = quoted(text, quote)[0]
        else:
            start, end = words.word(option.end())
        colon = text.find(":", start, min(end, start + _LONGEST_USER))
        if 0 <= colon < end - 1:
            yield colon + 1, end
            done = end


def sentence_values(text: str, names: TellingNames, ends: Iterable[int]) -> Iterator[Span]:
    """Yield the spans of random words after sensitive `names`, as in `the token is Zq8rT2vL…`.

    Some names end at `ends`.
    """
    done = 0
    for end in ends:
        statement = _STATED.match(text, end) if end >= done else None
        if statement is None:
            continue
        name = _LAST_NAME.search(text, max(done, end - _LONGEST_NAME), end)
        start = statement.start(1)
        word = statement[1].rstrip(".")
        if name is not None and names.telling(name[0]) and looks_random(word):
            done = start + len(word)
            yield start, done


def _is_only_mentioned(text: str, start: int, name: str, sign: re.Match[str]) -> bool:
    """Return whether a name is part of a word, `$PWD:/src`, or of a sentence, `the first pass: x`."""
    if sign[1] is None and name.lower() == "pass" and _COUNT.match(text, sign.end()) is not None:
        return True
    if sign[2] != ":":
        if sign[2] == "<<<" and name.endswith("passwd"):
            return True  # a program, not a name
        if name in _DIRECTORIES:
            return text.startswith(("/", "~"), sign.end())
        if sign[1] is None and _closes_around(text, start, sign.end()):
            return True
        reference = _OWN.match(text, sign.end()) if sign[2] == "=" else None
        return reference is not None and name.partition(".")[0] in _SELVES and _same(reference[1], name)
    if text.startswith("$", start - 1) and start > 0:
        return True
    if sign[1] is None and _closes_around(text, start, sign.end()):
        return True
    if sign[1] is not None or start == 0:
        return False
    if name == "secret" and text[start - 1].isspace() and _SUBCOMMAND.match(text, sign.end()):
        return True
    if name == "token" and text[max(0, start - 11) : start].lower() == "unexpected ":
        return _UNREAD.match(text, sign.end()) is not None
    return name.lower() == "pass" and text[start - 1] in " \t"


def _closes_around(text: str, start: int, end: int) -> bool:
    """Return whether name and sign from `start` end a string, as in `grep 'token=' x`."""
    quote = text[start - 1] if start > 0 else ""
    if quote not in ("'", '"'):
        return False
    at = _skip(_BLANKS, text, end)
    return text.startswith(quote, at) and text[at + 1 : at + 2] in _AFTER_STRING


def _same(value: str, name: str) -> bool:
    """Return whether code only passes a variable to a field of the same name."""
    return value.strip("_") == name.rpartition(".")[2].strip("_")


class _AssignedValues:
    """Values after names in `text`. Call in text order, so that the text is read only once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = ShellWords(text)
        self._heredocs = Heredocs(text)

    def quoted_name(self, sign: re.Match[str], name: str) -> Span:
        """Return the span after `"name":`, a value of JSON or similar syntax."""
        text = self._text
        if (
            sign[2] == ":"
            and (lines := block_below(text, sign.start() - len(name), sign.end())) is not None
        ):
            opening = QUOTE.match(text, lines[0])
            is_alone = opening is None and not text.startswith(("[", "{"), lines[0])
            if is_alone or (opening is not None and _COLON.match(text, quoted(text, opening)[1])):
                return lines
        start = _skip(_SPACE, text, sign.end())
        if _CONSTANT.match(text, start):
            return start, start
        if text.startswith(("[", "{"), start):
            return start, _bracket_end(text, start)
        quote = QUOTE.match(text, start)
        return _span(_SCALAR, text, start) if quote is None else quoted(text, quote)[0]

    def named(self, sign: re.Match[str], name: str) -> Span:
        """Return the span after `name=` or `name:`, on the same line or in a block of lines."""
        text = self._text
        start = _skip(_BLANKS, text, sign.end())
        if sign[2] == ":" and not text.startswith(MASK, start):
            start = _skip(_TYPE, text, start)
        if _CONSTANT.match(text, start):
            return start, start
        if self._heredocs.any and sign[2].startswith("="):
            line = self._heredocs.line(sign.start() - len(name), start)
            if line is not None:
                return _without_quotes(text, line)
        if text.startswith(("[", "{"), start):
            return start, _bracket_end(text, start)
        if text.startswith("(", start) and (strings := _TUPLE.match(text, start)) is not None:
            return strings.span()
        if text.startswith(_SUBSTITUTION, start):
            return start, start  # code that a shell runs is not a value yet
        if (heredoc := _HEREDOC.match(text, start)) is not None:
            return heredoc.span(2)
        start = _skip(_OTHERWISE, text, _skip(_WRAPPED, text, start))
        quote = QUOTE.match(text, start)
        if quote is not None:
            return quoted(text, quote)[0] if quote[1] else self._words.word(start)
        if sign[2] == ":":
            lines = block_below(text, sign.start() - len(name), start)
            if lines is not None:
                return lines
            last = _LAST_WORD.search(name)
            if last is not None and last[0].lower().endswith(tuple(SENTENCES)):
                return _span(_REST, text, start)
        return self._words.word(start)


def _without_quotes(text: str, line: Span) -> Span:
    """Return a value up to the end of its line, without quotes around the whole value."""
    quote = QUOTE.match(text, line[0])
    inner, after = (line, line[0]) if quote is None else quoted(text, quote, line[1])
    return inner if inner[1] < after == line[1] else line


def _bracket_end(text: str, start: int) -> int:
    """Return the end of the list or object that begins at `start`."""
    depth = 0
    string: tuple[str, int] | None = None
    for match in _BRACKET.finditer(text, start):
        quote: str | None = match[2]
        if quote is not None:
            level = len(match[1])
            if string is None:
                string = (quote, level)
            elif string[0] == quote and closes(string[1], level):
                string = None
        elif string is None:
            depth += 1 if match[0] in "[{" else -1
            if depth == 0:
                return match.end()
    return len(text)


def _skip(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return start if match is None else match.end()


def _span(pattern: re.Pattern[str], text: str, start: int) -> Span:
    return start, _skip(pattern, text, start)
