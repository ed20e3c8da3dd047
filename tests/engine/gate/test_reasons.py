"""The reasons of blocked calls."""

from __future__ import annotations

import pytest

from interlock.engine import create_gate_manager

from .support.helpers import call, manager, net, reason, succeed, tool


class TestReasons:
    """G-18: the exact reasons."""

    @pytest.mark.parametrize(
        ("rules", "calls", "blocked", "expected"),
        [
            ("require A before B", [], "B", "B requires a successful call to A first."),
            ("limit A to 1 per session", ["A"], "A", "A has reached its limit of 1 calls per session."),
            ("limit A to 2 per go", ["A", "A"], "A", "A has reached its limit of 2 calls per go."),
            ("block A", [], "A", "A is blocked and cannot be called."),
            ("require human-approval before A", [], "A", "A requires human approval."),
        ],
    )
    async def test_each_kind_of_rule_has_its_sentence(
        self, rules: str, calls: list[str], blocked: str, expected: str
    ) -> None:
        """G-18: each kind of rule has its own sentence."""
        gate = manager(rules)
        for number, name in enumerate(calls):
            await succeed(gate, name, f"c{number}")
        assert await reason(gate, blocked) == expected

    @pytest.mark.parametrize(
        ("rules", "calls", "expected"),
        [
            ("require a before rm", [], "rm requires a successful call to a first"),
            ("limit rm to 1 per session", ["rm"], "rm has reached its limit of 1 calls per session"),
            ("limit rm to 1 per a", ["rm"], "rm has reached its limit of 1 calls per a"),
            ("block rm", [], "rm is blocked and cannot be called"),
            ("require human-approval before rm", [], "rm requires human approval"),
            ("# a second rule\nblock rm", [], "rm is blocked and cannot be called"),
        ],
    )
    async def test_mapped_call_names_call_and_rule(
        self, rules: str, calls: list[str], expected: str
    ) -> None:
        """G-18: the reason of a mapped call has the rule's sentence, the call and the rule's place."""
        gate = manager(f"map bash.note rm as rm\n{rules}", quote_calls=True)
        for number, name in enumerate(calls):
            await succeed(gate, name, f"c{number}")
        place = 2 + rules.count("\n")
        deed = f"(bash.note: rm x; <rules>:{place})."
        assert await reason(gate, "bash", note="rm x") == f"{expected} {deed}"

    @pytest.mark.parametrize(
        ("command", "deed"),
        [
            ("ls && sudo ls", "bash: sudo ls"),
            ("sudo mysql -u root -phunter2", "bash: sudo mysql -u … -p…"),
            ('sudo curl -H "Authorization: Bearer hunter2" x', "bash: sudo curl -H … x"),
            ("sudo env TOKEN=hunter2 ls", "bash: sudo env TOKEN=… ls"),
            ("sudo rm\u202e.txt", r"bash: sudo rm\u202e.txt"),
            (f"sudo rm {'long/' * 6} {'name ' * 30}", None),
        ],
    )
    async def test_quotes_the_matching_simple_command(self, command: str, deed: str | None) -> None:
        """G-18: for a shell command, it quotes the simple command that matched, secrets omitted."""
        gate = manager("map bash.command sudo as root\nblock root", quote_calls=True)
        found = await reason(gate, "bash", command=command) or ""
        deed = deed or f"bash: sudo rm {'long/' * 6} {'name ' * 8}…"
        assert found == f"root is blocked and cannot be called ({deed}; <rules>:2)."
        assert len(found) < len("root is blocked and cannot be called (bash: ; <rules>:2).") + 81

    async def test_action_is_quoted_with_its_field(self) -> None:
        """G-18: an action is quoted with its field; the tool's own name needs no quote."""
        gate = manager("block git.push\nblock rm", quote_calls=True)
        expected = "git.push is blocked and cannot be called (git.action: push; <rules>:1)."
        assert await reason(gate, "git", action="push") == expected
        assert await reason(gate, "rm") == "rm is blocked and cannot be called."

    async def test_shell_field_of_another_name(self) -> None:
        """G-18: a list of words is quoted as the equivalent command."""
        gate = manager("map shell run.argv sudo as root\nblock root", quote_calls=True)
        expected = "root is blocked and cannot be called (run: sudo ls; <rules>:2)."
        assert await reason(gate, "run", argv=["sudo", "ls"]) == expected

    async def test_explain_and_shadow_mode_give_the_same_reason(self) -> None:
        """G-18: `classify`, `explain` and shadow mode give the same reason as the decision."""
        gate = manager("map bash.command sudo as root\nblock root", quote_calls=True)
        made = call("bash", command="sudo ls")
        expected = "root is blocked and cannot be called (bash: sudo ls; <rules>:2)."
        assert gate.classify(made)[0].reason == expected
        assert gate.explain(made).nets[0].verdict.reason == expected
        gate.mode = "shadow"
        assert (await gate.handle_tool_call(made)).reason == expected


