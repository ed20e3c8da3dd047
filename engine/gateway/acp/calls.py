"""Tool calls reported by an ACP agent: the state of each, and the calls submitted to the gate. No I/O."""

from __future__ import annotations

import json
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
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
)
from pydantic import JsonValue

from ...core.json_values import same_json
from ...core.rule import UNCLEAR
from ..client.agent_tools import shortened
from ..hooks.events import output_text
from ..hooks.transcript import failed, goes_on
from .input import CallDescription, Input, find_command, nested_texts

KINDS: Final = cast("tuple[str, ...]", get_args(ToolKind))
"""Tool names that rules use for an ACP agent's calls: the agent reports kinds instead of tool names."""
MOST_OUTPUT: Final = 262_144
"""Maximum size of a call's recorded output, in bytes."""

_ENDED: Final = ("completed", "failed")
_CHANGING: Final = ("edit", "delete", "move")
"""Kinds of calls that change the paths they name, and do not search for others."""
_EXITS: Final = ("exit_code", "exitCode", "exit")
_Content: TypeAlias = ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent
GateState: TypeAlias = Literal["reported", "waiting", "allowed", "refused", "settled"]


@dataclass(frozen=True, slots=True)
class Terms:
    """Content of a call that a decision depends on: if any of it changes, the decision no longer holds.

    `title` is `None` if the raw input describes the action. `changes` are paths with old and new texts;
    `in_raw` is true if the raw input contains the new texts, too.
    """

    tools: tuple[str, ...]
    raw: JsonValue
    title: str | None
    paths: frozenset[str]
    changes: frozenset[tuple[str, str, str]]
    in_raw: bool


@dataclass(frozen=True, slots=True)
class GateCall:
    """A call as submitted to the gate: under an id that no other call has, as a call of one tool."""

    call_id: str
    tool: str


@dataclass(slots=True)
class ReportedCall:
    """State of one tool call, merged from all updates of the agent.

    `kind` is the last kind that the protocol defines; `is_unclear` is true if an undefined one was
    reported later. `state` is the state at the gate of the calls in `gate_calls`. `approved` is the
    content that was decided, while the decision may hold. `requested` is true once the agent has
    requested permission. `running` is true once the call was reported as running. `response` is the
    tool's own result, if reported; `has_result` is true if any result was reported, even an empty output.
    Relative paths start from `workdir`.
    """

    id: str
    workdir: str = ""
    kind: str = "other"
    is_unclear: bool = False
    title: str = ""
    raw_input: JsonValue = None
    raw_output: JsonValue = None
    response: JsonValue = None
    paths: tuple[str, ...] = ()
    changes: tuple[FileEditToolCallContent, ...] = ()
    texts: tuple[str, ...] = ()
    state: GateState = "reported"
    gate_calls: tuple[GateCall, ...] = ()
    approved: Terms | None = None
    requested: bool = False
    running: bool = False
    has_result: bool = False
    gate_ids: list[str] = field(default_factory=list[str])

    def merge(self, update: ToolCall | ToolCallUpdate) -> None:
        """Merge an update: its fields replace the known ones; absent fields are kept."""
        self.has_result = self.has_result or self._has_result_in(update)
        if update.kind is not None:
            self.is_unclear = update.kind not in KINDS
            if not self.is_unclear:
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
            texts = map(_part_text, update.content)
            self.texts = tuple(text for text in texts if text is not None)

    def _has_result_in(self, update: ToolCall | ToolCallUpdate) -> bool:
        """Return whether an update contains result data, and not just the end of the call.

        Content that arrives before a call may run belongs to the permission request, such as a command's
        description. It is not a result when it is repeated.
        """
        if _has_output(update):
            return True
        has_ended = update.status in _ENDED
        running = isinstance(update, ToolCallProgress) and self.state == "allowed"
        return (has_ended or running) and any(
            _has_content(part) and _part_text(part) not in self.texts for part in update.content or ()
        )

    @property
    def tools(self) -> tuple[str, ...]:
        """Tool names for the rules.

        A call of unknown kind has to pass as an unclear one (G-64) and as one of its earlier kind, or of
        `other`.
        """
        return (UNCLEAR, self.kind) if self.is_unclear else (self.kind,)

    @property
    def _description(self) -> CallDescription:
        return CallDescription(
            self.kind, self.title, self.raw_input, self.paths, self.changes, self.workdir
        )

    @property
    def input(self) -> Input:
        """The call's input for the rules and the operators."""
        return self._description.input

    @property
    def terms(self) -> Terms:
        """Terms of a decision on the call in its current state."""
        raw, description = self.raw_input, self._description
        texts = frozenset(nested_texts(raw))
        is_described = (
            bool(find_command(raw, "")) if self.kind == "execute" else any(map(str.strip, texts))
        )
        return Terms(
            self.tools,
            raw,
            None if is_described else self.title,
            description.paths,
            frozenset((e.path, _lines(e.old_text), _lines(e.new_text)) for e in self.changes),
            all(each.new_text in texts for each in self.changes),
        )

    def changed_field(self, update: ToolCall | ToolCallUpdate) -> str | None:
        """Field in which `update`, already merged, differs from the approved call; `None` if in none.

        Diffs that arrive with the end or with the tool's own output are results if none were approved or
        if the raw input contains them: Claude Code then reports each hunk separately. The title in such a
        result is only a label, unless it is the command.
        """
        before, after = self.approved, self.terms
        if before is None:
            return None
        has_ended = update.status in _ENDED
        if after.tools != before.tools:
            return "kind"
        if not same_json(after.raw, before.raw):
            return "input"
        if (
            before.title is not None
            and after.title != before.title
            and (self.kind == "execute" or not has_ended)
        ):
            return "title"
        is_missing = not before.paths and self.kind in _CHANGING and not has_ended
        if (before.paths or is_missing) and not after.paths <= before.paths:
            return "path"
        result = before.in_raw and (has_ended or _has_output(update))
        return "change" if after.changes and after.changes != before.changes and not result else None

    @property
    def failed(self) -> bool:
        """True if the tool reports a failure, although the agent reports the call as completed."""
        return failed(self.response) or _has_failing_exit(self.raw_output)

    @property
    def outcome_unknown(self) -> bool:
        """True if nothing shows that a call reported as completed succeeded.

        Some agents report every command as completed, even a failed one, without output or exit code.
        """
        return self.kind == "execute" and not self.has_result

    @property
    def in_background(self) -> bool:
        """True if a call reported as completed was only started, and ends in the background."""
        raw = self.raw_input
        return goes_on(self.response) or (isinstance(raw, dict) and raw.get("run_in_background") is True)

    @property
    def name(self) -> str:
        """Name of the call for use in sentences."""
        return f"{self.tools[0]} ‘{self.title[:200]}’" if self.title else self.tools[0]

    @property
    def output(self) -> str:
        """Result of the call, as far as the agent has reported it."""
        if isinstance(self.response, dict) and "stdout" in self.response:
            return shortened(output_text(self.response), MOST_OUTPUT)
        text = "\n".join(self.texts)
        if not text and self.raw_output is not None:
            raw = self.raw_output
            text = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)
        if not text:
            text = "\n".join(f"changed {each.path}" for each in self.changes)
        return shortened(text, MOST_OUTPUT)

    def runs_again(self, status: ToolCallStatus | None) -> bool:
        """Return whether a status after the call's end means that it runs again, or without permission.

        A run without permission is reported once: not again after `running`.
        """
        if self.approved is not None:
            return status == "in_progress" and not self.in_background
        return status in ("in_progress", "completed") and not self.running

    def reset(self) -> None:
        """Turn into a new call without a permission request, keeping the content."""
        self.state, self.approved = "reported", None
        self.requested = self.has_result = False

    def forget(self) -> None:
        """Drop the content of an ended call, except what is needed to recognize it."""
        self.texts, self.changes, self.raw_output, self.response = (), (), None, None

    def submit(self) -> tuple[GateCall, ...]:
        """Return calls for the gate, one for each tool, under ids that no earlier request has had."""
        self.gate_calls = tuple(GateCall(self._next_id(), tool) for tool in self.tools)
        return self.gate_calls

    def _next_id(self) -> str:
        number = len(self.gate_ids) + 1
        self.gate_ids.append(self.id if number == 1 else f"{self.id}#{number}")
        return self.gate_ids[-1]


