"""`interlock explain`: the decision of rules on one call, and the steps that would get it allowed."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import TYPE_CHECKING, TypeAlias

from ...config.arguments import BAD_INPUT, refuse
from ..options import add_switch

if TYPE_CHECKING:
    from ....engine.core.condition import Surroundings
    from ....engine.gate import ApprovalAnswer, ApprovalRequest, GateManager
    from ....rules.scenarios.scenarios import Call, Claim, NewSession, Say, SessionField

EarlierStep: TypeAlias = "Call | Say | SessionField | NewSession | Claim | int"

ASKS = 3
BLOCKED = 4
CODES = {"allow": 0, "ask": ASKS, "block": BLOCKED}
"""Exit code of each outcome."""
CODES_HELP = "Exit codes: 0 allowed, 3 needs approval, 4 blocked, 2 wrong input."
WIDTH = 100
INDENT = 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="rules files")
    parser.add_argument(
        "call", metavar="CALL", help="""deploy, or with its input: 'bash command "./deploy staging"'"""
    )
    parser.add_argument(
        "--after",
        metavar="CALL",
        action="append",
        help="""a call made before, approved, 'wait 1h', 'say "<text>"', or a 'hint'; may be repeated""",
    )
    add_switch(parser, "--json", "print it as JSON")
    parser.epilog = f"{CODES_HELP} {parser.epilog or ''}".rstrip()


def run(args: argparse.Namespace) -> int:
    """Explain the call under the rules of the files, after the calls of `--after` were made.

    Calls are written as in a scenario: `deploy`, or `bash command "./deploy staging"`. Calls of `--after`
    are approved by as many operators as required. They succeed unless they end in `fails`, or return the
    value after `returns`. Other steps of `--after`: `wait 1h` advances the time, `say "TEXT"` is a
    message from the user, and `hint TOOL read_only true` is a claim of the tool's server. The calls'
    working directory is that of this process. Returns 0 for a call that is allowed, 3 for one that needs
    approval, 4 for one that is blocked; 2 after printing unreadable input, or the call of `--after` that
    is blocked.
    """
    from ....engine.core.condition import SESSION_FIELDS
    from ....engine.core.sanitize import visible
    from ....engine.gate import SharedUses, create_gate_manager
    from ....engine.net.net import NetError, ToolCall
    from ....engine.recording.explain import view_of
    from ....rules import RuleError, load_rules
    from ....rules.scenarios.scenarios import parse_call
    from ...format.explanation import explained

    now = _World(dict(SESSION_FIELDS))
    try:
        rules = load_rules(*args.files)
        earlier = list(map(_step, args.after or ()))
        call = parse_call(args.call, source="call")
        surroundings, uses = _here(now.session), SharedUses()

        def begin(number: int) -> GateManager:
            return create_gate_manager(
                registry=rules.registry,
                quote_calls=True,
                surroundings=surroundings,
                clock=lambda: now.time,
                uses=uses.of_session(str(number)),
            )

        manager = begin(0)
    except (RuleError, NetError) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    explanation = asyncio.run(_make(manager, begin, earlier, now))
    if isinstance(explanation, str):
        return refuse("explain", f"--after: {visible(explanation)}")
    view = view_of(explanation.explain(ToolCall("explained", call.tool, call.input)))
    if args.json:
        print(json.dumps(view.model_dump(mode="json"), indent=2))
        return CODES[view.outcome]
    for line in explained(view):
        print(*_rows(line.label, visible(line.text)), sep="\n")
    return CODES[view.outcome]


@dataclass(slots=True)
class _World:
    """A clock that only waiting advances, and the known fields of the session."""

    session: dict[str, object]
    time: float = 0.0


def _here(session: Mapping[str, object]) -> Surroundings:
    """Return the surroundings of a session on this machine."""
    from ....engine.core.condition import Surroundings
    from ....engine.sessions.config import real_path

    try:
        workdir = os.getcwd()
    except OSError:
        # The directory no longer exists; conditions on it cannot be evaluated.
        workdir = None
    return Surroundings(workdir, os.path.expanduser("~"), real_path, session=session)


def _step(text: str) -> EarlierStep:
    """Parse a call, a message of the user, or the seconds of `wait 1h`.

    Raises `RuleError` for other text.
    """
    from ....rules import Problem, RuleError
    from ....rules.errors.problems import quote
    from ....rules.parse.durations import LIMITS, seconds
    from ....rules.scenarios.scenarios import parse_call, parse_setting

    if re.match(r"\s*(say|session|hint)\s", text):
        return parse_setting(text, source="--after")
    found = re.fullmatch(r"\s*wait\s+([0-9]+[smhd])\s*", text, re.ASCII)
    if found is None:
        return parse_call(text, source="--after")
    length = seconds(found[1])
    if length is None:
        message = f"a time is {LIMITS}, got {quote(found[1])}"
        at = found.start(1)
        raise RuleError([Problem("--after", 1, at + 1, len(found[1]), text, message)])
    return length


def _approve(request: ApprovalRequest) -> ApprovalAnswer:
    from ....engine.gate import ApprovalAnswer

    return ApprovalAnswer.of_enough(request, "interlock explain")


async def _make(
    manager: GateManager, begin: Callable[[int], GateManager], steps: Sequence[EarlierStep], now: _World
) -> GateManager | str:
    """Make the steps in order; return the gate of the last session.

    If a call is blocked, return that call and the reason instead.
    """
    from ....engine.core.hints import SessionClaims
    from ....engine.core.sources import USER
    from ....engine.gate import GateContext, ToolResult
    from ....engine.net.net import ToolCall
    from ....rules.scenarios.scenarios import Claim, NewSession, Say, SessionField

    context, claims = GateContext(confirm=_approve), SessionClaims()
    for number, step in enumerate(steps, 1):
        if isinstance(step, int):
            now.time += step
            continue
        if isinstance(step, Say):
            manager.hear(USER, step.text)
            continue
        if isinstance(step, SessionField):
            now.session[step.name] = step.value
            continue
        if isinstance(step, NewSession):
            manager, claims = begin(number), SessionClaims()
            continue
        if isinstance(step, Claim):
            hints = claims.note(step.tool, step.hints)
            manager.surroundings = replace(manager.surroundings, hints=hints)
            continue
        claims.called.add(step.tool)
        call = ToolCall(f"after-{number}", step.tool, step.input)
        decision = await manager.handle_tool_call(call, context)
        if decision.block:
            return f"call {number}, {step.tool}, is blocked itself: {decision.reason}"
        manager.handle_tool_result(ToolResult(call.tool_call_id, call.tool_name, call.input, step.fails))
        if step.output is not None:
            manager.hear(call.tool_name, step.output)
    return manager


def _rows(label: str, text: str) -> list[str]:
    indent = text[: len(text) - len(text.lstrip())]
    room = WIDTH - INDENT - len(indent)
    lines = wrap(text.strip(), room, break_on_hyphens=False) or [""]
    return [f"{'' if i else label:<{INDENT}}{indent}{line}".rstrip() for i, line in enumerate(lines)]
