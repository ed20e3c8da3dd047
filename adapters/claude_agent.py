"""Adapter for the Claude Agent SDK: hooks with which every tool call of a session passes the gate.

options = gate_options(ClaudeAgentOptions(allowed_tools=["Bash"]), "deploy.rules")
async for message in query(prompt="Ship it", options=options): ...
"""

# The SDK brings Claude Code along, 178 MB, so the development environment does not have it.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from claude_agent_sdk import (
    CanUseTool,
    ClaudeAgentOptions,
    DeferredToolUse,
    HookMatcher,
    PermissionResult,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
    Transport,
    query,
)

from ..engine.gateway.hooks.transcript import failed, goes_on
from ..engine.gateway.protocol.probe import PROBE
from .backends import Gates, GateSource
from .coverage import Coverage, CoverageError, Probe, version_of
from .gate import CUT_OFF, Allow, Block, Outcome, SessionGate, Wait, outcome_of

FRAMEWORK = "Claude Agent SDK"

LONGEST_WAIT = 23 * 3600.0
"""Seconds after which a waiting call is blocked, before Claude Code's own limit for a hook."""
_TIMEOUT = 24 * 3600.0
_CHANGED = "its input was changed after the gate had judged it"
_SETTINGS = "hooks in settings files that change an input after the gate has seen it"


def gate_options(
    options: ClaudeAgentOptions | None = None,
    gate: GateSource = None,
    *,
    agent: str = "claude",
    thread: str | None = None,
    pause_after: float | None = None,
    short_names: bool = False,
) -> ClaudeAgentOptions:
    """Return options like `options` whose sessions pass every tool call to the gate, subagents included.

    `gate` is a rules file, a rule set, a gate in this process, the URL of a server, or `None` for the
    server at INTERLOCK_URL, where `agent` is the agent's name. The session is that of Claude Code, which
    `resume` continues, or the one that `thread` names. An allowed call still passes the permissions of
    `options`; a call that an operator has edited does not. With `pause_after`, a run whose call waits
    longer than that many seconds for an operator stops with `deferred_tool_use` in its result: see
    `ask_again`. With `short_names`, rules name the tools of MCP servers in this program as these servers
    do: `deploy` instead of `mcp__own__deploy`.

    Raises `ValueError` for `PreToolUse` hooks in `options`, which could change what was approved.
    """
    chosen = ClaudeAgentOptions() if options is None else options
    hooks = dict(chosen.hooks or {})
    if hooks.get("PreToolUse"):
        raise ValueError("options have PreToolUse hooks, which could change an input after its approval")
    own = _own_servers(chosen) if short_names else ()
    gated = _GateHooks(Gates.of(gate, agent=agent), thread, pause_after, own)
    before = HookMatcher(hooks=[gated.before], timeout=_TIMEOUT, on_failure="block")
    after = HookMatcher(hooks=[gated.after], timeout=_TIMEOUT)
    hooks["PreToolUse"] = [before]
    hooks["PostToolUse"] = [after, *hooks.get("PostToolUse", [])]
    hooks["PostToolUseFailure"] = [after, *hooks.get("PostToolUseFailure", [])]
    can_use = chosen.can_use_tool
    return replace(chosen, hooks=hooks, can_use_tool=None if can_use is None else _unchanged(can_use))


@dataclass
class _GateHooks:
    """The hooks of one gate, and the notices of edits for running calls."""

    gates: Gates
    thread: str | None
    pause_after: float | None
    own_servers: tuple[str, ...]
    notices: dict[str, str] = field(default_factory=dict[str, str])

    async def before(self, event: Any, call_id: str | None, _: Any) -> Any:
        """Answer `PreToolUse`; a failure of this hook also blocks."""
        tool, tool_input = self.name(event["tool_name"]), cast("dict[str, Any]", event["tool_input"])
        call_id = call_id or str(event["tool_use_id"])
        wait = LONGEST_WAIT if self.pause_after is None else self.pause_after
        answer = await self.session(event["session_id"]).ask(call_id, tool, tool_input, wait=wait)
        match answer:
            case Allow(notice=None):
                return {}
            case Allow():
                self.notices[call_id] = answer.notice or ""
                return _decision("allow", answer.notice or "", updatedInput=answer.input)
            case Wait() if self.pause_after is not None:
                return _decision("defer", answer.reason)
            case Block() | Wait():
                return _decision("deny", Block(answer.reason).tell(tool))

    async def after(self, event: Any, call_id: str | None, _: Any) -> Any:
        """Report the end of a call, and notify the model of an edit."""
        call_id, tool = call_id or str(event["tool_use_id"]), self.name(event["tool_name"])
        gate = self.session(event["session_id"])
        if event["hook_event_name"] == "PostToolUseFailure":
            outcome: Outcome = "unknown" if event.get("is_interrupt") else "failed"
            await gate.done(call_id, CUT_OFF if outcome == "unknown" else event["error"], outcome)
        elif not goes_on(response := event["tool_response"]):
            outcome = "failed" if failed(response) else outcome_of(tool, response)
            await gate.done(call_id, response, outcome)
        notice = self.notices.pop(call_id, None)
        if notice is None:
            return {}
        output = {"hookEventName": event["hook_event_name"], "additionalContext": notice}
        return {"hookSpecificOutput": output}

    def session(self, session_id: str) -> SessionGate:
        """Return the gate of a session of Claude Code."""
        return self.gates.session(self.thread or session_id)

    def name(self, tool: str) -> str:
        """Return the name of a tool as used in rules."""
        for server in self.own_servers:
            tool = tool.removeprefix(f"mcp__{server}__")
        return tool


