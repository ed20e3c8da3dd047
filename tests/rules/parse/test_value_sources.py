"""G-86: conditions on where a value comes from: `input.to not from user, get_contacts`."""

from __future__ import annotations

import pytest

from interlock.engine.core.condition import (
    Surroundings,
    condition_text,
    holds,
    sources_of,
    unknown_reason,
)
from interlock.engine.core.sources import USER, SourceTexts
from interlock.rules import RuleError, compile_rules, condition_of
from interlock.rules.analysis.findings import examine
from tests.engine.gate.support.helpers import manager, reason


def surroundings_with(**texts: str) -> Surroundings:
    said = SourceTexts(["user", "contacts"])
    for source, text in texts.items():
        said.add(source, text)
    return Surroundings(said=said)


class TestHolds:
    @pytest.mark.parametrize(
        ("value", "comes"),
        [
            ("ada", True),
            ("eve", False),
            (["ada", "bob"], True),
            (["ada", "eve"], False),
            ([], True),
            (5, True),
            (6, False),
            (True, None),
            (None, None),
            ({"to": "ada"}, None),
            (["ada", {"to": "bob"}], None),
        ],
    )
    def test_value_and_every_element(self, value: object, comes: bool | None) -> None:
        """A list comes from the sources if each of its elements does."""
        around = surroundings_with(user="write to ada, 5 times", contacts="bob")
        condition = condition_of("input.to from user, contacts")
        other = condition_of("input.to not from user, contacts")
        assert condition is not None
        assert other is not None
        assert holds(condition, {"to": value}, around) is comes
        assert holds(other, {"to": value}, around) is (None if comes is None else not comes)

    def test_other_sources_do_not_count(self) -> None:
        condition = condition_of("input.to not from user")
        assert condition is not None
        assert holds(condition, {"to": "bob"}, surroundings_with(contacts="bob")) is True

    def test_any_element(self) -> None:
        condition = condition_of("any input.to from contacts")
        assert condition is not None
        assert holds(condition, {"to": ["eve", "bob"]}, surroundings_with(contacts="bob")) is True
        assert holds(condition, {"to": "bob"}, surroundings_with(contacts="bob")) is None

    def test_unknown_result_has_a_reason(self) -> None:
        about = condition_of("input.to not from user, contacts")
        assert about is not None
        assert unknown_reason(about, {"to": "x"}) == "the sources of input.to are not recorded here"
        assert unknown_reason(about, {"to": None}, surroundings_with()) == (
            "input.to is not a text, number, or list of them"
        )
        said = SourceTexts()
        said.listen([USER, "contacts"])
        late = Surroundings(said=said)
        assert unknown_reason(about, {"to": "x"}, late) == (
            "more came from the sources of input.to than is kept"
        )


class TestText:
    @pytest.mark.parametrize(
        "text",
        [
            "input.to from user",
            "input.to not from user, get_contacts",
            "every input.to from user",
            "any input.to not from get_contacts, user",
            'input.to from "mcp.contacts", "in"',
            'input.a = 1 and (input.to not from user or input."a b" from list-files)',
        ],
    )
    def test_is_read_as_it_is_written(self, text: str) -> None:
        condition = condition_of(text)
        assert condition is not None
        assert condition_text(condition) == text
        assert condition_of(condition_text(condition, whole=True)) == condition

    def test_source_set_has_no_duplicates(self) -> None:
        condition = condition_of("input.a from user, x or input.b not from x, user, x")
        assert sources_of(condition) == {"user", "x"}
        assert sources_of(None) == frozenset()


