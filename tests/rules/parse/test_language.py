"""The rules language: lines, words, and the net of each rule."""

from __future__ import annotations

import pytest

from interlock.engine.core.rule import ApprovalRule, BlockRule, LimitRule, RuleSource, SequenceRule
from interlock.engine.net.net import Transition, fire, initial_state, is_enabled
from interlock.rules import RuleError, compile_rules

START = Transition("start", ("idle",), ("ready",))


def names(rules: str | list[str]) -> list[str]:
    return [net.name for net in compile_rules(rules)]


class TestLines:
    @pytest.mark.parametrize(
        "text",
        [
            "block a\nblock b",
            "\n\n  block\ta   \n# note\n\tblock \t b",
            "block a\r\nblock b\r\n",
            "\ufeffblock a\nblock b\n",
            "block a # why\nblock b# tight",
            "##\nblock a ## x # y\n#block c\nblock b",
            "block\u00a0a\nblock\u3000b",
            "\u2028block a\u2029\nblock\u1680b\ufeff",
            "block\va\nblock\fb",
            "block\ra\nblock b\r",
        ],
    )
    def test_blanks_and_comments_do_not_count(self, text: str) -> None:
        """A line has one rule; `#` starts a comment, and any white space, CRLF and a BOM are accepted."""
        assert names(text) == ["block-a", "block-b"]

    @pytest.mark.parametrize("blank", ["\u0085", "\u001c", "\u200b"])
    def test_only_reference_blanks_separate_words(self, blank: str) -> None:
        """A character that only Python treats as white space belongs to the name."""
        assert names(f"block a{blank}b") == [f"block-a{blank}b"]

    @pytest.mark.parametrize("end", ["\v", "\f", "\r", "\u2028", "\u2029"])
    def test_only_a_newline_ends_a_line(self, end: str) -> None:
        """Only a newline separates rules; other line ends make one faulty line."""
        with pytest.raises(RuleError, match="expects 2 tokens, got 4"):
            compile_rules(f"block a{end}block b")

    def test_a_hash_ends_a_name(self) -> None:
        """A `#` inside a word starts a comment."""
        assert names("block a#b") == ["block-a"]

    def test_keywords_are_names_elsewhere(self) -> None:
        """A keyword is an ordinary name in the place of a tool."""
        assert names("block block\nrequire map before to\nlimit per to 2 per as") == [
            "block-block",
            "require-map-before-to",
            "limit-per-2-per-as",
        ]

    @pytest.mark.parametrize("empty", ["", "\n", "# only a note", [], ["", " \r\n"]])
    def test_empty_file_has_no_nets(self, empty: str | list[str]) -> None:
        """A file without rules has no nets."""
        assert len(compile_rules(empty)) == 0

    def test_list_of_texts_is_joined(self) -> None:
        """The items of a list are joined, with continuous line numbers."""
        rules = compile_rules(["block a\n", "block b", "block c"], file="x.rules")
        assert [net.rule.source.line for net in rules] == [1, 3, 4]
        with pytest.raises(RuleError) as caught:
            compile_rules(["block a", "block b\nblock", "allow"])
        assert [p.line for p in caught.value.problems] == [3, 4]


