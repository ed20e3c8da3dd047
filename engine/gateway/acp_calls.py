"""The tool calls an ACP agent tells of: what is known of each, and what the nets judge. No I/O."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, cast, get_args

from acp.schema import (
    ContentToolCallContent,
    FileEditToolCallContent,
    PermissionOption,
    TerminalToolCallContent,
    TextContentBlock,
    ToolCall,
    ToolCallProgress,
    ToolCallUpdate,
    ToolKind,
)
from pydantic import JsonValue

from .gated import shortened
from .hook_events import output_text
from .tool_responses import failed, goes_on

KINDS: Final = cast("tuple[str, ...]", get_args(ToolKind))
"""What calls of an ACP agent are named for rules: it gives each a kind, and no tool's name."""
MOST_OUTPUT: Final = 262_144
"""Bytes of a call's output that are recorded."""

Input: TypeAlias = dict[str, JsonValue]
_DESCRIBING: Final = frozenset({"description", "title"})
"""Fields of a raw input that say nothing of what is executed."""
_EXITS: Final = ("exit_code", "exitCode", "exit")
_Content: TypeAlias = ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent
Stands: TypeAlias = Literal["told", "waiting", "allowed", "refused", "settled"]


@dataclass(slots=True)
class SeenCall:
    """One tool call, everything the agent has said of it put together.

    `stands` is where it is with the gate, under `gate_id`; `approved` is the input as it was judged.
    `begun` says that it was reported to run, `response` is what the tool itself gave, where that is told,
    and `came_of_it` that anything of what it came to was told, be it an empty output.
    """

    id: str
    kind: str = "other"
    title: str = ""
    raw_input: JsonValue = None
    raw_output: JsonValue = None
    response: JsonValue = None
    paths: tuple[str, ...] = ()
    changes: tuple[FileEditToolCallContent, ...] = ()
    texts: tuple[str, ...] = ()
    stands: Stands = "told"
    gate_id: str = ""
    approved: JsonValue = None
    begun: bool = False
    came_of_it: bool = False
    gate_ids: list[str] = field(default_factory=list[str])

    def take(self, update: ToolCall | ToolCallUpdate) -> None:
        """What an update says replaces what was known; what it leaves out stays."""
        self.came_of_it = self.came_of_it or self._tells_result(update)
        if update.kind is not None:
            self.kind = update.kind
        if update.title is not None:
            self.title = update.title
        if update.raw_input is not None:
            self.raw_input = cast("JsonValue", update.raw_input)
        if update.raw_output is not None:
            self.raw_output = cast("JsonValue", update.raw_output)
        response = _response(update.field_meta)
        if response is not None:
            self.response = response
        if update.locations is not None:
            self.paths = tuple(each.path for each in update.locations)
        if update.content is not None:
            self.changes = tuple(c for c in update.content if isinstance(c, FileEditToolCallContent))
            texts = map(_text_of, update.content)
            self.texts = tuple(text for text in texts if text is not None)

    def _tells_result(self, update: ToolCall | ToolCallUpdate) -> bool:
        """Whether an update has more of the result than that there is one.

        Content that comes before a call may run is about the question, a command's description for one,
        and is no result when it is said again.
        """
        if update.raw_output is not None or _response(update.field_meta) is not None:
            return True
        ended = update.status in ("completed", "failed")
        running = isinstance(update, ToolCallProgress) and self.stands == "allowed"
        return (ended or running) and any(
            _says_something(part) and _text_of(part) not in self.texts for part in update.content or ()
        )

    @property
    def input(self) -> Input:
        """The call's input for the nets and the people who decide.

        It is the raw input as the agent has it. What this leaves out is added from what else is known:
        the title, the paths, and the changes that an edit would make. What is executed is always a text
        `command`, since rules see no command elsewhere: words of a list are quoted, and `argv` keeps
        them. Without either it is the title, where the raw input only describes the call; in one that may
        have it under another name it is all of that, so that the call is unclear to maps (G-64).
        """
        raw = self.raw_input
        found: Input = dict(raw) if isinstance(raw, dict) else {} if raw is None else {"input": raw}
        if self.kind == "execute":
            command = found.get("command")
            if isinstance(command, list) and all(isinstance(word, str) for word in command):
                found.setdefault("argv", command)
                found["command"] = shlex.join(map(str, command))
            elif command is None:
                found["command"] = _command(found, self.title)
        if self.title:
            found.setdefault("title", self.title)
        paths = list(dict.fromkeys([*self.paths, *(each.path for each in self.changes)]))
        if len(paths) == 1:
            found.setdefault("path", paths[0])
        if paths and paths != [found.get("path")]:
            found.setdefault("paths", cast("list[JsonValue]", paths))
        if self.changes:
            changes: list[JsonValue] = [
                {"path": each.path, "old_text": each.old_text, "new_text": each.new_text}
                for each in self.changes
            ]
            found.setdefault("changes", changes)
        return found

    @property
    def failed(self) -> bool:
        """Whether the tool says that it did not do its work, though the call is reported as completed."""
        return failed(self.response) or _exited_badly(self.raw_output)

    @property
    def unproved(self) -> bool:
        """Whether nothing shows that what is reported as completed did its work.

        Some agents report each command so, also one that failed, without output and without exit code.
        """
        return self.kind == "execute" and not self.came_of_it

    @property
    def goes_on(self) -> bool:
        """Whether what is reported as completed has only been started, and ends in the background."""
        raw = self.raw_input
        return goes_on(self.response) or (isinstance(raw, dict) and raw.get("run_in_background") is True)

    @property
    def name(self) -> str:
        """How it is called in a sentence."""
        return f"{self.kind} ‘{self.title[:200]}’" if self.title else self.kind

    @property
    def output(self) -> str:
        """What it came to, as far as the agent has told."""
        if isinstance(self.response, dict) and "stdout" in self.response:
            return shortened(output_text(self.response), MOST_OUTPUT)
        told = "\n".join(self.texts)
        if not told and self.raw_output is not None:
            raw = self.raw_output
            told = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)
        if not told:
            told = "\n".join(f"changed {each.path}" for each in self.changes)
        return shortened(told, MOST_OUTPUT)

    def next_id(self) -> str:
        """An id at the gate that no earlier request about this call has had."""
        number = len(self.gate_ids) + 1
        self.gate_id = self.id if number == 1 else f"{self.id}#{number}"
        self.gate_ids.append(self.gate_id)
        return self.gate_id