class TestErrors:
    @pytest.mark.parametrize(
        ("condition", "message", "remedy"),
        [
            ("input.a from", "expected a source after 'from', got the end of the line", "write 'user'"),
            ("input.a not from [user, x]", "must not be in brackets", "input.a not from user, x"),
            ("input.a from user x", "expected ',' before the source 'x'", "input.a from user, x"),
            ('input.a from user "x"', "expected ',' before the source", 'input.a from user, "x"'),
            ("input.a from user, and", "expected a source after ',', got 'and'", "names of tools"),
            ("input.a from human", "comes from 'user', got 'human'", "input.a from user"),
            ("input.a from input.b", "got the field 'input.b'", "not from user, <tool>"),
            ("input.a from unclear", "'unclear' is not a tool", "not from user, <tool>"),
            ('input.a from "get contacts"', "a source is 'user' or a tool", "not from user, <tool>"),
            ("input.a from not", "expected a source after 'from', got 'not'", 'input.a from "not"'),
            ("input.a form user", "unknown operator 'form'", "input.a from user"),
            ("input.a FROM user", "unknown operator 'FROM'", "input.a from user"),
        ],
    )
    def test_name_the_remedy(self, condition: str, message: str, remedy: str) -> None:
        with pytest.raises(RuleError) as error:
            compile_rules(f"block x when {condition}")
        [problem] = error.value.problems
        assert message in problem.message
        assert remedy in problem.remedy

    def test_a_value_is_no_source(self) -> None:
        with pytest.raises(RuleError) as error:
            compile_rules('let team = ["a"]\nblock x when input.to from team or input.to in team')
        assert "'team' is a value; 'from' takes 'user'" in str(error.value)

    def test_quoted_keyword_is_a_tool(self) -> None:
        assert compile_rules('block x when input.to not from "people"').warnings == ()

    def test_mapped_name_is_no_source(self) -> None:
        """Only results of a tool count; a command with a mapped name may print anything."""
        text = (
            "map bash.command contacts as look-up\nblock look-up\nblock x when input.to not from look-up"
        )
        [warning] = compile_rules(text).warnings
        assert "a name that a map gives some calls of 'bash'" in warning.message
        assert warning.line == 3


class TestProof:
    def test_condition_is_never_decided_in_advance(self) -> None:
        """A condition on sources is decided at the call, so it never counts as always true or false."""
        rules = compile_rules("block x when input.to not from user\nblock y when input.to from user")
        assert [p.message for p in examine(rules).warnings] == []


class TestMembers:
    """G-112: a member of a tool's results as a source."""

    @pytest.mark.parametrize(
        "text",
        [
            "input.to not from user, email of get_contacts",
            "any input.to from owner.name of get_file, read_mail",
            'input.to from "e mail" of "files.list"',
            "input.channel not from user, * of get_channels",
        ],
    )
    def test_is_written_as_it_is_read(self, text: str) -> None:
        condition = condition_of(text)
        assert condition is not None
        assert condition_text(condition) == text

    async def test_gate_decides_by_the_member(self) -> None:
        rules = "require human-approval before send when input.to not from user, email of get_contacts"
        gate = manager(rules)
        gate.hear("get_contacts", '[{"email": "ada@x.org", "notes": "eve@x.org"}]')
        assert await reason(gate, "send", "c1", to="ada@x.org") is None
        assert await reason(gate, "send", "c2", to="eve@x.org") is not None
        gate.hear("get_contacts", "email: mallory@x.org")
        said = await reason(gate, "send", "c3", to="mallory@x.org")
        assert said is not None
        assert "returned a result that is not JSON" in said

    async def test_result_without_json_blocks_the_call(self) -> None:
        gate = manager("block post when input.text from secret of vault")
        gate.hear("vault", "secret=hunter2")
        assert await reason(gate, "post", "c1", text="hunter2") is not None

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("input.x from name of user", "what a person says has no members, got 'name'"),
            ("input.x from .a of b", "expected the name of a member of the results, got '.a'"),
            ("input.x from a of", "expected a tool after 'of', got the end of the line"),
            ("input.x from a of unclear", "'unclear' is not a tool, so it has no results"),
        ],
    )
    def test_errors(self, text: str, message: str) -> None:
        with pytest.raises(RuleError) as caught:
            compile_rules(f"block a when {text}")
        [problem] = caught.value.problems
        assert problem.message == message
        assert problem.remedy

    def test_mapped_name_after_of_is_a_warning(self) -> None:
        rules = compile_rules("map bash.command ls as list\nblock a when input.x from name of list")
        assert any("a name that a map gives" in warning.message for warning in rules.warnings)
