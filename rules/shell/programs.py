"""What a program runs in turn: `sudo rm x` runs `rm x`, `bash -c 'rm x'` runs the text.

Programs that are not here are commands like any other: what they make of their words is not followed,
and maps see those words as they see every word (`python -c`, `docker exec`, `make`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, pairwise
from typing import TypeAlias

from .options import Options, Split, UnclearError, may_be_option, options, split
from .words import Word, texts


@dataclass(frozen=True, slots=True)
class Command:
    """A command made of these words."""

    words: Sequence[Word]


@dataclass(frozen=True, slots=True)
class Script:
    """A text that a shell runs."""

    word: Word


@dataclass(frozen=True, slots=True)
class FromFile:
    """Standard input is a file that the command names."""


Input: TypeAlias = Word | FromFile | None
"""Standard input as the command itself gives it: a text, a file, or nothing, which may be a pipe."""

Run: TypeAlias = Command | Script

_STDIN = re.compile(r"/dev/(?:stdin|fd/\d+)|/proc/[^/]+/fd/\d+")
_REST = Word("", "", known=False, single=False)


def runs(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """What the command runs besides itself. Raises `UnclearError` when that cannot be told."""
    name = program(words[0].text)
    if wrapper := WRAPPERS.get(name):
        found = split(words, wrapper)
        if found.rest:
            yield Command(found.rest)
    elif special := _SPECIAL.get(name):
        yield from special(words, stdin)


def runs_others(path: str) -> bool:
    """Whether the program at `path` is one that runs others."""
    name = program(path)
    return name in WRAPPERS or name in _SPECIAL


def program(path: str) -> str:
    """The name of a program without its directory."""
    return path.rpartition("/")[2]


def _shell(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    at, letters = 1, ""
    while at < len(words):
        word = words[at]
        text = word.text
        if may_be_option(word):
            raise UnclearError(f"an option of '{words[0].text}' is known only when it runs")
        if len(text) < 2 or text[0] not in "-+":
            break
        at += 1
        if text == "--":
            break
        if text in {"--version", "--help"}:
            return
        if text.startswith("--"):
            at += _long_of_shell(text, words[0].text)
        else:
            letters += text[1:] if text[0] == "-" else ""
            at += sum(letter in "oO" for letter in text[1:])
    rest = words[at:]
    if rest and rest[0].text == "-":
        rest = rest[1:]
    if "c" in letters:
        if not rest:
            raise UnclearError(f"'{words[0].text} -c' runs a text that is not there")
        yield Script(rest[0])
    elif "s" in letters or not rest:
        yield from _from_input(words[0].text, stdin)
    else:
        yield from _file(words[0].text, rest[0], stdin)


def _long_of_shell(option: str, shell: str) -> int:
    """How many words an option of a shell takes after itself."""
    if option in {"--rcfile", "--init-file"}:
        return 1
    if option not in {"--login", "--norc", "--noprofile", "--posix", "--restricted", "--verbose"}:
        raise UnclearError(f"'{option}' is no option known of '{shell}'")
    return 0


def _file(shell: str, file: Word, stdin: Input) -> Iterator[Run]:
    if _STDIN.fullmatch(file.text):
        yield from _from_input(shell, None if "fd/" in file.text else stdin)
    elif not file.single or file.text.startswith(("<(", "$(", "`")):
        raise UnclearError(f"what '{shell}' runs is known only when it runs")


def _from_input(shell: str, stdin: Input) -> Iterator[Run]:
    match stdin:
        case Word():
            yield Script(stdin)
        case FromFile():
            return
        case None:
            raise UnclearError(f"'{shell}' runs what it reads from its input")


def _source(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    rest = _after_dashes(words)
    if rest:
        yield from _file(words[0].text, rest[0], stdin)


def _eval(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    rest = _after_dashes(words)
    if rest:
        yield Script(Word(texts(rest), "", all(word.known for word in rest)))


def _trap(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    rest = _after_dashes(words)
    if len(rest) > 1 and rest[0].text not in {"", "-", "-p", "-l"}:
        yield Script(rest[0])


def _alias(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for word in words[1:]:
        value = word.text.partition("=")[2]
        if value:
            yield Script(Word(value, "", word.known))


def _callback(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """`mapfile -C`, `complete -C`: the next word is run for each line, or on completion."""
    for option, value in pairwise(words):
        if option.text == "-C":
            yield Script(value)


def _after_dashes(words: Sequence[Word]) -> Sequence[Word]:
    return words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]


def _env(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    found = split(words, _ENV)
    text = found.given.get("S") or found.given.get("split-string")
    rest = found.rest
    if rest and rest[0].text == "-":
        rest = [*dropwhile(lambda word: "=" in word.text, rest[1:])]
    if text is not None:
        yield Script(Word(texts([text, *rest]), "", text.known and all(word.known for word in rest)))
    elif rest:
        yield Command(rest)


def _sudo(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    found = split(words, _SUDO)
    if found.rest:
        yield Command(found.rest)
    elif found.given.keys() & {"s", "i", "shell", "login"}:
        yield from _from_input(words[0].text, stdin)


def _su(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """`su` takes options after the user's name too."""
    for at, word in enumerate(words[1:], 1):
        if word.text in {"-c", "--command", "--session-command"} and at + 1 < len(words):
            yield Script(words[at + 1])
            return
        if word.text.startswith(("-c", "--command=", "--session-command=")):
            value = word.text.partition("=")[2] if word.text.startswith("--") else word.text[2:]
            yield Script(Word(value, "", word.known))
            return
    if any(word.text in {"-u", "--user"} or word.text.startswith("--user=") for word in words):
        found = split(words, _RUNUSER)
        yield Command(found.rest or (_REST,))
    else:
        yield from _from_input(words[0].text, stdin)


