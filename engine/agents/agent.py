"""An agent: a model with tools, a runtime and a store, from which sessions are made."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypedDict, Unpack, get_args
from uuid import uuid4

from .errors import SessionExistsError, SessionNotFoundError
from .gating import as_call_gate
from .hooks import HookChain, Hooks
from .messages import Message
from .models.base import Model
from .models.litellm_model import as_model
from .runtime.base import Runtime
from .runtime.local.runtime import LocalRuntime
from .session.config import MAX_STEPS, SessionConfig, Spawn
from .session.inbox import FollowUp, SendMode
from .session.session import Session
from .session.subagents import SubagentSessions, UnhostedSubagents
from .stores.base import BranchingStore, InMemorySessionStore, SessionStore
from .tool import Tool, tool_table
from .turn.spending import Spending, check_limit


class AgentSettings(TypedDict, total=False):
    """Parameters of an `Agent` other than its model, by name."""

    system_prompt: str | None
    tools: Sequence[Tool]
    runtime: Runtime | None
    store: SessionStore | None
    max_steps: int
    max_cost: float | None
    compact_at: int | None
    send_mode: SendMode
    follow_up: FollowUp
    tell_rules: bool
    gate: object
    hooks: Hooks | Sequence[Hooks] | None
    name: str


class SessionOverrides(TypedDict, total=False):
    """Settings of one session that replace the agent's; `subagents` creates its subagents' sessions.

    `rules` are the sentences with which the system prompt of a recorded session ended (G-73).
    """

    gate: object
    runtime: Runtime | None
    spawn: Spawn | None
    subagents: SubagentSessions | None
    rules: tuple[str, ...] | None


class Agent:
    """Model, tools, runtime, store and settings (A-1).

    A model given by name is a litellm model (`openai://gpt-4o`). `max_steps` limits the model calls of a
    run. `max_cost` is the most that a session and its subagents may cost, in US dollars from its first
    event on. Beyond it no model is called, and the run fails with `CostLimitError`. After a turn whose
    last model call had `compact_at` input tokens or more, the session is compacted (see
    `Session.compact`) before anything else happens. If compaction fails, an event reports this and the
    session is unchanged.

    `gate` decides every call (see `as_call_gate` for accepted values). The agent's sessions share the
    state of a manager; the result of `create_gate`, or a function that makes a gate, gives each session
    its own state. The nets of a resumed session continue where the stored conversation left them, as far
    as the messages show. `hooks` take part in every tool call and model call. Unless `tell_rules` is
    false, the model reads the gate's rules as sentences at the end of the system prompt, and each change
    of them in a message (G-73).

    Raises `DuplicateToolError` (A-61), `TypeError` for an invalid tool, `ValueError` for other invalid
    settings.
    """

    def __init__(
        self,
        model: str | Model,
        *,
        system_prompt: str | None = None,
        tools: Sequence[Tool] = (),
        runtime: Runtime | None = None,
        store: SessionStore | None = None,
        max_steps: int = MAX_STEPS,
        max_cost: float | None = None,
        compact_at: int | None = None,
        send_mode: SendMode = "steer",
        follow_up: FollowUp = "one",
        tell_rules: bool = True,
        gate: object = None,
        hooks: Hooks | Sequence[Hooks] | None = None,
        name: str = "agent",
    ) -> None:
        if max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {max_steps}")
        check_limit(max_cost)
        if compact_at is not None and compact_at < 1:
            raise ValueError(f"compact_at is a number of tokens, at least 1, got {compact_at}")
        self.model = as_model(model)
        self.name = name
        self.system_prompt = system_prompt
        self._table = tool_table(tools)
        self.runtime = LocalRuntime() if runtime is None else runtime
        self.store = InMemorySessionStore() if store is None else store
        self.max_steps = max_steps
        self.max_cost = max_cost
        self.compact_at = compact_at
        self.send_mode: SendMode = _mode(send_mode)
        self.follow_up: FollowUp = follow_up
        self.tell_rules = tell_rules
        self._gate = gate
        self._hooks = HookChain(hooks)
        self._inherited: InheritedLimits | None = None

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(self._table.values())

    @property
    def gate(self) -> object:
        """The gate as passed to the agent, or `None`."""
        return self._gate

    @property
    def hooks(self) -> tuple[Hooks, ...]:
        """The agent's own hooks, in order."""
        return self._hooks.own

    def replace(self, *, model: str | Model | None = None, **changes: Unpack[AgentSettings]) -> Agent:
        """Return a copy with these settings changed; this agent is unchanged.

        Raises the errors of creating an agent.
        """
        settings: AgentSettings = {
            "system_prompt": self.system_prompt,
            "tools": self.tools,
            "runtime": self.runtime,
            "store": self.store,
            "max_steps": self.max_steps,
            "max_cost": self.max_cost,
            "compact_at": self.compact_at,
            "send_mode": self.send_mode,
            "follow_up": self.follow_up,
            "tell_rules": self.tell_rules,
            "gate": self.gate,
            "hooks": self.hooks,
            "name": self.name,
        }
        settings.update(changes)
        agent = copy.copy(self)  # keeps what a subclass adds
        Agent.__init__(agent, self.model if model is None else model, **settings)
        return agent

    def as_subagent(self, inherited: InheritedLimits) -> Agent:
        """Return this agent for a session that another agent starts, with its hooks and cost limit."""
        agent = copy.copy(self)
        agent._inherited = inherited
        return agent

    async def create_session(
        self,
        id: str | None = None,  # noqa: A002 - the name people write
        *,
        send_mode: SendMode | None = None,
        exist_ok: bool = False,
        store: SessionStore | None = None,
        spent: float | None = None,
        **overrides: Unpack[SessionOverrides],
    ) -> Session:
        """Create a session; without `id` it gets a new one (A-2, A-3).

        `send_mode`, `store` and `overrides` replace the agent's own. `spent` is the session's cost so far
        in US dollars, required for resuming under `max_cost`. Raises `SessionExistsError` if the store
        already has `id`; with `exist_ok` the conversation is resumed instead (A-4). Raises `TypeError`
        for an invalid gate, and `CostLimitError` if `max_cost` is set but the model's price is unknown.
        """
        session_id = id or str(uuid4())
        store = self.store if store is None else store
        history: list[Message] = []
        if await store.exists(session_id):
            if not exist_ok:
                raise SessionExistsError(
                    f"Session already exists: {session_id}; resume it, or choose another id"
                )
            history = await store.load(session_id)
        return await self._session(session_id, store, history, spent, send_mode, **overrides)

    async def resume_session(
        self,
        id: str,  # noqa: A002 - the name people write
        *,
        send_mode: SendMode | None = None,
        leaf_id: str | None = None,
        store: SessionStore | None = None,
        spent: float | None = None,
        **overrides: Unpack[SessionOverrides],
    ) -> Session:
        """Resume a session from the store. Raises `SessionNotFoundError` (A-5, A-6).

        With `leaf_id` the session continues after that entry, on its own branch. The store must be a
        `BranchingStore`, or `TypeError` is raised; `EntryNotFoundError` is raised if it has no such
        entry. See `create_session` for the other parameters and errors, and `as_call_gate` for the
        initial marking of its gate's nets.
        """
        store = self.store if store is None else store
        if leaf_id is not None:
            store = await _branch(store, id, leaf_id)
        history = await store.load(id)
        if not history and not await store.exists(id):
            raise SessionNotFoundError(f"Session not found: {id}")
        return await self._session(id, store, history, spent, send_mode, **overrides)

    async def _session(
        self,
        session_id: str,
        store: SessionStore,
        history: Sequence[Message],
        spent: float | None,
        send_mode: SendMode | None,
        *,
        gate: object = None,
        runtime: Runtime | None = None,
        spawn: Spawn | None = None,
        subagents: SubagentSessions | None = None,
        rules: tuple[str, ...] | None = None,
    ) -> Session:
        parent_settings = self._inherited
        spending = await self._spending(session_id, history, spent)
        gate = self._gate if gate is None else gate
        call_gate = None if gate is None else as_call_gate(gate, history)
        runtime = self.runtime if runtime is None else runtime
        hooks = self._hooks if parent_settings is None else self._hooks.with_outer(parent_settings.hooks)
        subagents = subagents or UnhostedSubagents(session_id, call_gate, store, runtime, spawn)
        config = SessionConfig(
            model=self.model,
            runtime=runtime,
            store=store,
            tools=self._table,
            gate=call_gate,
            hooks=hooks,
            system_prompt=self.system_prompt,
            tell_rules=self.tell_rules,
            max_steps=self.max_steps,
            # A subagent has one turn, so its earlier messages are never sent again.
            compact_at=self.compact_at if parent_settings is None else None,
            send_mode=self.send_mode if send_mode is None else _mode(send_mode),
            follow_up=self.follow_up,
            spawn=spawn,
            subagents=LimitedSubagents(subagents, InheritedLimits(hooks, spending)),
            spending=spending,
        )
        return Session(session_id, config, history, rules)

    async def _spending(
        self, session_id: str, history: Sequence[Message], spent: float | None
    ) -> Spending:
        """Return the session's meter; under a limit, the price and the earlier cost must be known."""
        if self.max_cost is not None and history and spent is None:
            raise ValueError(
                f"max_cost: the cost of session '{session_id}' so far is unknown; "
                "pass it as spent=, in US dollars"
            )
        parent_spending = None if self._inherited is None else self._inherited.spending
        spending = Spending(self.name, self.max_cost, spent or 0.0, parent_spending)
        if (error := await spending.unknown_price(self.model)) is not None:
            raise error
        return spending


async def _branch(store: SessionStore, session_id: str, leaf_id: str) -> SessionStore:
    if not isinstance(store, BranchingStore):
        raise TypeError(f"leaf_id: {type(store).__name__} keeps no branches; a JsonlSessionStore does")
    return await store.branch(session_id, leaf_id)


def _mode(mode: SendMode) -> SendMode:
    if mode not in get_args(SendMode):
        raise ValueError(f"send_mode is 'steer' or 'queue', not {mode!r}")
    return mode


# Hooks and cost limit inherited by the sessions that an agent's tools start.


@dataclass(frozen=True, slots=True)
class InheritedLimits:
    """Hooks and cost limit that an agent inherits from its parents."""

    hooks: HookChain
    spending: Spending


class LimitedSubagents:
    """Creates the sessions of subagents, each with the hooks and the limit of its parent session."""

    def __init__(self, subagents: SubagentSessions, inherited: InheritedLimits) -> None:
        self._subagents = subagents
        self._inherited = inherited

    def open(self, agent: Agent, call_id: str) -> AbstractAsyncContextManager[Session]:
        """See `SubagentSessions.open`."""
        return self._subagents.open(agent.as_subagent(self._inherited), call_id)
