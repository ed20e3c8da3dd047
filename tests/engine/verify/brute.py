"""The slow, certain answer: every state that calls can bring the gate into."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence

from interlock.engine import GateContext, SkillNet, ToolCall, ToolResult, create_gate_manager

from .walks import Walks

State = tuple[tuple[str, tuple[tuple[str, int], ...]], ...]


def product(
    nets: Mapping[str, SkillNet], calls: Sequence[ToolCall], *, failures: bool = True, limit: int = 3000
) -> Walks[State] | None:
    """Explore the gate's states breadth first; `None` if there are more than `limit`."""
    return asyncio.run(_product(nets, calls, failures, limit))


async def _product(
    nets: Mapping[str, SkillNet], calls: Sequence[ToolCall], failures: bool, limit: int
) -> Walks[State] | None:
    gate = create_gate_manager(dict(nets))
    context = GateContext(confirm=lambda _: True)

    def state() -> State:
        return tuple((key, tuple(s.marking.items())) for key, s in gate.states.items())

    found = Walks(state())
    depth = {found.start: 0}
    waiting = deque([found.start])
    while waiting:
        here = waiting.popleft()
        found.edges[here] = []
        for number, call in enumerate(calls):
            for fails in (False, True) if failures else (False,):
                gate.restore(markings={key: dict(marking) for key, marking in here}, pending=())
                decision = await gate.handle_tool_call(call, context)
                if decision.block:
                    break
                gate.handle_tool_result(ToolResult(call.tool_call_id, call.tool_name, call.input, fails))
                after = state()
                found.fewest.setdefault(number, depth[here] + 1)
                found.edges[here].append((number, after))
                if after not in depth:
                    if len(depth) >= limit:
                        return None
                    depth[after] = depth[here] + 1
                    waiting.append(after)
    return found
