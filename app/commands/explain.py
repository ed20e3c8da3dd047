"""`interlock explain`: what rules say of one call, and the way to have it allowed."""

from __future__ import annotations

import asyncio
import json as json_text
from collections.abc import Sequence
from textwrap import wrap
from typing import TextIO

from ...engine.explained import ExplanationView
from ...engine.gate import ApprovalAnswer, GateContext, GateManager, ToolResult, create_gate_manager
from ...engine.net import NetError, ToolCall
from ...engine.text import visible
from ...rules import RuleError, load_rules
from ...rules.scenarios import Call, parse_call
from ..explain_text import explained
from . import BAD_INPUT

WIDTH = 100
INDENT = 8


def run(
    files: Sequence[str],
    call: str,
    *,
    out: TextIO,
    err: TextIO,
    after: Sequence[str] = (),
    json: bool = False,
) -> int:
    """Explain `call` under the rules of `files`, once the calls in `after` have been made.

    Calls are written as in a scenario: `deploy`, or `bash command "./deploy staging"`. Those in `after`
    are approved where a person is asked, and succeed unless they end in `fails`. Returns 0, or 2 after
    printing to `err` what cannot be read, or which call of `after` is blocked.
    """
    try:
        rules = load_rules(*files)
        earlier = [parse_call(text, source="--after") for text in after]
        explained_call = parse_call(call, source="call")
        manager = create_gate_manager(registry=rules.registry)
    except (RuleError, NetError) as error:
        print(error, file=err)
        return BAD_INPUT
    refused = asyncio.run(_make(manager, earlier))
    if refused is not None:
        print(f"interlock explain: --after: {visible(refused)}", file=err)
        return BAD_INPUT
    found = manager.explain(ToolCall("explained", explained_call.tool, explained_call.input))
    view = ExplanationView.of(found)
    if json:
        print(json_text.dumps(view.model_dump(mode="json"), indent=2), file=out)
        return 0
    for line in explained(view):
        print(*_rows(line.label, visible(line.text)), sep="\n", file=out)
    return 0


async def _make(manager: GateManager, calls: Sequence[Call]) -> str | None:
    """Make calls one after the other; the first that is blocked, and why."""
    context = GateContext(confirm=lambda _: ApprovalAnswer(True, by="interlock explain"))
    for number, step in enumerate(calls, 1):
        call = ToolCall(f"after-{number}", step.tool, step.input)
        decision = await manager.handle_tool_call(call, context)
        if decision.block:
            return f"call {number}, {step.tool}, is blocked itself: {decision.reason}"
        manager.handle_tool_result(ToolResult(call.tool_call_id, call.tool_name, call.input, step.fails))
    return None


def _rows(label: str, text: str) -> list[str]:
    indent = text[: len(text) - len(text.lstrip())]
    room = WIDTH - INDENT - len(indent)
    lines = wrap(text.strip(), room, break_on_hyphens=False) or [""]
    return [f"{'' if i else label:<{INDENT}}{indent}{line}".rstrip() for i, line in enumerate(lines)]