def _command(found: Input, title: str) -> JsonValue:
    """The command of a call of which the raw input has no `command`."""
    said = [found[name] for name in ("cmd", "script") if isinstance(found.get(name), str)]
    if found.keys() <= _DESCRIBING:
        return title
    return said[0] if len(said) == 1 else {**found, "title": title}


def _response(meta: Mapping[str, object] | None) -> JsonValue:
    """What Claude Code's tools gave, as its adapter passes it on beside the text for people."""
    own = None if meta is None else meta.get("claudeCode")
    return cast("Input", own).get("toolResponse") if isinstance(own, dict) else None


def _text_of(part: _Content) -> str | None:
    """The text that a part of a call's content is, if it is one."""
    if isinstance(part, ContentToolCallContent) and isinstance(part.content, TextContentBlock):
        return part.content.text
    return None


def _says_something(part: _Content) -> bool:
    """Whether there is anything to it. Terminals are the client's, and this one has none."""
    text = _text_of(part)
    return not isinstance(part, TerminalToolCallContent) if text is None else bool(text.strip())


def _exited_badly(raw_output: JsonValue) -> bool:
    if not isinstance(raw_output, dict):
        return False
    codes = [raw_output.get(key) for key in _EXITS]
    return any(isinstance(code, int) and not isinstance(code, bool) and code != 0 for code in codes)


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a request's options the gate answers with; `None` where there is none.

    Only options that hold once: with any other the agent would not ask about the next call. An id that
    also stands for another answer says nothing.
    """

    allow: str | None
    reject: str | None

    @classmethod
    def of(cls, options: list[PermissionOption]) -> Choice:
        def only(kind: str) -> str | None:
            for option in options:
                same = {each.kind for each in options if each.option_id == option.option_id}
                if option.kind == kind and same == {kind}:
                    return option.option_id
            return None

        return cls(only("allow_once"), only("reject_once"))
