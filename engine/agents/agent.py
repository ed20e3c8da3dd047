"""An agent: a model with tools, a runtime and a store, from which sessions are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args
from uuid import uuid4

from .errors import SessionExistsError, SessionNotFoundError
from .gating import as_call_gate
from .hooks import HookChain, Hooks
from .inbox import FollowUp, SendMode
from .litellm_model import as_model
from .messages import Message
from .model import Model
from .runtime.base import Runtime
from .runtime.local import LocalRuntime
from .session import Session
from .session_config import SessionConfig, Spawn
from .store import InMemorySessionStore, SessionStore
from .subagents import Children, OwnChildren
from .tool import Tool, tool_table


class Agent:
    """Model, tools, runtime, store and settings (A-1).

    A model given by name is one of litellm's (`openai://gpt-4o`). `max_steps` counts model calls of a
    run. `gate` is asked about every call (see `as_call_gate` for what it may be). A manager's state is
    then shared by the agent's sessions; what `create_gate` returns, or a function that makes a gate,
    gives each session its own. `hooks` take part in every call, of tools and of the model.

    Raises `DuplicateToolError` (A-61), `TypeError` for what is no tool, `ValueError` for other settings.
    """

    def __init__(
        self,
        model: str | Model,
        *,
        system_prompt: str | None = None,
        tools: Sequence[Tool] = (),
        runtime: Runtime | None = None,
        store: SessionStore | None = None,
        max_steps: int = 100,
        send_mode: SendMode = "steer",
        follow_up: FollowUp = "one",
        gate: object = None,
        hooks: Hooks | Sequence[Hooks] = (),
        name: str = "agent",
    ) -> None:
        if max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {max_steps}")
        self.model = as_model(model)
        self.name = name
        self.system_prompt = system_prompt
        self._table = tool_table(tools)
        self.runtime = LocalRuntime() if runtime is None else runtime
        self.store = InMemorySessionStore() if store is None else store
        self.max_steps = max_steps
        self.send_mode: SendMode = _mode(send_mode)
        self.follow_up: FollowUp = follow_up
        self._gate = gate
        self._hooks = HookChain(hooks)

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(self._table.values())

    async def create_session(
        self,
        id: str | None = None,  # noqa: A002 - the name people write
        *,
        send_mode: SendMode | None = None,
        gate: object = None,
        store: SessionStore | None = None,
        runtime: Runtime | None = None,
        spawn: Spawn | None = None,
        children: Children | None = None,
        exist_ok: bool = False,
    ) -> Session:
        """A new session; without `id` it gets a fresh one (A-2, A-3).

        `gate`, `store`, `runtime` and `spawn` replace the agent's; `children` makes its subagents'
        sessions. Raises `SessionExistsError` when the store already holds `id`; with `exist_ok` the
        conversation goes on (A-4). Raises `TypeError` for what is no gate.
        """
        session_id = id or str(uuid4())
        kept = self.store if store is None else store
        history: list[Message] = []
        if await kept.exists(session_id):
            if not exist_ok:
                raise SessionExistsError(
                    f"Session already exists: {session_id}; resume it, or choose another id"
                )
            history = await kept.load(session_id)
        return self._session(session_id, history, send_mode, gate, kept, runtime, spawn, children)

    async def resume_session(
        self,
        id: str,  # noqa: A002 - the name people write
        *,
        send_mode: SendMode | None = None,
        gate: object = None,
        store: SessionStore | None = None,
        runtime: Runtime | None = None,
        spawn: Spawn | None = None,
        children: Children | None = None,
    ) -> Session:
        """A session that goes on from the store. Raises `SessionNotFoundError` (A-5, A-6)."""
        kept = self.store if store is None else store
        history = await kept.load(id)
        if not history and not await kept.exists(id):
            raise SessionNotFoundError(f"Session not found: {id}")
        return self._session(id, history, send_mode, gate, kept, runtime, spawn, children)

    def _session(
        self,
        session_id: str,
        history: Sequence[Message],
        send_mode: SendMode | None,
        gate: object,
        store: SessionStore,
        runtime: Runtime | None,
        spawn: Spawn | None,
        children: Children | None,
    ) -> Session:
        gate = self._gate if gate is None else gate
        asked = None if gate is None else as_call_gate(gate)
        runtime = self.runtime if runtime is None else runtime
        config = SessionConfig(
            model=self.model,
            runtime=runtime,
            store=store,
            tools=self._table,
            gate=asked,
            hooks=self._hooks,
            system_prompt=self.system_prompt,
            max_steps=self.max_steps,
            send_mode=self.send_mode if send_mode is None else _mode(send_mode),
            follow_up=self.follow_up,
            spawn=spawn,
            children=children or OwnChildren(session_id, asked, store, runtime, spawn),
        )
        return Session(session_id, config, history)


def _mode(mode: SendMode) -> SendMode:
    if mode not in get_args(SendMode):
        raise ValueError(f"send_mode is 'steer' or 'queue', not {mode!r}")
    return mode
