"""G-97: `once`: one success allows any number of calls."""

from __future__ import annotations

import pytest

from interlock.engine.verify import Together
from interlock.engine.verify.vocabulary import vocabulary
from interlock.rules import RuleError, compile_rules
from interlock.rules.analysis.comparison import compare
from interlock.rules.analysis.findings import examine

from .support.world import World

ONCE = "require login once before read"
HOUR = 3600.0


class TestOnce:
    async def test_one_success_allows_any_number_of_calls(self) -> None:
        world = World(ONCE)
        assert await world.calls("read", "login", "read", "read", "read") == [
            False, True, True, True, True
        ]  # fmt: skip

    async def test_a_failed_login_unlocks_nothing(self) -> None:
        world = World(ONCE)
        await world.call("login", fails=True)
        assert not await world.call("read")

    async def test_simultaneous_calls_share_one_login(self) -> None:
        """Simultaneous calls need no separate login, and a failed one does not lock."""
        world = World(ONCE)
        await world.call("login")
        first, second = await world.begin("read"), await world.begin("read")
        world.end(first, fails=True)
        world.end(second)
        assert await world.call("read")

    async def test_since_call_locks_again(self) -> None:
        world = World("require login once since logout before read")
        assert await world.calls("login", "read", "read", "logout", "read", "login", "read", "read") == [
            True, True, True, True, False, True, True, True
        ]  # fmt: skip

    async def test_only_another_login_renews_the_time(self) -> None:
        """The hour counts from the login, not from the last read; another login renews it."""
        world = World(f"{ONCE} within 1h")
        await world.call("login")
        world.now = 0.9 * HOUR
        assert await world.call("read")
        world.now = 1.1 * HOUR
        assert not await world.call("read")
        await world.call("login")
        world.now = 1.9 * HOUR
        assert await world.calls("read", "login") == [True, True]
        world.now = 2.5 * HOUR
        assert await world.call("read")

    async def test_every_prerequisite_is_needed(self) -> None:
        world = World("require lint and test once before deploy")
        assert await world.calls("lint", "deploy", "test", "deploy", "deploy") == [
            True, False, True, True, True
        ]  # fmt: skip

    async def test_each_value_is_separate(self) -> None:
        world = World(f"{ONCE} for same input.user")
        await world.call("login", user="ada")
        assert await world.call("read", user="ada")
        assert await world.call("read", user="ada")
        assert not await world.call("read", user="bob")


class TestProof:
    def test_calls_are_unlimited(self) -> None:
        rules = compile_rules(ONCE)
        together = Together(rules.registry, words=vocabulary(rules.nets, None))
        assert together.most("read").unlimited
        assert [finding.name for finding in examine(compile_rules(ONCE)).tools] == ["read"]

    def test_rule_without_once_is_stricter(self) -> None:
        strict, once = compile_rules("require login before read"), compile_rules(ONCE)
        [difference] = compare(strict, once).differences
        assert difference.kind == "possible"
        assert [step.names for step in difference.way] == [("login",), ("read",), ("read",)]
        assert not compare(once, strict).looser


class TestErrors:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("require login once before login", "'login' is required before itself, and takes no 'once'"),
            ("require login once once before read", "'once' is given twice"),
            ("require login since logout once before read", "'once' must come before 'since'"),
            ("require login before read once", "'once' must come before 'before'"),
            ("require human-approval once before read", "'once' is for tools"),
        ],
    )
    def test_message_and_remedy(self, line: str, message: str) -> None:
        with pytest.raises(RuleError) as error:
            compile_rules(line)
        [problem] = error.value.problems
        assert message in problem.message
        assert problem.remedy

    def test_once_may_be_a_tool_name(self) -> None:
        rules = compile_rules("require once before once_more\nrequire a once before once")
        assert [net.name for net in rules.nets] == [
            "require-once-before-once_more",
            "require-a-once-before-once",
        ]
