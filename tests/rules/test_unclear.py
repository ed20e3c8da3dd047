"""Unclear calls: the rule that maps imply, and the lines that remove it (G-64)."""

from __future__ import annotations

import pytest

from interlock.engine.core.rule import ApprovalRule, people_to_loosen
from interlock.engine.net.net import ToolCall
from interlock.rules import RuleError, RuleSet, compile_files, compile_rules
from interlock.rules.analysis.findings import examine

MAPS = "map bash.command rm as delete\nmap bash.command ls as list\nmap exec.script /^deploy/ as deploy\n"
RULES = f"{MAPS}block delete\nrequire human-approval before deploy\n"


def implied_rules(rules: RuleSet) -> list[str]:
    """Return the texts of the implied rules."""
    sources = [net.rule.source for net in rules.nets if net.rule is not None]
    return [source.text for source in sources if source is not None and source.implied]


def names(rules: RuleSet, tool: str, **fields: object) -> tuple[str, ...]:
    return rules.resolve(ToolCall("c", tool, fields))


class TestImplied:
    def test_by_maps_to_restricted_names(self) -> None:
        """Maps of shell fields to a restricted name imply a rule on unclear calls."""
        rules = compile_rules(RULES)
        assert implied_rules(rules) == [
            "require human-approval before unclear (implied by the maps of bash.command and 1 more field)"
        ]
        assert rules.nets[-1].name == rules.verification[-1].name == "approve-before-unclear"
        assert rules.nets[-1].rule.source.line == 1

    @pytest.mark.parametrize(
        "rule", ["2 human-approvals before deploy", "human-approval before deploy by 2"]
    )
    def test_as_many_approvals_as_the_strictest_rule(self, rule: str) -> None:
        """The implied rule requires as many approvals as the strictest rule on a mapped name."""
        deploy = f'map bash.command deploy as deploy\nrequire {rule} when input.env = "prod"\n'
        rules = compile_rules(f"{deploy}{RULES}")
        [text] = implied_rules(rules)
        assert text.startswith("require 2 human-approvals before unclear (implied by the maps of")
        assert isinstance(rules.nets[-1].rule, ApprovalRule)
        assert rules.nets[-1].rule.people == 2
        # Two approvals for a name without a map do not change the implied rule.
        elsewhere = compile_rules(f"{RULES}require 2 human-approvals before publish")
        assert isinstance(elsewhere.nets[-1].rule, ApprovalRule)
        assert elsewhere.nets[-1].rule.people == 1

    def test_on_the_strictest_terms_of_each(self) -> None:
        """G-64: it has the shortest time, the highest risk, and no grants if one rule has none."""
        rules = compile_rules(
            "map bash.command deploy as deploy\nmap bash.command rm as delete\n"
            "map bash.command publish as publish\n"
            "require human-approval before deploy within 1h risk low\n"
            'require 3 human-approvals before delete risk high when input.env = "prod"\n'
            "require human-approval before publish within 15m no grants\n"
            "require 5 human-approvals before other within 1m"
        )
        [text] = implied_rules(rules)
        assert text == (
            "require 3 human-approvals before unclear within 15m risk high no grants "
            "(implied by the maps of bash.command)"
        )
        asks = rules.nets[-1].rule
        assert isinstance(asks, ApprovalRule)
        assert (asks.people, asks.within, asks.risk, asks.grants) == (3, 15 * 60, "high", False)
        assert people_to_loosen(asks) == 3

    def test_keeps_grants_and_time_where_no_rule_bounds_them(self) -> None:
        """Rules without options add none to the implied rule."""
        asks = compile_rules(RULES).nets[-1].rule
        assert isinstance(asks, ApprovalRule)
        assert (asks.people, asks.within, asks.risk, asks.grants) == (1, None, None, True)
        assert people_to_loosen(asks) == 0

    @pytest.mark.parametrize(
        "text",
        [
            "map bash.command rm as delete\nblock other",
            "map bash.command test as test\nrequire test before deploy",
            "map mail.to gmail as outside\nblock outside",
            "block bash",
        ],
    )
    def test_no_rule_from_other_maps(self, text: str) -> None:
        """A map to an unrestricted name, or of a field without shell commands, implies no rule."""
        assert implied_rules(compile_rules(text)) == []

    @pytest.mark.parametrize(
        "rule",
        [
            "block unclear",
            "limit unclear to 2 per 1h",
            "require human-approval before unclear by 2 when input.timeout > 60",
            "require look before unclear",
        ],
    )
    def test_unless_a_rule_names_unclear(self, rule: str) -> None:
        """A rule on unclear replaces the implied one, for all tools."""
        rules = compile_rules(f"{RULES}{rule}")
        assert implied_rules(rules) == []
        assert names(rules, "bash", command="eval $x") == ("unclear", "bash")

    def test_declared_field_counts(self) -> None:
        """A field declared by `map shell` counts, and so does `command` as the last name of a path."""
        assert implied_rules(compile_rules("map shell a.b rm as x\nblock x")) != []
        assert implied_rules(compile_rules("map a.run.command rm as x\nblock x")) != []

    def test_blocked_tool_causes_no_finding(self) -> None:
        """An implied rule on unclear calls that are blocked anyway causes no finding."""
        found = examine(compile_rules(f"{RULES}block bash\nblock exec"))
        assert not any("unclear" in problem.message for problem in (*found.errors, *found.warnings))