def _decision(decision: str, reason: str, **more: object) -> dict[str, Any]:
    head = {"hookEventName": "PreToolUse", "permissionDecision": decision}
    return {"hookSpecificOutput": {**head, "permissionDecisionReason": reason, **more}}


def _own_servers(options: ClaudeAgentOptions) -> tuple[str, ...]:
    """Return the names of the MCP servers that run in this program."""
    servers = options.mcp_servers if isinstance(options.mcp_servers, dict) else {}
    return tuple(name for name, each in servers.items() if each.get("type") == "sdk")


def _unchanged(can_use: CanUseTool) -> CanUseTool:
    """Return a permission callback that cannot change the input: the gate has judged the original one."""

    async def checked(
        tool: str, tool_input: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResult:
        found = await can_use(tool, tool_input, context)
        changed = isinstance(found, PermissionResultAllow) and found.updated_input not in (
            None,
            tool_input,
        )
        return PermissionResultDeny(message=_CHANGED) if changed else found

    return checked


async def ask_again(options: ClaudeAgentOptions, deferred: DeferredToolUse, session_id: str) -> bool:
    """Request a decision on the call at which a session stopped; return true once no operator is awaited.

    `options` are those of `gate_options`. Resume the session only then, with an empty prompt: Claude Code
    loses a call at which it stops twice.

        if await ask_again(options, result.deferred_tool_use, result.session_id):
            resumed = query(prompt="", options=replace(options, resume=result.session_id))
    """
    gated = _gate_of(options)
    gate, tool = gated.session(session_id), gated.name(deferred.name)
    return not isinstance(await gate.ask(deferred.id, tool, deferred.input, wait=gated.pause_after), Wait)


def _gate_of(options: ClaudeAgentOptions) -> _GateHooks:
    for matcher in (options.hooks or {}).get("PreToolUse", []):
        for hook in matcher.hooks:
            gated = getattr(hook, "__self__", None)
            if isinstance(gated, _GateHooks):
                return gated
    raise TypeError("These options have no gate: give them to gate_options first")


async def check_coverage(options: ClaudeAgentOptions) -> Coverage:
    """Have the SDK pass a probe to its hooks, as Claude Code does, and list what the gate does not see.

    Claude Code itself is not started. The SDK rejects a version that does not block when a hook fails,
    when it connects. Raises `CoverageError` if the probe is not blocked.
    """
    transport = _ProbeTransport()
    async for _ in query(prompt="probe", options=options, transport=transport):
        pass
    Probe().check("\n".join(transport.answers))
    if not all(each.get("onFailure") == "block" for each in transport.matchers):
        raise CoverageError("A PreToolUse hook does not block when it fails")
    unseen = {} if options.setting_sources == [] else {"setting_sources": _SETTINGS}
    return Coverage(FRAMEWORK, version_of("claude-agent-sdk"), ("every tool of Claude Code",), unseen)


class _ProbeTransport(Transport):
    """Stand-in for Claude Code that calls the probe, and then ends."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.matchers: list[Mapping[str, Any]] = []
        self._said: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._open: set[str] = set()
        self._started = False

    async def connect(self) -> None:
        """Start nothing."""

    async def close(self) -> None:
        """Do nothing: nothing was started."""

    async def end_input(self) -> None:
        """Do nothing: there is no more input."""

    def is_ready(self) -> bool:
        return True

    async def write(self, data: str) -> None:
        """Receive a message of the SDK: its hooks, and their answers."""
        message = json.loads(data)
        match message:
            case {"type": "control_request", "request_id": number, "request": request}:
                response = {"hook_on_failure_supported": True, "hooks_applied": True, "commands": []}
                reply = {"subtype": "success", "request_id": number, "response": response}
                self._say({"type": "control_response", "response": reply})
                hooks = request.get("hooks") or {}
                self.matchers = list(hooks.get("PreToolUse") or [])
                called = [each for matcher in self.matchers for each in matcher["hookCallbackIds"]]
                self._open = {f"probe-{each}" for each in called}
                for each in called:
                    self._say(_probe_request(each))
            case {"type": "control_response", "response": {"request_id": number} as answer}:
                self.answers.append(json.dumps(answer))
                self._open.discard(number)
            case {"type": "user"}:
                self._started = True
            case _:
                pass
        if self._started and not self._open:
            self._say(None)

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        while (message := await self._said.get()) is not None:
            yield message
        yield _RESULT

    def _say(self, message: dict[str, Any] | None) -> None:
        self._said.put_nowait(message)


_RESULT: dict[str, Any] = {
    "type": "result",
    "subtype": "success",
    "duration_ms": 0,
    "duration_api_ms": 0,
    "is_error": False,
    "num_turns": 1,
    "session_id": "probe",
}


def _probe_request(callback: str) -> dict[str, Any]:
    """Return the request to a hook about the probe, as Claude Code sends it."""
    event = {
        "hook_event_name": "PreToolUse",
        "session_id": "interlock-probe",
        "transcript_path": "",
        "cwd": "",
        "tool_name": PROBE,
        "tool_input": {},
        "tool_use_id": "probe",
    }
    request = {
        "subtype": "hook_callback",
        "callback_id": callback,
        "input": event,
        "tool_use_id": "probe",
    }
    return {"type": "control_request", "request_id": f"probe-{callback}", "request": request}
