"""Events of agents with hooks, read from a command's stdin: one JSON object that names its event.

Unknown fields are ignored, because later versions add some. A field on which a decision depends must be
present and have the right type: a call that cannot be read is not let through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias, cast

from ...core.json_values import unique
from .transcript import failed, goes_on

JsonObject = dict[str, object]

_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,150}")
_LONGEST_CALL = 200
_CALLING_NOTHING = ("shell", "monitor")
"""Kinds of an agent's background tasks that call no tools."""


class EnvelopeError(ValueError):
    """Stdin contains no event of a hook."""


@dataclass(frozen=True, slots=True)
class SessionStart:
    """A session starts or resumes: `source` is startup, resume, clear, compact, …"""

    session: str
    workdir: str | None
    source: str
    model: str


@dataclass(frozen=True, slots=True)
class PreToolUse:
    """A tool is about to be called; `subagent` is the agent's id of the calling subagent, if any."""

    session: str
    workdir: str | None
    call: str
    tool: str
    input: JsonObject
    subagent: str = ""


@dataclass(frozen=True, slots=True)
class PostToolUse:
    """A tool was called; `output` is its result or error.

    A call that `goes_on` in the background has not ended. `transcript` is the agent's own record.
    """

    session: str
    call: str
    tool: str
    output: str
    is_error: bool
    goes_on: bool = False
    transcript: Path | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """The agent has ended its turn: none of its calls is running, unless its subagents still `work`."""

    session: str
    work: bool = False


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """A session ends; it may be resumed later."""

    session: str
    reason: str


HookEvent: TypeAlias = SessionStart | PreToolUse | PostToolUse | Stop | SessionEnd


def read_event(data: bytes) -> HookEvent:
    """Parse the event in `data`. Raises `EnvelopeError`."""
    try:
        document: object = json.loads(data.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise EnvelopeError(f"stdin is not the JSON of a hook: {error}") from error
    if not isinstance(document, dict):
        raise EnvelopeError(f"stdin is not the JSON object of a hook, it is {_type(document)}")
    envelope = cast("JsonObject", document)
    name = _text(envelope, "hook_event_name")
    session = _text(envelope, "session_id")
    match name:
        case "SessionStart":
            return SessionStart(
                session,
                _optional(envelope, "cwd"),
                str(envelope.get("source", "")),
                _model(envelope.get("model")),
            )
        case "PreToolUse":
            tool_input = envelope.get("tool_input")
            if not isinstance(tool_input, dict):
                raise EnvelopeError(f"tool_input: expected an object, found {_type(tool_input)}")
            return PreToolUse(
                session,
                _optional(envelope, "cwd"),
                _call(envelope),
                _text(envelope, "tool_name"),
                cast("JsonObject", tool_input),
                _subagent(envelope),
            )
        case "PostToolUse":
            response = envelope.get("tool_response")
            return PostToolUse(
                session,
                _call(envelope),
                _text(envelope, "tool_name"),
                output_text(response),
                failed(response),
                goes_on(response),
                _path(envelope.get("transcript_path")),
            )
        case "PostToolUseFailure":
            error = envelope.get("error")
            output = output_text(error)
            if envelope.get("is_interrupt") is True:
                output = f"{output}\n(interrupted)".strip()
            return PostToolUse(session, _call(envelope), _text(envelope, "tool_name"), output, True)
        case "Stop":
            return Stop(session, _subagents_work(envelope.get("background_tasks")))
        case "SessionEnd":
            return SessionEnd(session, str(envelope.get("reason", "")))
        case other:
            raise EnvelopeError(
                f"there is no answer to the event '{other}'; take this command out of that event's hooks"
            )


def session_name(prefix: str, session: str) -> str:
    """Derive a session id from the id of the agent's session."""
    plain = session if _PLAIN.fullmatch(session) else sha256(_bytes(session)).hexdigest()
    return f"{prefix}-{plain}"


def output_text(response: object) -> str:
    """Return a tool's response as text: a command's output, or any other value as JSON."""
    match response:
        case None:
            return ""
        case str():
            return response
        case {"stdout": str(out), "stderr": str(err)}:
            return f"{out}\n{err}" if out and err else out or err
        case _:
            return json.dumps(response, ensure_ascii=False)


def _subagents_work(tasks: object) -> bool:
    """Return whether any background task may call tools; agents that report no tasks have none."""
    return isinstance(tasks, list) and any(
        not isinstance(task, dict) or cast("JsonObject", task).get("type") not in _CALLING_NOTHING
        for task in cast("list[object]", tasks)
    )


def _path(value: object) -> Path | None:
    return Path(value) if isinstance(value, str) and value and "\0" not in value else None


def _call(envelope: Mapping[str, object]) -> str:
    """Return the agent's own id of the call, which connects the result with the call."""
    if "tool_use_id" not in envelope:
        raise EnvelopeError("tool_use_id is missing: this agent is too old, update it")
    call_id = _text(envelope, "tool_use_id")
    return call_id if len(call_id) <= _LONGEST_CALL else sha256(_bytes(call_id)).hexdigest()


def _text(envelope: Mapping[str, object], key: str) -> str:
    text = envelope.get(key)
    if not isinstance(text, str) or not text:
        raise EnvelopeError(f"{key}: expected a text, found {_type(text)}")
    return text


def _optional(envelope: Mapping[str, object], key: str) -> str | None:
    return None if envelope.get(key) is None else _text(envelope, key)


def _subagent(envelope: Mapping[str, object]) -> str:
    """Return the id of the event's subagent, cut to the wire's limit; empty for the agent itself."""
    agent_id = envelope.get("agent_id")
    return agent_id[:_LONGEST_CALL] if isinstance(agent_id, str) else ""


def _model(model: object) -> str:
    """Return a model's name; some versions send an object."""
    match model:
        case str():
            return model
        case {"id": str(name)}:
            return name
        case _:
            return ""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _type(value: object) -> str:
    """Return the type of a value in words, without the value."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text" if value else "an empty text"
        case list():
            return "a list"
        case _:
            return "an object"