class TestWrittenByHand:
    """A written rule on `unclear` that is weaker than those on the mapped names."""

    DEPLOY = "map bash.command deploy as deploy\nmap exec.script rm as delete\n"

    @pytest.mark.parametrize(
        ("rules", "said", "remedy"),
        [
            (
                ["require 2 human-approvals before deploy", "require human-approval before unclear"],
                "requires less than line 3 (require 2 human-approvals before deploy)",
                "write: require 2 human-approvals before unclear",
            ),
            (
                [
                    "require human-approval before deploy no grants",
                    "block delete",
                    "require 2 human-approvals before deploy risk high when input.a = 1",
                    "require human-approval before unclear # one is enough",
                ],
                "requires less than line 3 (require human-approval before deploy no grants)",
                "write: require 2 human-approvals before unclear risk high no grants",
            ),
            (
                ["require human-approval before deploy", "limit unclear to 2 per session"],
                "may pass without approval, in spite of line 3 (require human-approval before deploy)",
                "write: require human-approval before unclear",
            ),
            (
                ["block delete", "require human-approval before unclear when input.unclear = 1"],
                "a call of 'exec' that cannot be read may be 'delete', and may pass without approval",
                "write: require human-approval before unclear",
            ),
        ],
    )
    def test_is_a_warning(self, rules: list[str], said: str, remedy: str) -> None:
        """The warning names both rules and proposes one as strict as the strictest."""
        compiled = compile_rules(self.DEPLOY + "\n".join(rules))
        found = [w for w in examine(compiled).warnings if w.remedy.startswith("write: ")]
        [warning] = found
        assert (warning.line, warning.remedy) == (2 + len(rules), remedy)
        assert said in warning.message
        assert warning.text[warning.column - 1 :].startswith("unclear")
        # The proposed rule removes the warning.
        mended = self.DEPLOY + "\n".join([*rules[:-1], remedy.removeprefix("write: ")])
        assert not any("cannot be read" in w.message for w in examine(compile_rules(mended)).warnings)

    @pytest.mark.parametrize(
        "rules",
        [
            ["require human-approval before deploy", "require human-approval before unclear"],
            ["require 2 human-approvals before deploy", "block unclear"],
            ["require 2 human-approvals before publish", "require human-approval before unclear"],
            ["require 2 human-approvals before deploy", "limit unclear to 1 per session", "block bash"],
            [
                "require 2 human-approvals before deploy",
                "require human-approval before unclear",
                "require 2 human-approvals before bash",
            ],
        ],
    )
    def test_rule_as_strict_causes_no_warning(self, rules: list[str]) -> None:
        """A rule that blocks, or one as strict on `unclear` or on the tool itself, causes no warning."""
        warnings = compile_rules(self.DEPLOY + "\n".join(rules)).warnings
        assert not any("cannot be read" in warning.message for warning in warnings)

    def test_warning_names_the_other_file(self) -> None:
        """The warning names the other rule's file."""
        texts = {
            "a.rules": f"{self.DEPLOY}require 2 human-approvals before deploy",
            "b.rules": "require human-approval before unclear",
        }
        [warning] = (w for w in compile_files(texts).warnings if "cannot be read" in w.message)
        assert (warning.file, warning.line) == ("b.rules", 1)
        assert "than a.rules:3 (require 2 human-approvals before deploy)" in warning.message


