"""Session of an external agent, whose loop is in another process or language, or behind a hook.

Its record, nets and approval requests are kept here; its messages and calls come from its program. None
of its calls is run here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ..agents import TextDelta
from ..agents.messages import clean_text
from ..core.condition import Shell, Surroundings
from ..history.model.events import (
    EventBody,
    JournalEvent,
    SessionOpened,
    SessionResumed,
    SessionStatus,
)
from ..history.model.records import Kind
from ..history.redaction.unmasking import StillMaskedError
from ..recording.interrupted_calls import unknown_result
from ..recording.resume_checks import ResumePoint
from .config import SessionConfig
from .external_driver import Driver, Prompts
from .profile import AgentProfile
from .submitted import SubmittedSession


class ExternalAgent(BaseModel):
    """External agent as it describes itself: all of it is displayed, none of it is trusted.

    Consoles list `tools` and `labels`, the tools' display names. `workdir` is the base of relative paths
    in calls, for conditions on paths, and `shell` runs its commands. `source` is the data needed to start
    it again.
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
    def profile(self) -> AgentProfile:
        """Return its description in the record of its session."""
        return AgentProfile(self.name, self.model, self.tools, self.workdir, self.shell, self.labels)

    @property
    def surroundings(self) -> Surroundings:
        """Return the evaluation context of its calls; links on its machine cannot be resolved here."""
        return Surroundings(self.workdir, shell=self.shell)


class RecordedExternalSession(BaseModel):
    """Recorded session of an external agent and who opened it; `agent` is its latest description."""

    model_config = ConfigDict(frozen=True)

    id: str
    agent: ExternalAgent
    opened_by: str | None

    @classmethod
    def of(cls, session_id: str, events: Iterable[JournalEvent]) -> RecordedExternalSession | None:
        """Return the session from its record; `None` if its loop was here."""
        by: str | None = None
        agent: ExternalAgent | None = None
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
) -> ExternalAgent:
    return ExternalAgent(
        name=body.agent,
        model=body.model,
        tools=body.tools,
        workdir=body.workdir,
        shell=body.shell,
        labels=body.labels,
        source=body.source or source,
    )


class ExternalSession(SubmittedSession):
    """Session of an external agent. With a driver it accepts messages."""

    kind: ClassVar[Kind] = "outside"
    prompts: Prompts | None = None
    runs_edits = True
    """True if its program can run a call with an edited input; a driver says so itself."""

    @property
    def takes_edits(self) -> bool:
        """True if a call can run with an edited input."""
        return self.runs_edits and (self.prompts is None or self.prompts.takes_edits)

    def drive(self, driver: Driver) -> None:
        """Let operators send messages to the agent from now on; the session's end closes the driver."""
        self.prompts = Prompts(self, driver)

    async def stop(self, reason: str) -> None:
        """Block the calls that wait for an operator, and interrupt the driver's turn."""
        if self.prompts is not None:
            await self.prompts.abort(reason)
        await super().stop(reason)

    async def shut_down(self, reason: str) -> None:
        """Accept no more calls, and close the driver if there is one."""
        await super().shut_down(reason)
        if self.prompts is not None:
            await self.prompts.close(reason)

    def stream(self, text: str) -> None:
        """Show text of the agent as it arrives; the complete text is recorded separately."""
        self.publish(TextDelta(delta=str(clean_text(text))), self.id)

    async def warn(self, text: str) -> None:
        """Record a warning about the agent for operators, at its position in the transcript."""
        await self.record(SessionStatus(status=self.state.phase, error=str(clean_text(text))))

    def unmasked(self, approval_id: str, edited: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Restore the masked parts of an edited input, if the agent can run edited calls."""
        if not self.takes_edits:
            raise StillMaskedError(
                "this agent runs its calls as it asked for them, so an input cannot be changed here. "
                "Deny the call and tell the agent what to do instead"
            )
        return super().unmasked(approval_id, edited)

    def opening(self, agent: ExternalAgent, config: SessionConfig) -> SessionOpened:
        """Return the event with which its record begins."""
        return self.opened(agent.profile, replace(config, source=agent.source))

    def resuming(
        self,
        agent: ExternalAgent,
        config: SessionConfig,
        point: ResumePoint,
        events: Sequence[JournalEvent],
    ) -> list[EventBody]:
        """Return the events with which it is resumed after `events`.

        A call that was allowed and has no result may have run. Only deferred transitions in changed nets
        are dropped, with a result whose outcome is unknown.
        """
        config, state = replace(config, source=agent.source), self.state
        dropped = [p for p in state.pending if not point.keeps(p)]
        ids = dict.fromkeys(p.call_id for p in dropped)
        unknown = (unknown_result(call_id, state.calls[call_id].tool, dropped) for call_id in ids)
        return [*self.resumption(agent.profile, config, point, events), *unknown]
