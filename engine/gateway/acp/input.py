"""Input of an ACP agent's call for the rules, merged from all that the agent reports about it. No I/O.

An agent describes a call in several fields: its tool's raw input, and the call's title, locations and
diffs. No field is trusted more than the others: where they differ, the rules receive all of them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from acp.schema import FileEditToolCallContent
from pydantic import JsonValue

Input: TypeAlias = dict[str, JsonValue]
_COMMANDS: Final = ("command", "cmd", "script")
_ARGUMENTS: Final = ("args", "argv", "arguments")
_MORE_COMMANDS: Final = frozenset({*_COMMANDS, *_ARGUMENTS}) | frozenset(
    ("code", "commands", "commandline", "cmdline", "shellcommand", "exec", "executable", "program", "run")
)
"""Other fields that may be executed, in lower case and without underscores."""
_OPERATORS: Final = frozenset(("&&", "||", "|", "&", ";"))
"""Words that show that a list of words may be a shell command line."""
_NOT_EXECUTED: Final = frozenset({"description", "title", "cwd", "workdir", "directory"})
"""Fields next to a `cmd` or `script` whose texts are not executed."""
_PATHS: Final = frozenset(
    ("path", "paths", "file", "files", "filename", "filepath", "abspath", "absolutepath")
) | {"notebookpath", "targetfile"}
"""Fields that name files, in lower case and without underscores."""


@dataclass(frozen=True, slots=True)
class CallDescription:
    """An agent's description of a call; `locations` are paths, relative ones start from `workdir`."""

    kind: str
    title: str
    raw: JsonValue
    locations: tuple[str, ...] = ()
    changes: tuple[FileEditToolCallContent, ...] = ()
    workdir: str = ""

    @property
    def input(self) -> Input:
        """The agent's raw input, extended by what it omits: the title, the paths, the changes.

        An executed command is always in `command`, the only field that rules read commands from. If the
        command is known, it is a text; the words of a list are quoted and also kept as `argv`. Otherwise
        it is an object of everything that the agent reported, so that the call is unclear to maps (G-64).
        Likewise `path` is an object if the raw input has other paths than the locations and changes:
        conditions on it then cannot be evaluated, and their rules apply.
        """
        raw = self.raw
        call_input: Input = dict(raw) if isinstance(raw, dict) else {} if raw is None else {"input": raw}
        if self.kind == "execute":
            self._add_command(call_input)
        if self.title:
            call_input.setdefault("title", self.title)
        self._add_paths(call_input)
        if self.changes:
            changes: list[JsonValue] = [
                {"path": each.path, "old_text": each.old_text, "new_text": each.new_text}
                for each in self.changes
            ]
            _add(call_input, "changes", changes)
        return call_input

    @property
    def paths(self) -> frozenset[str]:
        """All paths that the call names, normalized."""
        return self._absolute([*_path_fields(self.raw).values(), *self._listed_paths])

    @property
    def _listed_paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.locations, *(each.path for each in self.changes)]))

    def _add_command(self, call_input: Input) -> None:
        raw = self.raw
        command = find_command(raw, self.title)
        if command is None:
            command = {"input": _parse_json(raw), "title": self.title}
        elif not isinstance(raw, dict):
            call_input.pop("input", None)
        words = raw.get("command") if isinstance(raw, dict) else raw
        if isinstance(words, list) and isinstance(command, str):
            call_input.setdefault("argv", words)
        call_input["command"] = command

    def _add_paths(self, call_input: Input) -> None:
        paths = self._listed_paths
        fields = _path_fields(self.raw)
        if not paths:
            return
        if any(self._absolute([each]) != self._absolute(paths) for each in fields.values()):
            reported_paths: Input = {**fields, "locations": list(self.locations)}
            reported_paths["changes"] = [each.path for each in self.changes]
            call_input.update(dict.fromkeys(("path", *fields), reported_paths))
        elif len(paths) == 1:
            call_input.setdefault("path", paths[0])
        if list(paths) != [call_input.get("path")]:
            _add(call_input, "paths", list(paths))

    def _absolute(self, paths: Sequence[JsonValue]) -> frozenset[str]:
        """Paths in values that name files, absolute where possible; `..` is kept, as links may exist."""
        texts = (text for each in paths for text in nested_texts(each) if text)
        return frozenset(str(PurePosixPath(self.workdir, text)) for text in texts)


def find_command(raw: JsonValue, title: str) -> str | None:
    """Return the command that a raw input executes, or the title without raw input; `None` if unknown.

    A text or a list of texts is the command. A field of an object that is known to contain a command is
    the command, too, if no other field may contain a part of it.
    """
    match raw:
        case _ if not raw or _is_blank(raw):
            return title
        case str():
            return raw if _parse_json(raw) is raw else None
        case list():
            return _line(raw)
        case dict():
            return _object_command(raw)
        case _:
            return None


def _object_command(raw: Input) -> str | None:
    names = (*_COMMANDS, *_ARGUMENTS)
    others = [
        value for name, value in raw.items() if _plain(name) in _MORE_COMMANDS and name not in names
    ]
    if any(nested_texts(others)):
        return None
    match [name for name in names if not _is_blank(raw.get(name))]:
        case ["command"]:
            return _line(raw["command"])
        case ["command", "args"]:
            arguments = raw["args"]
            return _line([raw["command"], *arguments]) if isinstance(arguments, list) else None
        case ["cmd" | "script" as name]:
            others = [value for key, value in raw.items() if key != name and key not in _NOT_EXECUTED]
            return None if any(nested_texts(others)) else _line(raw[name])
        case _:
            return None


def _line(command: JsonValue) -> str | None:
    """Join a program and its words to a shell line; `None` for words that may be parts of a line."""
    if isinstance(command, str):
        return command
    if not isinstance(command, list):
        return None
    words = [word for word in command if isinstance(word, str)]
    if len(words) != len(command) or not _OPERATORS.isdisjoint(words):
        return None
    is_program = len(words) > 0 and len(words[0].split()) == 1 and not set(words[0]) & set(";&|<>$`")
    return shlex.join(words) if is_program else None


def _parse_json(raw: JsonValue) -> JsonValue:
    """Parse a text that is a list or object in JSON; return anything else unchanged."""
    if not isinstance(raw, str):
        return raw
    try:
        document: JsonValue = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    return document if isinstance(document, list | dict) else raw


def _path_fields(raw: JsonValue) -> Input:
    """Return the fields of a raw input that name files."""
    if not isinstance(raw, dict):
        return {}
    return {name: value for name, value in raw.items() if _plain(name) in _PATHS and not _is_blank(value)}


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def nested_texts(value: JsonValue) -> Iterator[str]:
    """Yield every text in a value, at any depth."""
    waiting: list[JsonValue] = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case list() as items:
                waiting += items
            case dict() as fields:
                waiting += fields.values()
            case _:
                pass


def _is_blank(value: JsonValue) -> bool:
    return value is None or value == [] or (isinstance(value, str) and not value.strip())


def _add(call_input: Input, name: str, value: JsonValue) -> None:
    """Add a field that the raw input omits; a raw field of the same name does not hide it."""
    while name in call_input and call_input[name] != value:
        name = f"shown_{name}"
    call_input[name] = value
