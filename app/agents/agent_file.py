"""Agent files: TOML parsed into an `AgentSpec`; every problem is reported with its position."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, ValidationError

from ...rules import Problem
from ..config.errors import Keys, dotted
from .errors import describe_errors
from .spec import BASE, AgentSpec, AgentSpecError, SubagentName, SubagentSpec, absolute

MAX_FILE_BYTES = 1_000_000
_NO_WAIT: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PART = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[\w-]+)"""
_DOTTED = rf"({_PART}(?:[ \t]*\.[ \t]*{_PART})*)"
_HEADER = re.compile(rf"\s*\[{{1,2}}[ \t]*{_DOTTED}[ \t]*\]{{1,2}}")
_KEY = re.compile(rf"\s*{_DOTTED}[ \t]*=")
_HIDDEN = " = …"
"""Text that replaces a value in messages: a secret in the wrong place is not shown on a screen."""


class SubagentTable(SubagentSpec):
    """Keys of a table `[subagents.NAME]`."""

    system_prompt_file: Annotated[Path, AfterValidator(absolute)] | None = None


class AgentFile(AgentSpec):
    """Keys of an agent file: those of a spec, and one that names a file with the system prompt."""

    system_prompt_file: Annotated[Path, AfterValidator(absolute)] | None = None
    # The spec is frozen, so a narrower type is safe here.
    subagents: Mapping[SubagentName, SubagentTable] = {}  # pyright: ignore[reportIncompatibleVariableOverride]


def load_agent_file(path: Path) -> AgentSpec:
    """Read an agent file; its paths are relative to it. Only keys present in the file count as set.

    Raises `AgentSpecError` with every problem: an unreadable file, invalid TOML, unknown keys, values of
    the wrong type, an unreadable system prompt.
    """
    text = _text(path, "an agent file")
    if isinstance(text, Problem):
        raise AgentSpecError([str(text)])
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AgentSpecError([_syntax_problem(path, text, str(error))]) from error
    except RecursionError as error:
        raise AgentSpecError([f"{path}: tables or lists are nested too deeply"]) from error
    here = path.absolute().parent
    try:
        file = AgentFile.model_validate(table, context={BASE: here})
    except ValidationError as error:
        raise AgentSpecError(_located_problems(path, text, error)) from error
    return _as_spec(path, text, file, here)


def _as_spec(path: Path, text: str, file: AgentFile, here: Path) -> AgentSpec:
    fields = file.model_dump(exclude_unset=True)
    problems: list[Problem] = []
    _read_prompt(path, text, (), fields, problems)
    for name, subagent in fields.get("subagents", {}).items():
        _read_prompt(path, text, ("subagents", name), subagent, problems)
    if problems:
        raise AgentSpecError(map(str, problems))
    if file.name is None and file.agent is None and _NAME.fullmatch(path.stem):
        fields["name"] = path.stem
    if "import_from" not in fields:
        fields["import_from"] = [here]
    return AgentSpec.model_validate(fields)


def _read_prompt(
    path: Path, text: str, table: Keys, fields: dict[str, Any], problems: list[Problem]
) -> None:
    """Replace the name of a table's system prompt file by the file's text."""
    file: Path | None = fields.pop("system_prompt_file", None)
    if file is None:
        return
    keys = (*table, "system_prompt_file")
    if "system_prompt" in fields:
        message = f"{dotted(keys)}: there is a system_prompt too; keep one of them"
        problems.append(_problem(path, text, keys, message))
        return
    prompt = _text(file, "a text file")
    if isinstance(prompt, Problem):
        message = f"{dotted(keys)}: {prompt.where}: {prompt.message}"
        problems.append(_problem(path, text, keys, message, prompt.remedy))
    else:
        fields["system_prompt"] = prompt


def _text(path: Path, expected: str) -> str | Problem:
    """Return the text of a file, or the problem in reading it."""

    def whole(message: str, remedy: str) -> Problem:
        return Problem(str(path), 0, 0, 0, "", message, remedy)

    try:
        # Non-blocking: opening a pipe without a writer would never return.
        with open(os.open(path, os.O_RDONLY | _NO_WAIT), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return whole(
                    f"is a pipe or a device, expected {expected}", "copy its content into a file"
                )
            data = file.read(MAX_FILE_BYTES + 1)
    except IsADirectoryError:
        return whole(f"is a directory, expected {expected}", "name the file inside it")
    except FileNotFoundError:
        return whole(f"no such file, expected {expected}", "check the path, or create the file")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return whole(f"cannot be read: {reason or error}", "check the path and its permissions")
    if len(data) > MAX_FILE_BYTES:
        return whole(f"is larger than {MAX_FILE_BYTES:,} bytes", f"is this {expected}?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
        message = f"is not UTF-8 text: byte 0x{data[error.start]:02x} at line {line}, column {column}"
        return whole(message, "save the file as UTF-8")


def _syntax_problem(path: Path, text: str, fault: str) -> str:
    """Return tomllib's message with its position in front, as in other messages."""
    lines = text.split("\n")
    message, line, column = fault.removesuffix(" (at end of document)"), len(lines), len(lines[-1]) + 1
    found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", fault, re.DOTALL)
    if found is not None:
        message, line, column = found[1], int(found[2]), int(found[3])
    key, equals, _ = lines[line - 1].rstrip("\r").partition("=")
    remedy = "agent files are TOML: key = value, text in quotes"
    return str(
        Problem(
            str(path), line, column, 1, f"{key.rstrip()}{_HIDDEN}" if equals else key, message, remedy
        )
    )


def _located_problems(path: Path, text: str, error: ValidationError) -> list[str]:
    problems = [
        _problem(path, text, keys, message, remedy)
        for keys, message, remedy in describe_errors(error, AgentFile)
    ]
    return [str(problem) for problem in sorted(problems, key=lambda p: (p.line, p.column))]


def _problem(path: Path, text: str, keys: Keys, message: str, remedy: str = "") -> Problem:
    at = _location(text, keys)
    return Problem(str(path), at.line, at.column, at.length, at.shown, message, remedy)


class _Location(NamedTuple):
    """A key in a file: its position, the shown part of its line, and its whole path."""

    line: int
    column: int
    length: int
    shown: str
    path: list[str]


def _location(text: str, keys: Keys) -> _Location:
    """Return the first key in the file that shares the longest path with `keys`; line 0 if none does."""
    names = [key for key in keys if isinstance(key, str)]

    def common_length(at: _Location) -> int:
        pairs = zip(at.path, names, strict=False)
        return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))

    return max([_Location(0, 1, 0, "", []), *_file_keys(text)], key=common_length)


def _file_keys(text: str) -> Iterator[_Location]:
    """Yield every key of a TOML text with its position, which tomllib does not report.

    Multi-line strings are skipped; keys inside an inline table are not found.
    """
    table: list[str] = []
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        if fence:
            fence = "" if fence in line else fence
            continue
        header, pair = _HEADER.match(line), _KEY.match(line)
        if header is not None:
            table = _parts(header[1])
            yield _Location(number, header.start(1) + 1, len(header[1]), header[0], table)
        elif pair is not None:
            shown = line[: pair.end(1)] + _HIDDEN
            yield _Location(number, pair.start(1) + 1, len(pair[1]), shown, table + _parts(pair[1]))
        for quotes in ('"""', "'''"):
            if line.count(quotes) % 2:
                fence = quotes


def _parts(key: str) -> list[str]:
    return [part[1:-1] if part[0] in "\"'" else part for part in re.findall(_PART, key)]
