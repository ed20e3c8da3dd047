"""Answers of the hook command to each event of an agent; see `main`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ....engine.gateway.hooks.client import (
    GRACE,
    REFUSED,
    HookClient,
    HookRefusedError,
    HookVerdict,
    NoTokenError,
    Opening,
)
from ....engine.gateway.hooks.events import (
    HookEvent,
    PostToolUse,
    PreToolUse,
    SessionEnd,
    SessionStart,
    Stop,
    read_event,
    session_name,
)
from ....engine.gateway.hooks.transcript import exit_code
from ....engine.gateway.hooks.websocket import GoneError, HookError, LateError, NoServerError
from ....engine.gateway.protocol.late_calls import late_answer
from ....engine.gateway.protocol.probe import PROBE, refusal_of_probe
from ...config.hooks import MARGIN, HookSettings, OnEdit, hook_settings
from .command_line import HookLine
from .server import Connected, StartingError, connect, others

NO_SERVER_RULES = (
    "Interlock records this session but judges nothing: its server has no rules. Name some in "
    'interlock.toml in your config directory ([serve], rules = ["FILE"]) and start the server again.'
)

OUTDATED_HOOKS = (
    "These hooks are from an older Interlock: what a project sets in an agent's environment can switch "
    "them off. Install them again: interlock hook install {agent}"
)
NO_EXIT_CODE = "({agent} did not say how this command ended, so it does not count as a success.)"


class ResultLostError(HookError):
    """The result of a call could not be recorded; the call has already run, so nothing is blocked."""

    has_run = True


@dataclass(frozen=True, slots=True)
class HookAgent:
    """Properties of an agent's answers.

    An agent that does not support `ask` or `allow` runs the tool on it.

    `commands` is its shell tool if that tool's results do not say how the command ended; the exit code is
    then read from the transcript.
    """

    name: str
    prefix: str
    takes_allow: bool
    takes_ask: bool
    on_edit: OnEdit
    commands: str | None = None


AGENTS = {
    "claude-code": HookAgent("claude-code", "claude", takes_allow=True, takes_ask=True, on_edit="pass"),
    # Codex versions that do not support edited inputs run the original input.
    "codex": HookAgent(
        "codex", "codex", takes_allow=False, takes_ask=False, on_edit="deny", commands="Bash"
    ),
}


@dataclass(frozen=True, slots=True)
class _Hook:
    """One run of the command."""

    agent: HookAgent
    settings: HookSettings
    line: HookLine
    started_at: float
    interlock: tuple[str, ...]
    environ: Mapping[str, str]

    @property
    def margin(self) -> float:
        return min(MARGIN, self.line.timeout / 2)

    @property
    def until(self) -> float:
        """Deadline for the operator's answer, in seconds of the monotonic clock."""
        return self.started_at + min(self.settings.wait, self.line.timeout - self.margin)

    @property
    def end(self) -> float:
        """Deadline for the command's own answer, in seconds of the monotonic clock."""
        return self.started_at + self.line.timeout - self.margin / 2

    def opening(self, event: HookEvent) -> Opening:
        return Opening(
            session=session_name(self.agent.prefix, event.session),
            agent=self.agent.name,
            workdir=event.workdir if isinstance(event, PreToolUse | SessionStart) else None,
            shell=os.environ.get("SHELL"),
            model=event.model if isinstance(event, SessionStart) else "",
            rules=self.settings.rules,
        )


def answer(
    agent: str,
    data: bytes,
    *,
    line: HookLine,
    started_at: float,
    interlock: tuple[str, ...],
    environ: Mapping[str, str],
) -> str:
    """Return the answer to the event in `data`, to be written to stdout.

    Raises `EnvelopeError`, `SettingsError` and `HookError`; the tool must not run then.
    """
    hook = _Hook(
        agent=AGENTS[agent],
        settings=hook_settings(line.project, environ=environ),
        line=line,
        started_at=started_at,
        interlock=interlock,
        environ=environ,
    )
    event = read_event(data)
    if _is_unfinished(event):
        return ""
    try:
        return _answer_with_server(hook, event)
    except HookError as error:
        if not isinstance(event, PostToolUse):
            raise
        raise ResultLostError(
            f"The result of this call of {event.tool} is not recorded, so rules that wait for it go on "
            f"waiting: {error}"
        ) from error


