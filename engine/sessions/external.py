"""Session of an external agent: its loop is in another process or language, or behind a hook.

Its record, nets and approval requests are kept here; its messages and calls come from its program. No
call of it is ever run here.
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
from ..recording.resume_checks import ResumePoint, unknown_result
from .config import SessionConfig
from .external_driver import Driver, Prompts
from .profile import AgentProfile
from .submitted import SubmittedSession


class ExternalAgent(BaseModel):
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
    def profile(self) -> AgentProfile:
        """Description in the record of its session."""
        return AgentProfile(self.name, self.model, self.tools, self.workdir, self.shell, self.labels)

    @property
    def surroundings(self) -> Surroundings:
        """Evaluation context for its calls; links on its machine cannot be followed from here."""
        return Surroundings(self.workdir, shell=self.shell)


class RecordedExternalSession(BaseModel):
    """Recorded session of an external agent and who opened it; `agent` is its latest description."""

    model_config = ConfigDict(frozen=True)

    id: str
    agent: ExternalAgent
    opened_by: str | None

    @classmethod
    def of(cls, session_id: str, events: Iterable[JournalEvent]) -> RecordedExternalSession | None:
        """From a session's record; `None` when its loop was here."""
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
    """Session of an external agent. With a driver it takes messages."""

    kind: ClassVar[Kind] = "outside"
    prompts: Prompts | None = None
    runs_edits = True
    """True if its program can run a call with an edited input; a driver of its own says so itself."""

    @property
    def takes_edits(self) -> bool:
        """True if a call can run with an edited input."""
        return self.runs_edits and (self.prompts is None or self.prompts.takes_edits)

    def drive(self, driver: Driver) -> None:
        """Let operators send messages to the agent from now on; the session's end closes the driver."""
        self.prompts = Prompts(self, driver)

    async def stop(self, reason: str) -> None:
        """Block what waits for an operator; a driver's turn is interrupted."""
        if self.prompts is not None:
            await self.prompts.abort(reason)
        await super().stop(reason)

    async def shut_down(self, reason: str) -> None:
        """Let nothing of it be asked any more; where it has a driver, end that."""
        await super().shut_down(reason)
        if self.prompts is not None:
            await self.prompts.close(reason)

    def stream(self, text: str) -> None:
        """Show text of the agent as it comes; the record gets it whole."""
        self.publish(TextDelta(delta=str(clean_text(text))), self.id)

    async def warn(self, text: str) -> None:
        """Record a warning about the agent for operators, at its moment in the transcript."""
        await self.record(SessionStatus(status=self.state.phase, error=str(clean_text(text))))

    def unmasked(self, approval_id: str, edited: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """As every session's, where an edited input can be passed on."""
        if not self.takes_edits:
            raise StillMaskedError(
                "this agent runs its calls as it asked for them, so an input cannot be changed here. "
                "Deny the call and tell the agent what to do instead"
            )
        return super().unmasked(approval_id, edited)

    def opening(self, agent: ExternalAgent, config: SessionConfig) -> SessionOpened:
        """The event with which its record begins."""
        return self.opened(agent.profile, replace(config, source=agent.source))

    def resuming(
        self,
        agent: ExternalAgent,
        config: SessionConfig,
        point: ResumePoint,
        events: Sequence[JournalEvent],
    ) -> list[EventBody]:
        """Events with which it is resumed after those recorded.

        A call that was allowed and has no result may have run: only what waits in a net that has changed
        is dropped, as a result whose outcome is unknown.
        """
        config, state = replace(config, source=agent.source), self.state
        dropped = [p for p in state.pending if not point.keeps(p)]
        ids = dict.fromkeys(p.call_id for p in dropped)
        unknown = (unknown_result(call_id, state.calls[call_id].tool, dropped) for call_id in ids)
        return [*self.resumption(agent.profile, config, point, events), *unknown]
