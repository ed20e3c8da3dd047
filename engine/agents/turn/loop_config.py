"""Configuration of a run of the loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ..decisions import ApprovedCall
from ..hooks import FinishedCall
from ..messages import Message, RulesChange
from ..models.base import Model, ModelRequest
from ..runtime.base import Runtime
from ..session.inbox import FollowUp, Inbox
from ..tool import Tool, ToolOutput
from .spending import Spending

if TYPE_CHECKING:
    from ..session.subagents import SubagentSessions

Settle: TypeAlias = Callable[[ApprovedCall, ToolOutput, float], Awaitable[str | None]]
"""Settles a call with its output and seconds; returns text for the model before the output."""
AfterCall: TypeAlias = Callable[[FinishedCall], Coroutine[object, object, ToolOutput]]
BeforeStart: TypeAlias = Callable[[ApprovedCall], Awaitable[None]]
BeforeModel: TypeAlias = Callable[[ModelRequest], Awaitable[ModelRequest]]
BeforeStop: TypeAlias = Callable[[str], Awaitable[str | None]]
RulesChanged: TypeAlias = Callable[[Sequence[Message]], RulesChange | None]


@dataclass(slots=True)
class LoopConfig:
    """Model, tools, limits and callbacks of a run.

    Changes of model, system prompt or tools apply from the next model call on; `offered` are the tools of
    the current step.

    `max_steps` limits model calls (A-62). `settle` is awaited as soon as an approved call has ended and
    before its result is shown; its first error ends the run after the step's results. `before_start` is
    awaited right before a tool begins; if it raises, the tool does not run, and the run ends.
    `after_call` then returns the output that the model reads. `before_model` is awaited before each model
    call and returns the request to send. `before_stop` is awaited before a run ends, and may return text
    to continue with.
    `spending` is checked before each model call, and counts its cost. `rules_changed` gets the
    conversation before each model call, and returns the change since the sentences `rules`, with which
    the system prompt ends.
    """

    model: Model
    runtime: Runtime
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    system_prompt: str | None = None
    rules: tuple[str, ...] = ()
    max_steps: int = 100
    follow_up: FollowUp = "one"
    inbox: Inbox = field(default_factory=Inbox)
    settle: Settle | None = None
    before_start: BeforeStart | None = None
    after_call: AfterCall | None = None
    before_model: BeforeModel | None = None
    before_stop: BeforeStop | None = None
    rules_changed: RulesChanged | None = None
    offered: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    session_id: str = ""
    subagents: SubagentSessions | None = None
    spending: Spending | None = None
