"""Passwords that a command writes to another's standard input: `echo bob:x | chpasswd`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..random_words import looks_random
from ..spans import MASK, Span
from .words import QUOTE, ShellWords, quoted

_SAYING = re.compile(
    r"\b(?:echo|printf)(?:[ \t]{1,8}-[neE]{1,3}){0,3}"
    r"(?:[ \t]{1,8}[\"'](?:[\w.-]{1,64}:)?%s(?:\\n)?[\"'])?[ \t]{1,8}"
)
_ARGUMENTS = r"[^\n;|&<]{0,200}?\s"
_READING = (
    r"(?:chpasswd\b|vncpasswd\b|passwd\s|docker\s{1,8}secret\s{1,8}create\b|gcloud\s{1,8}secrets\s"
    r"|(?:podman|buildah)\s{1,8}secret\s{1,8}create\b|lpass\s{1,8}login\b|keepassxc-cli\s|pass\s{1,8}insert\b"
    r"|secret-tool\s{1,8}store\b|openconnect\s|su\b"
    rf"|rev\b|kinit\b|smbpasswd\b|cryptsetup\s|sudo\s{_ARGUMENTS}?-S\b"
    r"|vault\s{1,8}login\b|(?:gh|wrangler)\s{1,8}secret\s{1,8}(?:set|put)\b|vercel\s{1,8}env\s{1,8}add\b"
    rf"|[\w./-]{{1,40}}\s{_ARGUMENTS}?-(?:-passwd-on-stdin|-password-stdin|-with-token"
    r"|-passphrase-fd[ =]0"
    r"|-token-stdin|-api-key-stdin|pass(?:in|out)?[ =]stdin)\b)"
)
"""Commands that read a password, or a text to be reversed."""
_PIPE = re.compile(rf"\|&?\s{{0,8}}(?:sudo\s{{1,8}}(?!-))?{_READING}")
_HERE = re.compile(rf"(?<![\w.-]){_READING}[^\n;|&<]{{0,80}}<<<[ \t]{{0,8}}(?=\S)")
_SAFE = re.compile(r"\brev\b|(?<!\w)su\b")
"""Programs whose input may be something else: a text, or commands for a shell."""
_LONGEST = 400
_VARIABLE = re.compile(r"\$\{?\w{1,64}\}?")
_END = re.compile(r"[ \t\"']{0,4}\Z")

_SENT = re.compile(
    r"\bsend\s{1,8}(?:--\s{1,8})?\\{0,15}\"([^\s\"'\\{}$\[\]]{1,200})(?:\\{1,15}[rn]|[\r\n]){0,2}\\{0,15}\""
)
_PROMPT = re.compile(
    r"(?:ass(?:word|phrase|code)|\bpin)\b[^\n]{0,40}\s{0,40}\S{0,10}\s{0,40}\Z", re.IGNORECASE
)


def piped_passwords(text: str) -> Iterator[Span]:
    """Yield the spans of such passwords in `text`."""
    done = 0
    for pipe in _PIPE.finditer(text):
        limit = max(done, text.rfind("\n", 0, pipe.start()) + 1, pipe.start() - _LONGEST)
        for match in _SAYING.finditer(text, limit, pipe.start()):
            start, end = _argument(text, match.end())
            if start < end and _END.match(text, end, pipe.start()) is not None:
                yield from _password(text, start, end, pipe[0])
                done = end
                break


def here_string_passwords(text: str) -> Iterator[Span]:
    """Yield the spans of passwords in here-strings, `chpasswd <<< user:password`."""
    for match in _HERE.finditer(text):
        yield from _password(text, *_argument(text, match.end()), match[0])


def sent_passwords(text: str) -> Iterator[Span]:
    """Yield the spans of what an `expect` script sends to a password prompt, or that looks random."""
    for match in _SENT.finditer(text):
        if looks_random(match[1]) or _PROMPT.search(text, max(0, match.start() - 120), match.start()):
            yield match.span(1)


def _argument(text: str, at: int) -> Span:
    quote = QUOTE.match(text, at)
    return quoted(text, quote)[0] if quote is not None and quote[1] else ShellWords(text).word(at)


def _password(text: str, start: int, end: int, program: str) -> Iterator[Span]:
    """Yield the part of the argument that is a password for that program."""
    if text.startswith(MASK, start) or _VARIABLE.fullmatch(text, start, end) is not None:
        return
    if "chpasswd" in program:
        start = max(start, text.find(":", start, end) + 1)
    if start < end and (_SAFE.search(program) is None or looks_random(text[start:end])):
        yield start, end