def _is_unfinished(event: HookEvent) -> bool:
    """Return whether the work of an event continues.

    Work that ends later, unreported, is closed with its turn.
    """
    match event:
        case PostToolUse(goes_on=goes_on):
            return goes_on
        case Stop(work=work):
            return work
        case _:
            return False


def _answer_with_server(hook: _Hook, event: HookEvent) -> str:
    """Return the answer of a server; if that server is lost or stopped, of the next one named.

    Requests and reports repeated under the same ids count once.
    """
    more = others(hook.environ)
    while True:
        try:
            return _answer_with_one(hook, event, watched=more > 0)
        except GoneError:
            if not more or time.monotonic() > hook.until:
                raise
            more -= 1


def _answer_with_one(hook: _Hook, event: HookEvent, *, watched: bool) -> str:
    try:
        connected = connect(
            hook.line,
            hook.end,
            interlock=hook.interlock,
            may_start=not isinstance(event, Stop | SessionEnd),
            idle_exit=hook.settings.idle_exit,
            environ=hook.environ,
        )
    except (NoServerError, NoTokenError):
        if isinstance(event, Stop | SessionEnd):
            return ""  # no server has the session open
        raise
    if watched:
        connected.client.watch()
    try:
        return _answer(hook, event, connected)
    except LateError as error:
        if not connected.start_seconds:
            raise
        raise StartingError(
            f"its server took {connected.start_seconds:.0f} s to start, and then {error}; "
            "make the call again"
        ) from error
    finally:
        connected.client.close()


def _answer(hook: _Hook, event: HookEvent, connected: Connected) -> str:
    client = connected.client
    match event:
        case SessionStart():
            return _begin(hook, event, client, connected.console)
        case PreToolUse():
            return _judge(hook, event, client, connected.start_seconds)
        case PostToolUse():
            return _settle(hook, event, client)
        case Stop():
            client.end_turn(hook.opening(event), hook.end)
            return ""
        case SessionEnd():
            client.end(hook.opening(event).session, hook.end)
            return ""


def _begin(hook: _Hook, event: SessionStart, client: HookClient, console: str | None) -> str:
    opened = client.open(hook.opening(event), hook.end)
    notes = [] if opened.judged else [NO_SERVER_RULES]
    if hook.line.config is None:
        notes.append(OUTDATED_HOOKS.format(agent=hook.agent.name))
    if console is not None:
        notes.append(f"Interlock asks about calls in: interlock console --connect {console}")
    return json.dumps({"systemMessage": "\n".join(notes)}) if notes else ""


def _judge(hook: _Hook, event: PreToolUse, client: HookClient, start_seconds: float) -> str:
    opening = hook.opening(event)
    try:
        judged = client.judge(
            opening, event.call, event.tool, event.input, hook.until, subagent=event.subagent
        )
    except BaseException as error:
        # No operator should decide a call that is not made. A refused call is in no queue. A call whose
        # server is gone is sent to another server: a withdrawal that the first one reads later must not
        # reach it.
        if not isinstance(error, HookRefusedError | GoneError):
            with suppress(HookError):
                client.withdraw(
                    opening.session, event.call, "the agent stopped waiting", _short_deadline()
                )
        raise
    if event.tool == PROBE:
        return _probed(hook, event, client, shadow=judged.shadow)
    if judged.outcome == "waiting":
        return _undecided(hook, event, client, start_seconds, judged.reason)
    if judged.outcome == "block":
        return _decision("deny", judged.reason or "Interlock does not allow this call")
    if judged.edited:
        return _edited_call(hook, event, client, judged)
    if judged.shadow or not hook.agent.takes_allow or not _skips_question(hook.settings, judged):
        return ""
    return _decision("allow", judged.reason or "approved in Interlock")