class TestAllowed:
    def test_takes_the_implied_rule_away(self) -> None:
        """`allow unclear TOOL` removes the implied rule for that tool only."""
        rules = compile_rules(f"{RULES}allow unclear bash")
        assert implied_rules(rules) == [
            "require human-approval before unclear (implied by the map of exec.script)"
        ]
        assert names(rules, "bash", command="eval $x") == ("bash",)
        assert names(rules, "exec", script="eval $x") == ("unclear", "exec")
        assert rules.inspect(ToolCall("c", "bash", {"command": "eval $x"})).uninspectable is not None
        assert implied_rules(compile_rules(f"{RULES}allow unclear bash\nallow unclear exec")) == []

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                f"{RULES}allow unclear bash",
                "cannot be read pass without approval, although they may be 'delete'",
            ),
            (f"{RULES}block unclear\nallow unclear bash", "'bash' is not allowed by this line"),
            (f"{RULES}allow unclear git", "no map of a shell field of 'git' leads to a restricted name"),
            (f"{RULES}allow unclear bash\nallow unclear bash", "'bash' is allowed twice"),
        ],
    )
    def test_check_reports_its_effect(self, text: str, message: str) -> None:
        """The warning says what the line allows, or why it has no effect."""
        warning = compile_rules(text).warnings[-1]
        assert message in warning.message
        assert warning.remedy

    @pytest.mark.parametrize("line", ["allow bash", "allow", "allow bash unclear"])
    def test_other_allow_is_an_unknown_keyword(self, line: str) -> None:
        """Any other `allow` is an unknown keyword."""
        with pytest.raises(RuleError, match="unknown keyword 'allow'") as caught:
            compile_rules(line)
        assert "'allow'" not in caught.value.problems[0].message.partition("Expected")[2]

    def test_misspelling_is_reported(self) -> None:
        """A misspelling of `unclear` is reported with the word."""
        with pytest.raises(RuleError, match="did you mean 'unclear'"):
            compile_rules("allow uncler bash")


class TestReservedNames:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("map a.b c as unclear", "'unclear' is a reserved name: no map gives it"),
            ("map a.b c as anything-else", "'anything-else' is a reserved name: no map gives it"),
            ("map unclear.b c as d", "'unclear' is a reserved name, and no tool's"),
            ("allow unclear anything-else", "'anything-else' is a reserved name, and no tool's"),
            ("require unclear before a", "'unclear' unlocks nothing"),
            ("require anything-else before a", "'anything-else' unlocks nothing"),
            ("limit a to 2 per unclear", "'unclear' unlocks nothing"),
        ],
    )
    def test_maps_cannot_give_them(self, line: str, message: str) -> None:
        """G-64, G-66: maps cannot give reserved names, and these names unlock nothing."""
        with pytest.raises(RuleError) as caught:
            compile_rules(line)
        (problem,) = caught.value.problems
        assert problem.message.startswith(message)
        assert problem.remedy

    @pytest.mark.parametrize(
        "line",
        [
            "block *",
            "block mcp__*",
            "require human-approval before * when input.a = 1",
            "require * before a",
            "limit a* to 2 per session",
            "limit a to 2 per b.*",
            "map a.b c as d*",
            "map a*.b c as d",
            "require 2 human-approvals before *",
        ],
    )
    def test_star_is_refused_with_a_remedy(self, line: str) -> None:
        """G-66: `*` in a name is refused, with `anything-else` as the remedy."""
        with pytest.raises(RuleError, match=r"'\*' has no meaning in a name") as caught:
            compile_rules(line)
        assert "'anything-else'" in caught.value.problems[0].remedy
        assert compile_rules("map a.b /x*/ as d\nblock d").nets


class TestComputedWords:
    RULES = compile_rules(
        "map bash.command /^git\\s+push/ as push\nmap bash.command /^git\\s+status/ as status\n"
        "map bash.command /^make\\s+test/ as test\nblock push\nrequire test before deploy"
    )

    def test_unclear_for_maps_of_their_program(self) -> None:
        """G-64: a computed word makes a command unclear if a map's pattern begins with its program."""
        assert names(self.RULES, "bash", command="x=push; git $x") == ("unclear", "bash")
        assert names(self.RULES, "bash", command="git push $x") == ("push", "bash")

    @pytest.mark.parametrize("command", ["ls $x", "make $x", "echo git $x", "git status"])
    def test_clear_for_other_programs(self, command: str) -> None:
        """A program that is not the start of a restricted map's pattern stays clear."""
        assert "unclear" not in names(self.RULES, "bash", command=command)