class TestBecause:
    """G-18: a rule's own reason follows the sentence of its kind."""

    @pytest.mark.parametrize(
        ("rules", "calls", "blocked", "expected"),
        [
            ("require A before B", [], "B", "B requires a successful call to A first"),
            ("limit A to 1 per session", ["A"], "A", "A has reached its limit of 1 calls per session"),
            ("block A", [], "A", "A is blocked and cannot be called"),
            ("block A when not input.x = 1", [], "A", "A is blocked when not input.x = 1"),
            ("require human-approval before A", [], "A", "A requires human approval"),
        ],
    )
    @pytest.mark.parametrize("text", ["untested code broke prod", "untested code broke prod."])
    async def test_follows_a_colon_and_ends_with_full_stop(
        self, rules: str, calls: list[str], blocked: str, expected: str, text: str
    ) -> None:
        """G-18: it follows a colon and ends with one full stop."""
        gate = manager(f'{rules} because "{text}"')
        for number, name in enumerate(calls):
            await succeed(gate, name, f"c{number}", x=0)
        assert await reason(gate, blocked, x=0) == f"{expected}: untested code broke prod."

    async def test_mapped_and_unknown_condition(self) -> None:
        """G-18, G-59: the rule's reason comes first, then why it applies, then the call."""
        rules = 'map bash.command sudo as root\nblock root when input.x = 1 because "never"'
        gate = manager(rules, quote_calls=True)
        assert await reason(gate, "bash", command="sudo ls") == (
            "root is blocked when input.x = 1: never (it applies because the call has no input.x) "
            "(bash: sudo ls; <rules>:2)."
        )

    async def test_recognized_as_a_block_in_messages(self) -> None:
        """G-62: such a text is recognized as a block in plain messages."""
        gate = manager('map bash.command sudo as root\nblock root because "never"', quote_calls=True)
        made = call("bash", command="sudo ls")
        found = await reason(gate, "bash", command="sudo ls") or ""
        assert any(found.startswith(begin) for begin in gate.refusals(made))


class TestOthers:
    """G-18: numbers, and nets without a rule."""

    async def test_limits_are_plain_numbers(self) -> None:
        """G-18: the limit is written without separators or leading zeros."""
        gate = manager("limit A to 0001000 per session")
        gate.states["limit-A-1000"].marking["budget"] = 0
        assert await reason(gate, "A") == "A has reached its limit of 1000 calls per session."

    async def test_net_without_rule_names_unavailable_tool(self) -> None:
        """G-18: a net without a rule says that the tool is not available."""
        gate = create_gate_manager([net("n", tool("x"), marking={"p": 0})])
        assert await reason(gate, "x") == "Tool 'x' is not available in the current state."

    async def test_reason_has_the_nets_name_of_the_tool(self) -> None:
        """G-18: the reason has the name by which the net knows the tool."""
        made = net("n", tool("rm"), marking={"p": 0}, tool_mapper=lambda _: "rm")
        expected = "Tool 'rm' is not available in the current state."
        assert await reason(create_gate_manager([made]), "bash") == expected
