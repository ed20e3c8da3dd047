"""G-67: changes of maps that give a guarded rule's name to fewer calls, and others."""

from __future__ import annotations

import pytest

from interlock.engine.net.net import KnowsMaps, NameMaps, ToolCall
from interlock.rules import RuleSet, compile_rules

WAS = """
map bash.command /^rm\\b/ as delete
map bash.command deploy as prod
map mail.to gmail as outside
map bash.command ls as list
"""
GUARDED = "require 2 human-approvals before prod\nblock delete\nblock list\nblock outside\n"


def name_maps_of(text: str, name: str) -> NameMaps:
    namer = compile_rules(text).call_names
    assert isinstance(namer, KnowsMaps)
    return namer.name_maps(name)


def gives_less(was: str, now: str, name: str = "prod") -> bool:
    namer = compile_rules(now).call_names
    assert isinstance(namer, KnowsMaps)
    return namer.gives_less(name, name_maps_of(was, name))


def names(rules: RuleSet, command: str) -> tuple[str, ...]:
    return rules.resolve(ToolCall("c", "bash", {"command": command}))


class TestLess:
    @pytest.mark.parametrize(
        ("was", "now"),
        [
            ("map bash.command deploy as prod\n", ""),
            ("map bash.command deploy as prod\n", "map bash.command deployed as prod\n"),
            ("map bash.command deploy as prod\n", "map bash.command deploy as other\n"),
            ("map bash.command deploy as prod\n", "map sh.command deploy as prod\n"),
            ("map bash.command /^rm\\b/", "map bash.command /^rm/"),
            ("\nmap bash", "\nmap bash.command dep as list\nmap bash"),
            (
                "\nmap bash.command ls as list\n",
                "\nmap Bash.command ls as list\n",
            ),
        ],
    )
    def test_removed_changed_or_preceding_map(self, was: str, now: str) -> None:
        """A removed, changed or preceding map can take the name from commands."""
        assert was in WAS
        assert gives_less(WAS + GUARDED, WAS.replace(was, now, 1) + GUARDED)

    def test_gate_confirms_the_loss(self) -> None:
        """A map above takes a command from the guarded rule; one below does not."""
        above, below = "map bash.command /dep/ as x\n", "map bash.command deploy as x\n"
        named = "limit x to 5 per session\n" + GUARDED
        assert names(compile_rules(WAS + named), "./deploy") == ("prod", "bash")
        assert names(compile_rules(above + WAS + named), "./deploy") == ("x", "bash")
        assert names(compile_rules(WAS + below + named), "./deploy") == ("prod", "bash")
        assert gives_less(WAS + GUARDED, above + WAS + GUARDED)
        assert not gives_less(WAS + GUARDED, WAS + below + GUARDED)

    @pytest.mark.parametrize(
        "declared", ["map shell mail.to x as y", "map shell mail.to gmail as outside"]
    )
    def test_field_declared_as_shell_field(self, declared: str) -> None:
        """A field that a map declares as a shell field is read in another way."""
        guarded = WAS + "require 2 human-approvals before outside"
        assert gives_less(guarded, f"{guarded}\n{declared}", "outside")

    def test_similarly_named_tool_becomes_known(self) -> None:
        """G-66: a tool with a similar name is judged as itself once maps know it."""
        assert gives_less(WAS + GUARDED, f"{WAS}{GUARDED}map Bash.command x as y")
        plain = "require 2 human-approvals before deploy\nmap bash.command ls as list\nblock list"
        assert gives_less(plain, f"{plain}\nmap Deploy.env x as y", "deploy")
        assert not gives_less(plain, f"{plain}\nmap deploy.env x as y", "deploy")


class TestNoLess:
    @pytest.mark.parametrize(
        "more",
        [
            "map bash.command mkfs as wipe",
            "map bash.command deploy as second",
            "map bash.command release as prod",
            "map other.command deploy as prod",
            "map mail.to gmail as second",
            "map shell exec.line rm as delete",
        ],
    )
    def test_maps_below_the_last_for_the_name(self, more: str) -> None:
        """A map below the last one to the name, or for another field, takes nothing from it."""
        assert not gives_less(WAS + GUARDED, f"{WAS}{GUARDED}{more}")

    def test_later_maps_may_be_removed_or_changed(self) -> None:
        """Maps after the last one to the name may be removed or changed."""
        assert not gives_less(WAS + GUARDED, WAS.replace("map bash.command ls as list\n", "") + GUARDED)
        assert not gives_less(WAS + GUARDED, WAS.replace("mail.to gmail", "mail.to web") + GUARDED)


class TestUnclear:
    ASKS = f"{WAS}{GUARDED}require 2 human-approvals before unclear\n"

    @pytest.mark.parametrize(
        ("was", "now"),
        [
            ("map bash.command ls as list\n", ""),
            ("map mail.to gmail as outside\n", ""),
            ("block delete\n", "block other\n"),
        ],
    )
    def test_every_map_makes_calls_unclear(self, was: str, now: str) -> None:
        """Each map, and each rule on its name, makes calls unclear."""
        assert gives_less(self.ASKS, self.ASKS.replace(was, now), "unclear")

    def test_allow_unclear_exempts_a_tool(self) -> None:
        """`allow unclear` exempts a tool from the implied rule."""
        was = f"{WAS}map exec.script x as delete\n{GUARDED}"
        assert gives_less(was, f"{was}allow unclear exec", "unclear")
        assert gives_less(self.ASKS, was, "unclear")
        assert not gives_less(was, f"{self.ASKS}map exec.script x as delete", "unclear")

    def test_additional_maps_make_more_calls_unclear(self) -> None:
        """Additional maps with rules on their names make more calls unclear."""
        more = "map bash.command mkfs as wipe\nmap exec.script x as wipe\nblock wipe\n"
        assert not gives_less(self.ASKS, self.ASKS + more, "unclear")


class TestDefaults:
    def test_mapped_tool_is_no_longer_anything_else(self) -> None:
        """G-66: a call of a tool that a map knows is no longer `anything-else`."""
        default = f"{WAS}{GUARDED}require 2 human-approvals before anything-else\n"
        assert gives_less(default, f"{default}map exec.script x as delete", "anything-else")
        assert not gives_less(default, f"{default}map bash.command x as delete", "anything-else")
