"""Hub API for external agents: open sessions, submit calls, report results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from ..core.hints import Hints
from ..net.net import ToolCall
from ..recording.explanation import ExplanationView
from ..recording.records import json_input
from ..sessions.call_answer import CallAnswer
from ..sessions.config import SessionConfig
from ..sessions.errors import UnknownSessionError
from ..sessions.external import ExternalAgent, ExternalSession, RecordedExternalSession
from ..sessions.external_driver import Driver, Prompts
from ..sessions.imports import check_imported
from ..sessions.registry import SessionRegistry, new_id
from .events import DisconnectedCalls


class AgentApi:
    """Part of a hub for external agents; `_live` are its sessions.

    Every answer is recorded before the agent gets it; a call that cannot be recorded or decided is never
    allowed.
    """

    _live: SessionRegistry

    async def open_external(
        self,
        agent: ExternalAgent,
        config: SessionConfig,
        *,
        session_id: str | None = None,
        driver: Driver | None = None,
    ) -> str:
        """Open a session of an external agent; return its id.

        With a `driver` operators can send messages to the agent as to any other, and closing the session,
        or the hub, closes the driver. Raises `NetError` for unknown nets in `config.active`,
        `JournalError` if it cannot be recorded or the id is taken.
        """
        session_id = session_id or new_id(agent.name)
        with self._live.begin(session_id, config, agent.surroundings, ExternalSession) as hosted:
            await hosted.record(hosted.opening(agent, config))
            self._live.add(hosted)
            if driver is not None:
                hosted.drive(driver)
        return session_id

    async def resume_external(
        self,
        session_id: str,
        agent: ExternalAgent,
        config: SessionConfig,
        *,
        driver: Driver | None = None,
    ) -> str:
        """Resume a recorded session of an external agent under its own id, which is returned.

        Markings, budgets, grants, active nets and mode are those of the record; the nets and the mode in
        `config` replace them. An agent of another name has none of the grants (G-74). A recorded decision
        is the answer. A call that was not decided is decided when it is made again. One that was allowed
        and has no result has an unknown outcome. It keeps its tokens in the nets until its result is
        reported after all.

        Raises `SessionNotFound` for an unknown id, `ResumeError` for a session that is live here, that is
        not an external agent's, or whose nets do not fit; `NetError` and `JournalError` as
        `open_external` does.
        """
        async with self._live.revive(
            session_id, agent.name, config, agent.surroundings, ExternalSession
        ) as back:
            hosted = back.hosted
            await hosted.record(*hosted.resuming(agent, config, back.fit, back.events))
            await hosted.switching.catch_up()
            self._live.add(hosted)
            if driver is not None:
                hosted.drive(driver)
        return hosted.id

    def arrival(self) -> Callable[[str], None]:
        """Note that an agent is asking for a session now; say which one to what is returned.

        Servers that share a database tell by it at which of them an agent is.
        """
        return _nowhere_else

    async def is_live(self, session_id: str) -> bool:
        """Return whether a session is live here, once it is not being opened, resumed or ended."""
        await self._live.settled(session_id)
        return session_id in self._live

    async def call(
        self,
        session_id: str,
        call_id: str,
        tool: str,
        input: Mapping[str, JsonValue],  # noqa: A002 - the field's name on the wire
    ) -> CallAnswer:
        """Decide a call: allow it with an input, or block it; waits for its approval request, if any.

        The decision is durable when this returns. The same call under the same id waits for the same
        request, or gets the same answer, even after a restart. Cancelling this takes nothing back: the
        request stays in the queue until an operator decides it or `withdraw_call` is called.

        Raises `CallIdUsed` if the id belongs to a call with another tool or input; `CallWithdrawn` if the
        call is withdrawn in the meantime; `UnknownSessionError`, also if the session is closed in the
        meantime; `JournalError` if the call or its decision could not be recorded; `ValueError` for an
        input that is not a JSON object. After each of these the call must not run.
        """
        return await self.submit_call(session_id, call_id, tool, input)

    def submit_call(
        self,
        session_id: str,
        call_id: str,
        tool: str,
        input: Mapping[str, JsonValue],  # noqa: A002 - as above
        subagent: str = "",
    ) -> asyncio.Future[CallAnswer]:
        """Decide a call, as `call` does; no task waits for a call that needs no approval.

        `subagent` is the agent's own subagent that makes it, by the agent's id for it.
        """
        return self._external(session_id).calls.submit(call_id, tool, input, subagent)

    async def result(
        self,
        session_id: str,
        call_id: str,
        *,
        output: str,
        is_error: bool,
        seconds: float | None = None,
        unknown: bool = False,
    ) -> None:
        """Report how an allowed call ended; nets and record have the result when this returns.

        Without `seconds` the duration is the time since the decision. `unknown` says that the call may or
        may not have run: a later result is still recorded. The same result again changes nothing. Raises
        `ResultRefusedError` for a call that was not allowed or has another result, `UnknownCallError`,
        `UnknownSessionError`, and `JournalError` if it could not be recorded: report it again.
        """
        await self._external(session_id).result(call_id, output, is_error, seconds, unknown=unknown)

    async def end_turn(self, session_id: str) -> None:
        """End the agent's turn: allowed calls without a result get one, with an unknown outcome.

        Nothing waits for them any more; a result that comes later is recorded. Raises
        `UnknownSessionError`, and `JournalError` if it could not be recorded.
        """
        await self._external(session_id).calls.end_turn()

    async def withdraw_call(self, session_id: str, call_id: str, reason: str) -> None:
        """Withdraw a call whose agent no longer waits: its request leaves the queue, with a reason.

        The reason is recorded. A call that was decided before stays decided; one that was not is decided
        when it is made again. Raises `UnknownCallError`, `UnknownSessionError`, and `JournalError` if it
        could not be recorded.
        """
        await self._external(session_id).calls.withdraw(call_id, reason)

    async def give_up_call(self, session_id: str, call_id: str, reason: str) -> datetime | None:
        """Stop waiting for a call: return until when its request stays open (G-102), or withdraw it.

        The call is withdrawn, for the `reason`, if the policy keeps no request open without a client, or
        if no request about the call is open; `None` is returned then. Raises as `withdraw_call` does.
        """
        calls = self._external(session_id).calls
        until = await calls.leave(call_id)
        if until is None:
            await calls.withdraw(call_id, reason)
        return until

    def when_over(self, session_id: str, call_id: str, done: Callable[[], object]) -> None:
        """Call `done` once a call is decided or withdrawn. Raises `UnknownSessionError`."""
        self._external(session_id).calls.when_over(call_id, done)

    def recorded_id(self, session_id: str, call_id: str) -> str:
        """Return a call's id in the record, by its agent's own. Raises `UnknownSessionError`."""
        return self._external(session_id).calls.index.current(call_id)

    def note_connection(self, session_id: str, call_id: str, *, connected: bool) -> None:
        """Show operators that no connection waits for a call any more, or that one waits again."""
        try:
            hosted = self._external(session_id)
        except UnknownSessionError:
            return
        if hosted.note_connection(call_id, connected=connected):
            self._show_disconnected(
                DisconnectedCalls(session=hosted.id, calls=dict(hosted.disconnected or {}))
            )

    def disconnected_calls(self) -> list[DisconnectedCalls]:
        """Return the calls that no connection waits for, of each session that ever had one."""
        return [
            DisconnectedCalls(session=hosted.id, calls=dict(hosted.disconnected))
            for hosted in self._live
            if hosted.disconnected is not None
        ]

    def _show_disconnected(self, event: DisconnectedCalls) -> None:
        """Pass an event on to subscribers."""
        raise NotImplementedError

    async def record_message(
        self,
        session_id: str,
        role: Literal["user", "assistant"],
        text: str,
        *,
        reported_by: str | None = None,
    ) -> None:
        """Record a message from where the agent runs, for the operators who decide about its calls.

        A user's message that the token `reported_by` sends is marked as reported by it. Raises
        `UnknownSessionError`, and `JournalError` if it could not be recorded.
        """
        await self._external(session_id).record_message(role, text, reported_by)

    async def note_hints(self, session_id: str, tool: str, claimed: Hints) -> None:
        """Record the claims of a tool's MCP server about the tool, for conditions on hints (G-113).

        Called before the first call that the claims affect. Raises as `record_message` does.
        """
        await self._external(session_id).note_hints(tool, claimed)

    def has_hints(self, session_id: str, tool: str) -> bool:
        """Return whether claims about a tool apply in a session. Raises `UnknownSessionError`."""
        known = self._external(session_id).state.hints.get(tool)
        return known is not None and bool(known.hints)

    def stream(self, session_id: str, text: str) -> None:
        """Show a piece of a message that `record_message` records whole. Raises `UnknownSessionError`."""
        self._external(session_id).stream(text)

    async def warn(self, session_id: str, text: str) -> None:
        """Record, as an error in the transcript, a warning about the agent for operators.

        Raises as `record_message` does.
        """
        await self._external(session_id).warn(text)

    def steers(self, session_id: str) -> bool:
        """Return whether `Hub.send` reaches the loop of a live session."""
        hosted = self._live.hosted(session_id)
        return hosted.session is not None or self._prompts(session_id) is not None

    def server_of(self, session_id: str) -> str | None:
        """Return `None`: a hub on a file owns every session itself."""

    def takes_edits(self, session_id: str) -> bool:
        """Return whether a call of a live session can run with an edited input."""
        hosted = self._live.hosted(session_id)
        return not isinstance(hosted, ExternalSession) or hosted.takes_edits

    async def system_prompt(self, session_id: str) -> str:
        """Return a live session's active nets and rules in sentences, for its prompt (G-24, G-73)."""
        return self._live.hosted(session_id).manager.describe()

    async def explain_input(
        self,
        session_id: str,
        tool: str,
        input: Mapping[str, JsonValue],  # noqa: A002 - as above
    ) -> ExplanationView:
        """Explain how a live session's nets would now decide a call that it has not made."""
        call = ToolCall("", tool, json_input(input))
        return await asyncio.to_thread(self._live.hosted(session_id).explain_call, call)

    async def recorded_external(
        self, session_id: str, *, whole: bool = False
    ) -> RecordedExternalSession | None:
        """Return the agent of a recorded external agent's session; `None` for any other session.

        With `whole` the id must be complete, not a prefix. Raises `SessionNotFound` for an unknown id,
        `ResumeError` for a session that was imported, which no external agent can resume, `JournalError`
        for a record that cannot be read.
        """
        line, events = await self._live.recorded(session_id, whole=whole)
        found = RecordedExternalSession.of(line.id, events)
        if found is not None and line.imported:
            check_imported(line.id, "outside")
        return found

    def _prompts(self, session_id: str) -> Prompts | None:
        """Return operators' messages to a live session's driver, `None` if it has no driver."""
        hosted = self._live.hosted(session_id)
        return hosted.prompts if isinstance(hosted, ExternalSession) else None

    def _external(self, session_id: str) -> ExternalSession:
        hosted = self._live.hosted(session_id)
        if not isinstance(hosted, ExternalSession):
            raise UnknownSessionError(
                f"Session '{session_id}' is not an external agent's: its own loop makes its calls"
            )
        return hosted


def _nowhere_else(session_id: str) -> None:
    """Tell nobody: there are no other servers."""