def _command(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    found = split(words, _COMMAND)
    if found.rest and not found.given.keys() & {"v", "V"}:
        yield Command(found.rest)


def _time(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    rest = split(words, _TIME).rest
    while rest and rest[0].text == "!":
        rest = rest[1:]
    if rest:
        yield Command(rest)


def _flock(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    rest = split(words, _FLOCK).rest
    if len(rest) > 1 and rest[0].text in {"-c", "--command"}:
        yield Script(rest[1])
    elif rest:
        yield Command(rest)


def _watch(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    yield from _through_shell(split(words, _WATCH))


def _ssh(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """What another machine is told to run counts as if it ran here."""
    found = split(words, _SSH)
    if found.rest:
        yield from _through_shell(found)
    elif not found.given.keys() & {"N", "V", "G", "Q", "O"}:
        yield from _from_input(words[0].text, stdin)


def _through_shell(found: Split) -> Iterator[Run]:
    if found.rest:
        yield Script(Word(texts(found.rest), "", all(word.known for word in found.rest)))


def _xargs(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    found = split(words, _XARGS)
    if not found.rest:
        return
    mark = next((found.given[name] for name in ("I", "J", "i", "replace") if name in found.given), None)
    if mark is None:
        yield Command((*found.rest, _REST))
    else:
        yield Command(_filled(found.rest, mark.text or "{}"))


def _find(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    at = 1
    while at < len(words):
        if words[at].text not in {"-exec", "-execdir", "-ok", "-okdir"}:
            at += 1
            continue
        end = at + 1
        while end < len(words) and not _ends(words, end):
            end += 1
        if end > at + 1:
            yield Command(_filled(words[at + 1 : end], "{}"))
        at = end + 1


def _ends(words: Sequence[Word], at: int) -> bool:
    return words[at].text == ";" or (words[at].text == "+" and words[at - 1].text == "{}")


def _filled(words: Sequence[Word], mark: str) -> list[Word]:
    """Words in which `mark` stands for what is known only when the command runs."""
    return [word._replace(known=word.known and mark not in word.text) for word in words]


def _unclear(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    yield from ()
    raise UnclearError(f"'{words[0].text}' runs what it reads from its input")


_ENV = options(
    "0iv",
    "uCSa",
    "ignore-environment null debug list-signal-handling block-signal default-signal ignore-signal "
    "unset= chdir= split-string= argv0=",
    assignments=True,
)
_SUDO = options(
    "AbBEeHiKklnNPSsVv",
    "CDghpRrtTuU",
    "askpass background bell preserve-env edit set-home login remove-timestamp reset-timestamp list "
    "non-interactive preserve-groups stdin shell validate version help no-update close-from= chdir= "
    "group= host= prompt= chroot= role= type= command-timeout= user= other-user=",
    assignments=True,
)
_RUNUSER = options("lmp", "ugGsw", "login preserve-environment user= group= supp-group= shell=")
_COMMAND = options("pvV")
_TIME = options("apqvVl", "fo", "append portability quiet verbose format= output=")
_FLOCK = options(
    "sxuneoFv",
    "wE",
    "shared exclusive unlock nonblock no-fork close verbose timeout= wait= conflict-exit-code=",
    operands=1,
)
_WATCH = options(
    "bcCdegrtwx", "nq", "beep color no-color differences errexit chgexit no-title exec interval="
)
_SSH = options("46AaCfGgKkMNnqsTtVvXxYy", "BbcDEeFIiJLlmOoPpQRSWw", operands=1)
_XARGS = options(
    "0oprtx",
    "adEIJLnPRs",
    "null interactive no-run-if-empty verbose exit open-tty show-limits replace max-lines eof "
    "arg-file= delimiter= max-args= max-procs= max-chars= process-slot-var=",
    optional="eil",
)

WRAPPERS: Mapping[str, Options] = {
    "nohup": options(),
    "timeout": options("fpv", "ks", "foreground preserve-status verbose kill-after= signal=", operands=1),
    "nice": options("", "n", "adjustment=", numbers=True),
    "ionice": options("t", "cn", "ignore class= classdata="),
    "setsid": options("cfw", "", "ctty fork wait"),
    "stdbuf": options("", "ioe", "input= output= error="),
    "chroot": options("", "", "skip-chdir userspec= groups=", operands=1),
    "doas": options("Ln", "aCu"),
    "builtin": options(),
    "exec": options("cl", "a"),
    "busybox": options("", "", "list help"),
    "toybox": options("", "", "long help"),
    "coproc": options(),
}
"""Programs whose words, after their own options, are a command."""

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "yash", "fish")

_Special: TypeAlias = Callable[[Sequence[Word], Input], Iterator[Run]]

_SPECIAL: Mapping[str, _Special] = {
    **dict[str, _Special].fromkeys(_SHELLS, _shell),
    **dict[str, _Special].fromkeys(("source", "."), _source),
    **dict[str, _Special].fromkeys(("su", "runuser"), _su),
    **dict[str, _Special].fromkeys(("mapfile", "readarray", "complete", "compgen"), _callback),
    **dict[str, _Special].fromkeys(("parallel", "at", "batch"), _unclear),
    "eval": _eval,
    "trap": _trap,
    "alias": _alias,
    "env": _env,
    "sudo": _sudo,
    "command": _command,
    "time": _time,
    "flock": _flock,
    "watch": _watch,
    "ssh": _ssh,
    "xargs": _xargs,
    "find": _find,
}


def hides_substitution(name: str, source: str) -> bool:
    """Whether a builtin that evaluates arithmetic is given a quoted substitution: `let 'a[$(rm x)]'`.

    The shell runs what stands in a subscript even where it was quoted.
    """
    return name in _EVALUATING and _QUOTED_SUBSTITUTION.search(source) is not None


_EVALUATING = frozenset({"let", "test", "[", "[[", "unset", "declare", "="})
_QUOTED_SUBSTITUTION = re.compile(r"'[^']*(?:\$\(|`)|\\\$\(|\\`")