class TestFields:
    RULES = compile_rules(
        "map send.to /gmail/ as outside\nmap call.opts.url /evil/ as evil\nmap a.n /^5$/ as five\n"
        "map a.n true as yes\nblock outside\nblock evil\nblock five\nblock yes"
    )

    @pytest.mark.parametrize(
        ("tool", "fields", "expected"),
        [
            ("send", {"to": ["x@y", "a@gmail.com"]}, ("outside", "send")),
            ("send", {"to": ["x@y"]}, ("send",)),
            ("send", {"to": {"address": "a@gmail.com"}}, ("outside", "unclear", "send")),
            ("send", {"to": ["x", {"a": "y"}]}, ("unclear", "send")),
            ("send", {"to": None}, ("send",)),
            ("a", {"n": 5}, ("five", "a")),
            ("a", {"n": 55}, ("a",)),
            ("a", {"n": 5.0}, ("five", "a")),
            ("a", {"n": [1, 5.0]}, ("five", "a")),
            ("a", {"n": 5.5}, ("a",)),
            ("a", {"n": float("inf")}, ("a",)),
            ("send", {"To": "a@gmail.com"}, ("outside", "unclear", "send")),
            ("send", {"to": "x@y", "TO": "a@gmail.com"}, ("outside", "unclear", "send")),
            ("send", {"t\u200bo": ["x@y"], "subject": "gmail"}, ("unclear", "send")),
            ("send", {"to ": {"a": "gmail"}}, ("outside", "unclear", "send")),
            ("send", {"cc": "a@gmail.com", "too": "gmail"}, ("send",)),
            ("call", {"opts": {"URL": "evil"}}, ("evil", "unclear", "call")),
            ("call", {"Opts": [{"url": "evil"}]}, ("evil", "unclear", "call")),
            ("call", {"OPTS.url": "evil"}, ("evil", "unclear", "call")),
            ("call", {"opts": {"url": "x", "other": "evil"}, "Other": "evil"}, ("call",)),
            ("a", {"n": [1, 5, True]}, ("five", "yes", "a")),
            ("a", {"n": True}, ("yes", "a")),
            ("call", {"opts": {"url": "http://evil"}}, ("evil", "call")),
            ("call", {"opts.url": "http://evil"}, ("evil", "call")),
            ("call", {"opts": [{"url": "x"}, {"url": "evil"}]}, ("evil", "call")),
            ("call", {"opts": {"other": "evil"}}, ("call",)),
            ("call", {"opts": "url=evil"}, ("evil", "unclear", "call")),
            ("call", {"opts": None}, ("call",)),
            ("call", {"opts": {"url": {"host": "evil"}}}, ("evil", "unclear", "call")),
        ],
    )
    def test_values_other_than_text(
        self, tool: str, fields: dict[str, object], expected: tuple[str, ...]
    ) -> None:
        """G-65: lists, numbers and nested fields are searched; any other value is unclear."""
        assert names(self.RULES, tool, **fields) == expected

    def test_other_spelling_contains_a_command(self) -> None:
        """G-66: a decoder may read `Command` as `command`, so it is read, and the call is unclear."""
        rules = compile_rules(
            "map bash.command /^rm\\b/ as delete\nmap bash.command /^ls/ as list\nblock delete"
        )
        fields = {"command": "ls", "Command": "cd x && rm y", "timeout": 5}
        assert names(rules, "bash", **fields) == ("delete", "list", "unclear", "bash")
        found = rules.inspect(ToolCall("c", "bash", fields))
        assert found.uninspectable == "command: the field 'Command' differs from it only in looks"
        assert names(rules, "bash", command="ls", timeout=5) == ("list", "bash")

    @pytest.mark.parametrize("program", ["if", "FOO=1", "a b", "time", "$(ls)", "~", ""])
    def test_argv_first_element_is_the_program(self, program: str) -> None:
        """G-65: the first element is a program, and never a keyword, an assignment or a script."""
        rules = compile_rules("map bash.command /^rm\\b/ as delete\nblock delete")
        assert "delete" not in names(rules, "bash", command=[program, "x", "&&", "rm", "y"])
        assert "delete" in names(rules, "bash", command=["rm", program])