def _probed(hook: _Hook, event: PreToolUse, client: HookClient, *, shadow: bool) -> str:
    """Block the probe, whatever the rules decide, and end its session."""
    session = hook.opening(event).session
    with suppress(HookError):
        client.withdraw(session, event.call, "it was a probe", _short_deadline())
    with suppress(HookError):
        client.not_run(session, event.call, "it was a probe", _short_deadline())
    with suppress(HookError):
        client.end(session, _short_deadline())
    return _decision("deny", refusal_of_probe(shadow=shadow))


def _skips_question(settings: HookSettings, judged: HookVerdict) -> bool:
    """Return whether our answer replaces the agent's own question."""
    return settings.on_allow == "allow" or (settings.on_allow == "approved" and judged.approved)


def _undecided(
    hook: _Hook, event: PreToolUse, client: HookClient, start_seconds: float, frozen: str
) -> str:
    """Answer when time has run out; `frozen` says who has frozen all agents, if anybody."""
    wait = hook.until - hook.started_at
    waited = f"nobody decided within {wait:.0f} s"
    if start_seconds >= 1:
        remaining = max(0.0, wait - start_seconds)
        waited = f"its server took {start_seconds:.0f} s to start"
        waited += f", and nobody decided in the {remaining:.0f} s left"
    waited = f"all agents are {frozen}" if frozen else waited
    session, until = hook.opening(event).session, None
    asks_user = hook.settings.on_wait == "ask" and hook.agent.takes_ask and not frozen
    with suppress(HookError):
        if asks_user:
            # The agent's user decides instead, so no operator may decide it later.
            client.withdraw(session, event.call, waited, _short_deadline())
        else:
            until = client.give_up(session, event.call, waited, _short_deadline())
    if frozen:
        # Not left to the agent's own question: a freeze takes precedence over its user's answer.
        return _decision(
            "deny",
            f"Interlock holds this call, {waited}, so it was not made. Make it again when an operator "
            "has lifted that.",
        )
    if asks_user:
        return _decision("ask", f"Interlock has a rule that requires approval for this, and {waited}")
    if until is not None:
        return _decision(
            "deny", f"Interlock requested approval for this call. {late_answer(waited, until)}"
        )
    return _decision(
        "deny",
        f"Interlock requested approval for this call and {waited}, so it was not made. Go on with "
        "something else, or make it again when somebody is there to decide.",
    )


def _edited_call(hook: _Hook, event: PreToolUse, client: HookClient, judged: HookVerdict) -> str:
    if (hook.settings.on_edit or hook.agent.on_edit) == "pass":
        return _decision(
            "allow",
            judged.reason or "approved in Interlock with another input",
            updatedInput=judged.input,
            additionalContext="An operator changed the input of this call. It was made with: "
            + json.dumps(judged.input, ensure_ascii=False),
        )
    with suppress(HookError):
        session = hook.opening(event).session
        client.not_run(session, event.call, "the agent was told the input to use", hook.end + GRACE)
    return _decision(
        "deny",
        "An operator allows this call only with another input. Make it again with exactly this: "
        + json.dumps(judged.input, ensure_ascii=False),
    )


def _settle(hook: _Hook, event: PostToolUse, client: HookClient) -> str:
    output, is_error = _result(hook, event)
    try:
        client.settle(hook.opening(event), event.call, output, hook.end, is_error=is_error)
    except HookRefusedError as error:
        if error.code == REFUSED and hook.settings.on_wait == "ask":
            return ""  # its user allowed the call when the agent asked
        raise
    return ""


def _result(hook: _Hook, event: PostToolUse) -> tuple[str, bool]:
    """Return the result of a call, and whether it failed.

    A command succeeded only if its exit code is known.
    """
    if event.is_error or event.tool != hook.agent.commands:
        return event.output, event.is_error
    code = None if event.transcript is None else exit_code(event.transcript, event.call)
    if code is None:
        return f"{event.output}\n{NO_EXIT_CODE.format(agent=hook.agent.name)}".strip(), True
    return (f"{event.output}\nExit code {code}".strip(), True) if code else (event.output, False)


def _decision(decision: str, reason: str, **more: object) -> str:
    output: dict[str, object] = {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    }
    return json.dumps({"hookSpecificOutput": output | more})


def _short_deadline() -> float:
    return time.monotonic() + 1.0
