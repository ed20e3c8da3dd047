"""G-78: `require A or C before B` and `require A and C before B`."""

from __future__ import annotations

import random

import pytest

from interlock.app.format.rules import does
from interlock.rules import compile_rules
from interlock.rules.analysis.findings import examine
from tests.engine.gate.support.helpers import call, manager, reason, result, succeed
from tests.support.laws import examples

ONE, EACH = "require lint or typecheck before test", "require lint and test before deploy"


class TestOne:
    @pytest.mark.parametrize("first", ["lint", "typecheck"])
    async def test_either_unlocks_one_call(self, first: str) -> None:
        gate = manager(ONE)
        said = "test requires a successful call to lint or typecheck first."
        assert await reason(gate, "test", "c1") == said
        await succeed(gate, first, "c2")
        await succeed(gate, "test", "c3")
        assert await reason(gate, "test", "c4") == said

    async def test_both_unlock_one_call_too(self) -> None:
        """Both prerequisites together unlock one call, as one that succeeds twice does (G-54)."""
        gate = manager(ONE)
        await succeed(gate, "lint", "c1")
        await succeed(gate, "typecheck", "c2")
        await succeed(gate, "test", "c3")
        assert await reason(gate, "test", "c4") is not None


class TestEach:
    async def test_all_have_to_succeed(self) -> None:
        gate = manager(EACH)
        await succeed(gate, "lint", "c1")
        await succeed(gate, "lint", "c2")
        said = "deploy requires a successful call to each of lint and test first."
        assert await reason(gate, "deploy", "c3") == said
        assert await reason(gate, "test", "c4") is None
        gate.handle_tool_result(result("test", "c4", is_error=True))
        assert await reason(gate, "deploy", "c5") == said
        await succeed(gate, "test", "c6")
        await succeed(gate, "deploy", "c7")
        assert await reason(gate, "deploy", "c8") == said

    @pytest.mark.parametrize("seed", range(examples(100)))
    async def test_equals_one_rule_for_each_tool(self, seed: int) -> None:
        """Law: one rule over several tools allows the same calls as one rule for each of them."""
        chance = random.Random(seed)
        needed = chance.sample("abcd", chance.randrange(2, 5))
        joined = manager(f"require {' and '.join(needed)} before x")
        apart = manager("\n".join(f"require {each} before x" for each in needed))
        for number in range(30):
            made = call(chance.choice([*needed, "x"]), f"c{number}")
            ended = result(made.tool_name, f"c{number}", is_error=chance.random() < 0.3)
            decisions = [(await gate.handle_tool_call(made)).outcome for gate in (joined, apart)]
            assert decisions[0] == decisions[1]
            if decisions[0] == "allow":
                for gate in (joined, apart):
                    gate.handle_tool_result(ended)


class TestTogether:
    def test_shortest_ways(self) -> None:
        """The proof finds the shorter of two ways, and a way with all prerequisites."""
        found = {t.name: t for t in examine(compile_rules(f"{ONE}\n{EACH}\nblock typecheck")).tools}
        assert [step.names[0] for step in found["test"].way.calls] == ["lint", "test"]
        assert [step.names[0] for step in found["deploy"].way.calls] == ["lint", "test", "deploy"]

    def test_unreachable_tool_is_an_error(self) -> None:
        rules = compile_rules(f"{ONE}\nblock lint\nblock typecheck")
        [error] = examine(rules).errors
        assert error.message == "'test' can never be called, though no rule blocks it"


class TestWords:
    def test_sentences_for_the_model(self) -> None:
        gate = manager(f"{ONE}\n{EACH}")
        assert gate.constraints() == (
            "test needs a successful lint or typecheck first.",
            "deploy needs a successful lint and test first.",
        )
        gate.replay(["lint"])
        assert gate.constraints()[0] == "test may be called: lint or typecheck was successful."

    def test_sentences_for_operators(self) -> None:
        rules = [
            net.rule
            for net in compile_rules(f"{ONE} or build\n{EACH}".replace("test or build", "x")).nets
        ]
        assert [[*does(rule)] for rule in rules if rule is not None] == [
            ["a successful lint or typecheck unlocks one x"],
            ["successful calls of lint and test unlock one deploy"],
        ]
