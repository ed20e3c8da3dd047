"""Session of an external agent: its loop is in another process or language, or behind a hook.

Its record, nets and approval requests are kept here; its messages and calls come from its program. No
call of it is ever run here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ..agents import ErrorEvent, TextDelta
from ..agents.messages import clean_text
from ..core.condition import Shell, Surroundings
from ..gate.types import ApprovalRequest, GateContext, GateDecision
from ..history.errors import JournalError
from ..history.model.events import (
    CallResult,
    EventBody,
    JournalEvent,
    MessageAdded,
    SessionOpened,
    SessionResumed,
    SessionStatus,
)
from ..history.model.state import SessionState
from ..history.redaction.restore import StillMaskedError
from ..net.net import ToolCall
from ..recording.records import decided_record, net_record
from ..recording.resume import ResumePoint, closings, unknown_result
from .external_calls import OutsideCalls
from .external_driver import Driver, Prompts
from .hosted import HostedSession, Loop
from .messages import stopped


class OutsideAgent(BaseModel):
    """External agent as it describes itself: all of it is shown, none of it is trusted.

    `tools` and `labels`, the tools' names for people, are what consoles list; `workdir` is what relative
    paths in calls start from, for conditions on paths, `shell` what runs its commands. `source` is what
    is needed to start it again.
    """

    model_config = ConfigDict(frozen=True)

    name: str = Field(min_length=1)
    model: str = ""
    tools: tuple[str, ...] = ()
    workdir: str | None = None
    shell: Shell | None = None
    labels: dict[str, str] = {}
    source: dict[str, JsonValue] | None = None

    @property
    def surroundings(self) -> Surroundings:
        """Evaluation context for its calls; links on its machine cannot be followed from here."""
        return Surroundings(self.workdir, shell=self.shell)


class RecordedOutside(BaseModel):
    """Recorded session of an external agent and who opened it; `agent` is its latest description."""

    model_config = ConfigDict(frozen=True)

    id: str
    agent: OutsideAgent
    opened_by: str | None

    @classmethod
    def of(cls, session_id: str, events: Iterable[JournalEvent]) -> RecordedOutside | None:
        """From a session's record; `None` when its loop was here."""
        by: str | None = None
        agent: OutsideAgent | None = None
        for event in events:
            match event.body:
                case SessionOpened(kind="outside") as body:
                    by, agent = body.opened_by, _agent_of(body)
                case SessionOpened():
                    return None
                case SessionResumed() as body:
                    agent = _agent_of(body, None if agent is None else agent.source)
                case _:
                    pass
        return None if agent is None else cls(id=session_id, agent=agent, opened_by=by)


def _agent_of(
    body: SessionOpened | SessionResumed, source: dict[str, JsonValue] | None = None
) -> OutsideAgent:
    return OutsideAgent(
        name=body.agent,
        model=body.model,
        tools=body.tools,
        workdir=body.workdir,
        shell=body.shell,
        labels=body.labels,
        source=body.source or source,
    )


@dataclass(slots=True)
class _AtOnce:
    """A call that is decided here and now: what is recorded before its decision, and both's future."""

    before: tuple[EventBody, ...]
    recorded: asyncio.Future[None] | None = None


async def _ask_later(_: ApprovalRequest) -> bool:
    await asyncio.sleep(0)
    raise AssertionError("nobody is asked here")


_ASKS_NOBODY = GateContext(confirm=_ask_later)


