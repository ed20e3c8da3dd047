"""Compilation of rules files to a `RuleSet`. Every error is reported in one `RuleError` (G-40)."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..engine.core.condition import Condition
from ..engine.verify.reachability import StateCounts
from .analysis.lint import advise
from .errors.problems import Problem, RuleError
from .library import LIBRARY
from .naming import CallNamer
from .nets import build_net
from .parse.statements import Allowance, Let, Map, Statement
from .ruleset import PREFIX, RuleSet, Verification
from .unclear import implied_rule

MAX_FILE_BYTES = 1_000_000
_NO_WAIT: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def compile_rules(text: str | Sequence[str], *, file: str = "<rules>") -> RuleSet:
    """Compile rules; the items of a list are joined in order, with continuous line numbers.

    Maps apply to all rules of the text, before and after them. Raises `RuleError`.
    """
    joined = text if isinstance(text, str) else "\n".join(text)
    return compile_files({file: joined})


def condition_of(text: str) -> Condition | None:
    """The condition in a text that could follow `when`; `None` for an invalid one."""
    # The parser needs lark, as in `compile_files`.
    from .parse.conditions import read_condition

    condition, faults = read_condition(text)
    return None if faults else condition


def forget_grammars() -> None:
    """Release the grammars, 1 MB that a server no longer needs; the next rules build them again."""
    if f"{__package__}.parse.grammar" in sys.modules:
        from .parse.grammar import grammar

        grammar.cache_clear()


def load_rules(*paths: str | os.PathLike[str]) -> RuleSet:
    """Read and compile rules files as one set; the maps of one file apply to the rules of all.

    A path that is given twice counts once.

    Raises `RuleError`, also for a file that cannot be read, is not UTF-8 text, contains a NUL character
    or has more than a million bytes; `ValueError` without any path.
    """
    if not paths:
        raise ValueError("load_rules needs at least one rules file")
    names = dict.fromkeys(os.fspath(path) for path in paths)
    return compile_files(with_value_files({shown_file(name): read_text(name) for name in names}))


def read_rules(*paths: str | os.PathLike[str]) -> dict[str, str]:
    """Texts of rules files by the file names that rules use, for compiling them elsewhere.

    Raises `RuleError` for files that cannot be read, as `load_rules`.
    """
    names = dict.fromkeys(os.fspath(path) for path in paths)
    texts = with_value_files({shown_file(name): read_text(name) for name in names})
    if problems := [text for text in texts.values() if isinstance(text, Problem)]:
        raise RuleError(problems)
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def with_value_files(
    texts: Mapping[str, str | Problem], read: Callable[[str], str | Problem] | None = None
) -> dict[str, str | Problem]:
    """Texts, with those of the files from which their `let`s read values, each under a key of its own.

    `read` reads a file by its path.
    """
    from .parse.syntax import GRAMMAR
    from .parse.values import value_files

    found = dict(texts)
    for file, text in texts.items():
        if isinstance(text, str) and not file.startswith(PREFIX):
            for key in value_files(text, file, GRAMMAR):
                if key not in found:
                    found[key] = (read or read_text)(key.removeprefix(PREFIX))
    return found


def shown_file(name: str) -> str:
    """File name shown for rules: the given path, or the library's path without the install directory."""
    path = Path(name)
    if path.parent == LIBRARY:
        return f"library/{path.name}"
    # A name that begins like the key of a file of values would not be read as rules.
    return f"./{name}" if name.startswith(PREFIX) else name


def compile_files(texts: Mapping[str, str | Problem]) -> RuleSet:
    """Compile texts by file name as one set, as `load_rules` does with files.

    A problem in place of a text says why it could not be read. Files of values that the rules name must
    be included, see `with_value_files`. Raises `RuleError`.
    """
    # The parser needs lark, which is many times larger than the rest, so it is loaded only to compile.
    from .parse.syntax import parse

    sources: dict[str, str] = {}
    statements: list[Statement] = []
    problems: list[Problem] = []
    for file, text in texts.items():
        if file.startswith(PREFIX):
            # The line that names it reports the problem.
            if isinstance(text, str):
                sources[file] = text
            continue
        if isinstance(text, Problem):
            problems.append(text)
            continue
        found, faults = parse(text, file, texts)
        sources[file] = text
        statements += found
        problems += faults
    if problems:
        raise RuleError(problems)
    maps = [s for s in statements if isinstance(s, Map)]
    allowances = [s for s in statements if isinstance(s, Allowance)]
    rules = [s for s in statements if not isinstance(s, Map | Allowance | Let)]
    implied, unclear_tools = implied_rule(maps, rules, allowances)
    if implied is not None:
        rules.append(implied)
    namer = CallNamer(maps, rules, unclear_tools)
    call_names = namer if namer.needed else None
    nets = tuple(build_net(rule, call_names) for rule in rules)
    states = StateCounts()
    return RuleSet(
        nets=nets,
        verification=tuple(Verification(n.name, states.count(n)) for n in nets),
        warnings=tuple(advise(statements)),
        sources=sources,
        call_names=call_names,
    )


def read_text(name: str) -> str | Problem:
    """Text of a file of rules or scenarios, or the problem that it cannot be read."""

    def whole(message: str, remedy: str) -> Problem:
        return Problem(name, 0, 0, 0, "", message, remedy)

    try:
        # Non-blocking: opening a pipe without a writer would never return.
        with open(os.open(name, os.O_RDONLY | _NO_WAIT), "rb") as file:
            kind = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(kind):
                message = "is a pipe or a device, expected a rules file"
                return whole(message, "copy its contents into a .rules file")
            data = file.read(MAX_FILE_BYTES + 1)
    except IsADirectoryError:
        return whole("is a directory, expected a rules file", "name the .rules file inside it")
    except FileNotFoundError:
        return whole("no such rules file", "check the path, or create the file")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return whole(f"cannot be read: {reason or error}", "check the path and its permissions")
    return checked_text(name, data)


def checked_text(name: str, data: bytes) -> str | Problem:
    """The text in the bytes of a file, or the problem that they are not rules or scenarios."""
    if len(data) > MAX_FILE_BYTES:
        message = f"is larger than {MAX_FILE_BYTES:,} bytes"
        return Problem(name, 0, 0, 0, "", message, "is this a rules file? Split it if it is")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8")
        message = f"is not UTF-8 text: byte 0x{error.object[error.start]:02x}"
        rest = error.object[error.start :].split(b"\n", 1)[0].decode("utf-8", "replace")
        return _in_text(name, before, rest, message, "save the file as UTF-8")
    if "\0" in text:
        before, _, rest = text.partition("\0")
        remedy = "remove it; if there are many, save the file as UTF-8"
        return _in_text(name, before, "\0" + rest.partition("\n")[0], "a NUL character", remedy)
    return text


def _in_text(name: str, before: str, following: str, message: str, remedy: str) -> Problem:
    """A problem at the first character of `following`, which follows `before` in the file."""
    start = before.rpartition("\n")[2]
    line = (start + following).rstrip("\r")
    return Problem(name, before.count("\n") + 1, len(start) + 1, 1, line, message, remedy)