class TestNets:
    def test_sequence(self) -> None:
        """G-54: `require A before B` has `again-A` between `do-A` and `do-B`."""
        (net,) = compile_rules("require lint before test")
        assert (net.name, net.places) == ("require-lint-before-test", ("idle", "ready", "gate"))
        assert net.initial_marking == {"idle": 1, "ready": 0, "gate": 0}
        assert net.transitions == (
            START,
            Transition("do-lint", ("ready",), ("gate",), ("lint",), deferred=True),
            Transition("again-lint", ("gate",), ("gate",), ("lint",)),
            Transition("do-test", ("gate",), ("ready",), ("test",)),
        )

    def test_sequence_of_one_tool(self) -> None:
        """`require A before A` has two transitions of one name, of which one is enabled."""
        (net,) = compile_rules("require build before build")
        assert net.transitions == (
            START,
            Transition("do-build", ("ready",), ("gate",), ("build",), deferred=True),
            Transition("do-build", ("gate",), ("ready",), ("build",)),
        )

    def test_approval(self) -> None:
        """`require human-approval before B` has one manual transition."""
        (net,) = compile_rules("require human-approval before deploy")
        assert (net.name, net.places) == ("approve-before-deploy", ("idle", "ready"))
        assert net.initial_marking == {"idle": 1, "ready": 0}
        assert net.transitions == (
            START,
            Transition("approve", ("ready",), ("ready",), ("deploy",), type="manual"),
        )

    def test_block(self) -> None:
        """`block A` has a transition that is never enabled."""
        (net,) = compile_rules("block rm")
        assert (net.name, net.places) == ("block-rm", ("idle", "ready", "locked"))
        assert net.initial_marking == {"idle": 1, "ready": 0, "locked": 0}
        assert net.transitions == (START, Transition("do-rm", ("locked",), ("locked",), ("rm",)))

    def test_limit_per_session(self) -> None:
        """`limit A to N per session` has a budget that only decreases."""
        (net,) = compile_rules("limit push to 03 per session")
        assert (net.name, net.places) == ("limit-push-3", ("idle", "ready", "budget"))
        assert net.initial_marking == {"idle": 1, "ready": 0, "budget": 3}
        assert net.transitions == (
            START,
            Transition("do-push", ("ready", "budget"), ("ready",), ("push",)),
        )

    def test_limit_per_action(self) -> None:
        """G-55: the refill is always enabled, waits for success and restores the whole budget."""
        (net,) = compile_rules("limit push to 3 per review")
        assert (net.name, net.places) == (
            "limit-push-3-per-review",
            ("idle", "ready", "budget", "spent"),
        )
        assert net.initial_marking == {"idle": 1, "ready": 0, "budget": 3, "spent": 0}
        start, push, refill = net.transitions
        assert (start, push) == (
            START,
            Transition("do-push", ("ready", "budget"), ("ready", "spent"), ("push",)),
        )
        assert refill == Transition(
            "refill",
            ("ready",),
            ("ready",),
            ("review",),
            deferred=True,
            transfers=(("spent", "budget"),),
        )
        marking = initial_state(net).marking
        assert is_enabled(marking, refill)
        for _ in range(3):
            marking = fire(marking, push)
        assert not is_enabled(marking, push)
        assert fire(marking, refill) == initial_state(net).marking

    def test_scope_is_case_sensitive(self) -> None:
        """`per Session` names a tool, as in the reference."""
        assert names("limit a to 2 per Session") == ["limit-a-2-per-Session"]

    def test_session_may_be_a_tool(self) -> None:
        """`limit session … per session` limits a tool named `session`."""
        assert names("limit session to 2 per session") == ["limit-session-2"]

    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            ("require a before b", SequenceRule("a", "b")),
            ("require human-approval before b", ApprovalRule("b")),
            ("block b", BlockRule("b")),
            ("limit a to 2 per session", LimitRule("a", 2, "session")),
            ("limit a to 2 per b", LimitRule("a", 2, "b")),
        ],
    )
    def test_carry_their_rule_and_its_place(self, text: str, rule: object) -> None:
        """G-60: a net has its rule with the file's name, line, column and text."""
        (net,) = compile_rules(f"# note\r\n  {text} # why\r\n", file="rules/x.rules")
        source = RuleSource("rules/x.rules", 2, 3, f"  {text} # why")
        assert net.rule.source == source
        assert net.rule == type(rule)(
            **{f: getattr(rule, f) for f in rule.__slots__ if f != "source"}, source=source
        )

    def test_keep_the_order_of_the_file(self) -> None:
        """Nets are in the order of their rules."""
        assert names("block b\nlimit a to 1 per session\nmap x.y z as b\nblock a") == [
            "block-b",
            "limit-a-1",
            "block-a",
        ]


class TestVerification:
    def test_counts_the_states_of_each_net(self) -> None:
        """The number of states is 3 for `require`, 2 for `approve` and `block`, and N+2 for `limit`."""
        rules = compile_rules(
            "require a before b\nrequire human-approval before b\nblock c\n"
            "limit a to 4 per session\nlimit a to 4 per b\nrequire a before a"
        )
        assert [(v.name, v.reachable_states) for v in rules.verification] == [
            ("require-a-before-b", 3),
            ("approve-before-b", 2),
            ("block-c", 2),
            ("limit-a-4", 6),
            ("limit-a-4-per-b", 6),
            ("require-a-before-a", 3),
        ]

    @pytest.mark.parametrize("scope", ["session", "b"])
    def test_large_limit_is_not_enumerated(self, scope: str) -> None:
        """G-56: a hundred limits of a million compile without enumerating their states."""
        rules = compile_rules([f"limit a{i} to 1000000 per {scope}" for i in range(100)])
        assert {v.reachable_states for v in rules.verification} == {1_000_002}


class TestRegistry:
    def test_numbers_nets_of_one_name(self) -> None:
        """G-43: the second net of a name has the key `name#2`, the third `name#3`."""
        rules = compile_rules("block a\nblock b\nblock a\nblock a")
        assert list(rules.registry) == ["block-a", "block-b", "block-a#2", "block-a#3"]
        assert tuple(rules.registry.values()) == rules.nets
        assert [net.name for net in rules] == ["block-a", "block-b", "block-a", "block-a"]

    def test_keeps_different_rules_of_one_name_apart(self) -> None:
        """Two different rules with the same net name are both kept."""
        rules = compile_rules("require a-before-b before c\nrequire a before b-before-c")
        assert len(rules.registry) == 2
        assert rules.warnings == ()
