"""The note about an edited input in a result: the result stays valid for the client."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from interlock.engine.gateway.mcp.results import FIELD, MOST_TOOLS, Outputs, add_note

Schema = dict[str, object]

CLOSED = [
    {"additionalProperties": False},
    {"additionalProperties": {"type": "integer"}},
    {"unevaluatedProperties": False},
    {"patternProperties": {"^i": {"type": "integer"}}},
    {"propertyNames": {"enum": ["ok", "k"]}},
    {"maxProperties": 2},
    {"enum": [{}, {"ok": 1}]},
    {"not": {"required": [FIELD]}},
    {"properties": {FIELD: {"type": "integer"}}},
    {"$ref": "#/$defs/closed"},
    {"allOf": [{"$ref": "#/$defs/closed"}]},
]
OPEN = [
    {},
    {"title": "Result", "description": "What came of it."},
    {"properties": {"ok": {"type": "integer"}}, "required": ["ok"]},
    {"additionalProperties": True},
]


def schema_of(*parts: Schema) -> Schema:
    whole: Schema = {"type": "object", "$defs": {"closed": {"additionalProperties": False}}}
    for part in parts:
        whole |= part
    return whole


def can_hold_note(schema: object) -> bool:
    """Return true if the data of a listed tool with this schema can hold the note."""
    outputs = Outputs()
    outputs.note_tools("tools/list", {"tools": [{"name": "deploy", "outputSchema": schema}]})
    return outputs.take_more("deploy")


def with_note(data: Mapping[str, object], *, structured: bool) -> dict[str, object]:
    result: dict[str, object] = {"content": [], "structuredContent": dict(data)}
    add_note(result, {"env": "staging"}, structured=structured)
    return result


class TestData:
    @given(
        parts=st.lists(st.sampled_from([*CLOSED, *OPEN]), max_size=3),
        data=st.dictionaries(st.sampled_from(["ok", "k"]), st.integers(0, 2), max_size=2),
    )
    def test_note_keeps_data_valid(self, parts: list[Schema], data: dict[str, object]) -> None:
        """The note does not make valid data invalid."""
        schema = schema_of(*parts)
        check = Draft202012Validator(schema)
        result = with_note(data, structured=can_hold_note(schema))
        assert check.is_valid(result["structuredContent"]) or not check.is_valid(data)

    @pytest.mark.parametrize("part", CLOSED)
    def test_closed_schema_gets_no_note(self, part: Schema) -> None:
        """A schema that an additional field would break gets no note."""
        check = Draft202012Validator(schema_of(part))
        assert not can_hold_note(schema_of(part))
        forced = [with_note({"ok": 1}, structured=True), with_note({"ok": 1, "k": 2}, structured=True)]
        assert not all(check.is_valid(result["structuredContent"]) for result in forced)

    @pytest.mark.parametrize("schema", [None, *map(schema_of, OPEN)])
    def test_open_schema_gets_the_note(self, schema: object) -> None:
        """A common open schema allows the note."""
        assert can_hold_note(schema)

    @pytest.mark.parametrize("schema", [True, "object", {}, {"type": ["object", "null"]}])
    def test_unknown_schema_gets_no_note(self, schema: object) -> None:
        """A schema that is not of a plain object gets no note."""
        assert not can_hold_note(schema)

    def test_note_does_not_overwrite_a_field(self) -> None:
        """The note does not overwrite a field of the server."""
        assert with_note({FIELD: 1}, structured=True)["structuredContent"] == {FIELD: 1}

    def test_list_gets_no_note(self) -> None:
        """A list has no fields, so the note is only in the content."""
        result: dict[str, object] = {"content": [], "structuredContent": [1]}
        add_note(result, {}, structured=True)
        assert (len(result["content"]), result["structuredContent"]) == (1, [1])


class TestListing:
    def test_latest_list_counts(self) -> None:
        """The latest list of tools counts."""
        outputs = Outputs()
        for closed in (False, True):
            schema = {"type": "object", "additionalProperties": not closed}
            outputs.note_tools("tools/list", {"tools": [{"name": "a", "outputSchema": schema}]})
            assert outputs.take_more("a") == (not closed)

    @pytest.mark.parametrize(
        "result", [None, [], {}, {"tools": 5}, {"tools": [5, {}, {"name": 5}]}, {"tools": {"name": "a"}}]
    )
    def test_invalid_list_is_ignored(self, result: object) -> None:
        """An invalid list of tools and the answer to another method are ignored."""
        outputs = Outputs()
        outputs.note_tools("tools/list", result)
        outputs.note_tools("prompts/list", {"tools": [{"name": "a"}]})
        assert not outputs.take_more("a")

    def test_remembered_tools_are_bounded(self) -> None:
        """The number of remembered tools is bounded, and the first ones count."""
        outputs = Outputs()
        outputs.note_tools("tools/list", {"tools": [{"name": str(i)} for i in range(MOST_TOOLS + 1)]})
        assert outputs.take_more("0")
        assert not outputs.take_more(str(MOST_TOOLS))
