"""Wrapped tools under many simultaneous calls; the tools themselves count their runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine import ApprovalAnswer, GateSession, Rejection, ToolCallBlockedError, create_gate
from interlock.engine.net.net import SkillNet
from interlock.rules import compile_rules

from ...support.laws import examples

TOOLS = ("pay", "review", "lint")


@pytest.fixture(autouse=True, scope="module")
def without_logging() -> Iterator[None]:
    """Disable logging: callbacks raise here by the hundred."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@dataclass
class Shop:
    """Tools that pause, sometimes fail, and record in a ledger when they ran and how it ended."""

    random: Random
    ledger: list[tuple[str, str]] = field(default_factory=list)

    async def pause(self) -> None:
        """Wait a random number of turns of the event loop."""
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)

    def tool(self, name: str) -> Callable[..., Awaitable[str]]:
        async def run(amount: int = 1) -> str:
            self.ledger.append(("ran", name))
            try:
                await self.pause()
                if self.random.random() < 0.25:
                    raise OSError("till jammed")
            except BaseException:
                self.ledger.append(("failed", name))
                raise
            # The error classifier below counts odd results as failures.
            odd = self.random.random() < 0.15
            self.ledger.append(("failed" if odd else "worked", name))
            return "odd" if odd else "even"

        return run

    async def confirm(self, _request: object) -> bool | ApprovalAnswer:
        await self.pause()
        answer = self.random.choice(["yes", "yes", "yes", "yes", "no", "raise", "edit"])
        if answer == "raise":
            raise OSError("no terminal")
        return ApprovalAnswer(True, input={"amount": 2}) if answer == "edit" else answer == "yes"

    def validate(self, *_: object) -> Rejection | None:
        lot = self.random.random()
        if lot < 0.05:
            raise OSError("no ledger")
        return Rejection("not today") if lot < 0.1 else None


def nets_of(rules: str, shop: Shop) -> list[SkillNet]:
    """The nets of the rules, sometimes one of them with a validator."""
    if shop.random.random() < 0.5:
        return list(compile_rules(rules).nets)
    first, *rest = compile_rules(rules).nets
    return [*rest, replace(first, validate_tool_call=shop.validate)]


async def make_random_calls(session: GateSession[Mapping[str, Any]], random: Random, calls: int) -> None:
    """Make many calls at once from several agents, some of which are cancelled."""
    switched = [key for key in session.manager.nets if key.startswith("approve-")]

    async def agent(names: list[str]) -> None:
        for name in names:
            with suppress(ToolCallBlockedError, OSError):
                await session.tools[name]()

    names = random.choices(TOOLS, [6, 2, 2], k=calls)
    agents = [asyncio.create_task(agent(names[start::4])) for start in range(4)]
    agents += [asyncio.create_task(agent([name])) for name in random.choices(TOOLS, k=calls // 2)]
    while not all(task.done() for task in agents):
        await asyncio.sleep(0)
        if random.random() < 0.1:
            random.choice(agents).cancel()
        if switched and random.random() < 0.1:
            toggle = random.choice([session.add_net, session.remove_net])
            toggle(random.choice(switched))
    await asyncio.gather(*agents, return_exceptions=True)


def ledger_of_random_run(rules: str, random: Random, calls: int = 24) -> list[tuple[str, str]]:
    """Return the ledger of a random run under the rules."""
    shop = Shop(random)
    nets = nets_of(rules, shop)
    gate = create_gate(
        registry={net.name: net for net in nets},
        confirm=shop.confirm,
        is_tool_result_error=lambda _, value: value == "odd",
        on_decision=lambda *_: 1 // 0,
    )
    session = gate.wrap_tools({name: shop.tool(name) for name in TOOLS})
    asyncio.run(make_random_calls(session, random, calls))
    return shop.ledger


APPROVALS = ["", "require human-approval before pay", "require human-approval before review"]


class TestSpending:
    """G-15, G-55, G-58: no limit is overspent, however calls overlap."""

    @given(st.randoms(use_true_random=True), st.integers(1, 5), st.sampled_from(APPROVALS))
    @settings(max_examples=examples(150), deadline=None)
    def test_limit_per_session_is_not_exceeded(self, random: Random, limit: int, approval: str) -> None:
        """G-15, G-58: a tool runs at most as often as its limit, including failed runs."""
        ledger = ledger_of_random_run(f"limit pay to {limit} per session\n{approval}", random)
        assert ledger.count(("ran", "pay")) <= limit

    @pytest.mark.slow
    @given(st.randoms(use_true_random=True), st.integers(1, 3), st.sampled_from(APPROVALS))
    @settings(max_examples=examples(150), deadline=None)
    def test_limit_per_action_is_not_exceeded(self, random: Random, limit: int, approval: str) -> None:
        """G-55: between two successes of the action, a tool runs at most as often as its limit."""
        left = limit
        for what, tool in ledger_of_random_run(
            f"limit pay to {limit} per review\n{approval}", random, calls=40
        ):
            if (what, tool) == ("worked", "review"):
                left = limit
            elif (what, tool) == ("ran", "pay"):
                left -= 1
            assert left >= 0

    @pytest.mark.slow
    @given(st.randoms(use_true_random=True), st.sampled_from(APPROVALS))
    @settings(max_examples=examples(100), deadline=None)
    def test_required_success_precedes_every_run(self, random: Random, approval: str) -> None:
        """G-16, G-54: between two runs of a tool there is a success of what it requires."""
        unlocked = False
        for what, tool in ledger_of_random_run(f"require lint before pay\n{approval}", random):
            if (what, tool) == ("worked", "lint"):
                unlocked = True
            elif (what, tool) == ("ran", "pay"):
                assert unlocked
                unlocked = False

    @given(st.randoms(use_true_random=True), st.integers(1, 8), st.integers(1, 20))
    @settings(max_examples=examples(80), deadline=None)
    def test_whole_limit_can_be_used(self, random: Random, limit: int, calls: int) -> None:
        """G-15: if all requests are approved, exactly as many calls run as the limit allows."""
        shop = Shop(random)

        async def confirm(_request: object) -> bool:
            await shop.pause()
            return True

        rules = f"limit pay to {limit} per session\nrequire human-approval before pay"
        session = create_gate(compile_rules(rules).nets, confirm=confirm).wrap_tools(
            {"pay": shop.tool("pay")}
        )

        async def all_at_once() -> list[object]:
            pays = (session.tools["pay"]() for _ in range(calls))
            return await asyncio.gather(*pays, return_exceptions=True)

        ended = asyncio.run(all_at_once())
        assert shop.ledger.count(("ran", "pay")) == min(limit, calls)
        assert sum(isinstance(end, ToolCallBlockedError) for end in ended) == max(0, calls - limit)