class OutsideSession(HostedSession):
    """Session of an external agent; `session` stays `None`. With a driver it takes messages."""

    loop: ClassVar[Loop] = "elsewhere"
    renews_ids: ClassVar[bool] = True
    """Tell whether a call under the id of one that has a result is another call (G-76)."""
    prompts: Prompts | None = None
    _at_once: _AtOnce | None = None
    _lost_some = False

    @cached_property
    def calls(self) -> OutsideCalls:
        """Calls of the agent, with their decisions and results."""
        return OutsideCalls(self)

    @property
    def bounded_by(self) -> str | None:
        """Whoever opened it, at a server by the token."""
        return self.state.opened_by

    @property
    def now(self) -> datetime:
        return self.journal.clock()

    def hand_over(
        self, *bodies: EventBody, then: Callable[[bool], None] | None = None
    ) -> asyncio.Future[None]:
        """As every session's; its calls follow the record. Raises also for what rests on a lost call."""
        self.calls.check(bodies)

        def recorded(written: bool) -> None:
            for body in bodies:
                if written:
                    self.calls.heard(body)
                else:
                    self._lost_some = True
                    self.calls.lost(body)
            if then is not None:
                then(written)

        return super().hand_over(*bodies, then=recorded)

    def decide_at_once(self, call: ToolCall, *before: EventBody) -> asyncio.Future[None] | None:
        """Have the nets decide a call that needs no operator; returns what its record waits for.

        `before` is recorded with the decision. The gate is told that it is recorded once it is handed
        over, the agent only once it is: should it be lost, what is handed over next is refused, and the
        gate is set back before it decides again. `None`, and nothing has happened, for a call that needs
        approval, in a session of which anything was ever lost, and where something is to be switched back
        first: `decide`.
        """
        if self._lost_some or self.switching.is_late():
            return None
        at_once = self._at_once = _AtOnce(before)
        deciding = self.manager.handle_tool_call(call, _ASKS_NOBODY)
        try:
            deciding.send(None)
        except StopIteration:
            pass
        else:
            # As one that is cancelled while a person is asked: nothing has fired.
            deciding.close()
        finally:
            self._at_once = None
        return at_once.recorded

    def _record_decision(self, call: ToolCall, decision: GateDecision) -> Awaitable[None]:
        at_once = self._at_once
        if at_once is None:
            return super()._record_decision(call, decision)
        recorded = self._in_step.record(
            lambda: [*at_once.before, self.with_off(decision, decided_record(decision))]
        )
        if recorded.done():
            self._lost_some = True
            return recorded
        at_once.recorded = recorded
        return self._handed_over

    @cached_property
    def _handed_over(self) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def note_settled(self, call_id: str, output: str) -> None:
        """No message follows here."""

    def drive(self, driver: Driver) -> None:
        """Let operators send messages to the agent from now on; the session's end closes the driver."""
        self.prompts = Prompts(self, driver)

    async def stop(self, reason: str) -> None:
        """Block what waits for a person; a driver's turn is interrupted."""
        if self.prompts is not None:
            await self.prompts.abort(reason)
        await self.calls.deny_all(stopped(reason))

    def why_left(self, call_id: str) -> str:
        """As every session's, or as whoever ended the call says."""
        return self.calls.why_ended(call_id) or super().why_left(call_id)

    async def leave(self, why: str) -> None:
        """Let nothing of it be asked any more; where it has a driver, end that."""
        await self.calls.close(why)
        if self.prompts is not None:
            await self.prompts.close(why)

    async def said(
        self, role: Literal["user", "assistant"], text: str, reported_by: str | None = None
    ) -> None:
        """Record a message of the external agent, with the token that reported it, if any."""
        if text.strip():
            by = reported_by if role == "user" else None
            await self.record(MessageAdded(role=role, text=str(clean_text(text)), reported_by=by))

    def stream(self, text: str) -> None:
        """Show text of the agent as it comes; the record gets it whole."""
        self.publish(TextDelta(delta=str(clean_text(text))), self.id)

    async def warn(self, text: str) -> None:
        """Record a warning about the agent for operators, at its moment in the transcript."""
        await self.record(SessionStatus(status=self.state.phase, error=str(clean_text(text))))

    def fail(self, error: JournalError) -> None:
        """Show what the journal cannot say; the state is all that is left."""
        self._told.fail(str(error))
        self.publish(ErrorEvent(error=error), self.id)

    def unmasked(self, approval_id: str, edited: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """As every session's, where an edited input can be passed on."""
        if self.prompts is not None and not self.prompts.takes_edits:
            raise StillMaskedError(
                "this agent runs its calls as it asked for them, so an input cannot be changed here. "
                "Deny the call and tell the agent what to do instead"
            )
        return super().unmasked(approval_id, edited)

    async def result(self, call_id: str, output: str, is_error: bool, seconds: float | None) -> None:
        """Record how a call ended."""
        await self.calls.result(call_id, str(clean_text(output)), is_error, seconds)

    # Begin and resume

    def begins(self, agent: OutsideAgent, by: str | None, owner: str | None = None) -> SessionOpened:
        """The event its journal begins with."""
        return SessionOpened(
            agent=agent.name,
            model=agent.model,
            mode=self.manager.mode,
            nets=tuple(net_record(key, net) for key, net in self.manager.nets.items()),
            active=tuple(self.manager.active),
            tools=agent.tools,
            workdir=agent.workdir,
            shell=agent.shell,
            opened_by=by,
            owner=owner,
            kind="outside",
            labels=agent.labels,
            source=agent.source,
        )

    def goes_on(
        self,
        agent: OutsideAgent,
        by: str | None,
        fit: ResumePoint,
        events: Sequence[JournalEvent],
        *,
        owner: str | None = None,
    ) -> list[EventBody]:
        """Events with which it is resumed after those recorded.

        A call that was allowed and has no result may have run: what waits for its result in the nets
        keeps waiting, and only what waits in a net that has changed is dropped. A call that an operator
        had denied is denied; any other that was not decided is decided when it is made again.
        """
        state = self.state
        for event in events:
            self.calls.book.take(event.body)
        self._wait_for_results(fit.markings)
        resumed = SessionResumed(
            agent=agent.name,
            model=agent.model,
            mode=self.manager.mode,
            nets=fit.fresh,
            dropped=fit.dropped,
            forgot=fit.forgot,
            active=tuple(self.manager.active),
            tools=agent.tools,
            workdir=agent.workdir,
            shell=agent.shell,
            by=by,
            owner=owner,
            ended_grants=self.ended_grants,
            labels=agent.labels,
            source=agent.source,
        )
        waits = {p.call_id for p in state.pending}
        ended = closings(state, (), [event.body for event in events], going_on=waits)
        return [resumed, *ended, *_lost(state, fit.markings)]

    def _wait_for_results(self, nets: Container[str]) -> None:
        self.manager.restore(
            pending=[
                (p.step.net, p.step.transition, p.step.tool, self._call(p.call_id))
                for p in self.state.pending
                if p.step.net in nets
            ]
        )


def _lost(state: SessionState, nets: Container[str]) -> list[CallResult]:
    """Results, outcome unknown, that drop the pending steps of nets other than `nets`."""
    lost = [p for p in state.pending if p.step.net not in nets]
    return [
        unknown_result(call_id, state.calls[call_id].tool, [p.step for p in lost if p.call_id == call_id])
        for call_id in dict.fromkeys(p.call_id for p in lost)
    ]