def mark_kind(update: ToolCall | ToolCallUpdate, raw_update: object) -> None:
    """Replace a kind that the protocol does not define by `unclear` (G-64), which rules may name.

    `raw_update` is the update as received: the library drops such a kind, as if none had been given.
    """
    if (
        update.kind is None
        and isinstance(raw_update, dict)
        and cast("Input", raw_update).get("kind") is not None
    ):
        update.kind = cast("ToolKind", UNCLEAR)


def _has_output(update: ToolCall | ToolCallUpdate) -> bool:
    return update.raw_output is not None or _response(update.field_meta) is not None


def _lines(text: str | None) -> str:
    """Normalize a text of a diff; for a created file, agents send no old text or an empty one."""
    return (text or "").replace("\r\n", "\n")


def _response(meta: Mapping[str, object] | None) -> JsonValue:
    """Tool response of Claude Code, which its adapter sends in addition to the text for people."""
    claude_meta = None if meta is None else meta.get("claudeCode")
    return cast("Input", claude_meta).get("toolResponse") if isinstance(claude_meta, dict) else None


def _part_text(part: _Content) -> str | None:
    """Text of a part of a call's content; `None` for other parts."""
    if isinstance(part, ContentToolCallContent) and isinstance(part.content, TextContentBlock):
        return part.content.text
    return None


def _has_content(part: _Content) -> bool:
    """Return whether a part has content. Terminals belong to the client, and this client has none."""
    text = _part_text(part)
    return not isinstance(part, TerminalToolCallContent) if text is None else bool(text.strip())


def _has_failing_exit(raw_output: JsonValue) -> bool:
    if not isinstance(raw_output, dict):
        return False
    codes = [raw_output.get(key) for key in _EXITS]
    return any(isinstance(code, int) and not isinstance(code, bool) and code != 0 for code in codes)


@dataclass(frozen=True, slots=True)
class PermissionOptions:
    """Options of a permission request with which the gate can answer; `None` if the agent offers none.

    Only options that apply once are used: after any other, the agent would not request permission for the
    next call. An id that is also used for another kind of option is ignored.
    """

    allow: str | None
    reject: str | None

    @classmethod
    def of(cls, options: list[PermissionOption]) -> PermissionOptions:
        def unambiguous(kind: str) -> str | None:
            for option in options:
                kinds = {each.kind for each in options if each.option_id == option.option_id}
                if option.kind == kind and kinds == {kind}:
                    return option.option_id
            return None

        return cls(unambiguous("allow_once"), unambiguous("reject_once"))
