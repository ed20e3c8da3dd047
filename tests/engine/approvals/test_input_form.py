"""Answers to forms: input is refused that a lenient parser would drop or convert."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, JsonValue

from interlock.engine.approvals.input_form import NOTHING, RequestedInput


class Place(BaseModel):
    city: str
    zone: int | None = None


class Order(BaseModel):
    count: int
    weight: float = 0.0
    rush: bool = False
    place: Place | None = None
    more: list[Place] = []
    sizes: dict[str, int] = {}


class Free(BaseModel):
    model_config = ConfigDict(extra="allow")
    count: int = 0


def problem(model: type[BaseModel], **answer: Any) -> str | None:
    wanted = RequestedInput("Answer", "How many?", model.model_json_schema(), lambda _: None)
    return wanted.problem(answer)


class TestWanted:
    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            ({"count": True}, "count: expected a whole number, found true"),
            ({"count": 1, "weight": False}, "weight: expected a number, found false"),
            ({"count": 1, "colour": "red"}, "colour: there is no such field to fill in"),
            (
                {"count": 1, "place": {"city": "Rome", "zone": True}},
                "place.zone: expected a whole number",
            ),
            ({"count": 1, "place": {"city": "Rome", "x": 1}}, "place.x: there is no such field"),
            ({"count": 1, "more": [{"city": "a"}, {"city": "b", "zip": 1}]}, "more[1].zip: there is no"),
            ({"count": 1, "sizes": {"s": True}}, "sizes.s: expected a whole number, found true"),
            ({"count": 1, "\x1b[2J": 1}, "\\x1b[2J: there is no such field"),
        ],
    )
    def test_unknown_or_mistyped_field_is_refused(self, answer: dict[str, JsonValue], said: str) -> None:
        """An unknown field, or a boolean for a number, is reported with its path."""
        found = problem(Order, **answer)
        assert found is not None
        assert found.startswith(said)

    @pytest.mark.parametrize(
        "answer",
        [
            {"count": 1, "weight": 1, "rush": True},
            {"count": 1.0},
            {"count": 1, "place": None, "more": [{"city": "a", "zone": 2}], "sizes": {"any": 1}},
            {"count": 1, "place": {"city": "Rome"}},
        ],
    )
    def test_fitting_values_are_accepted(self, answer: dict[str, JsonValue]) -> None:
        """Booleans for booleans, whole numbers for floats and free keys of a mapping are accepted."""
        assert problem(Order, **answer) is None

    def test_model_with_extra_allow(self) -> None:
        """A model with `extra="allow"` accepts unknown fields but checks the declared ones."""
        assert problem(Free, count=1, other="x") is None
        assert problem(Free, count=True, other="x") is not None

    def test_approval_without_answer_is_refused(self) -> None:
        """A request for input cannot be approved without an answer."""
        assert RequestedInput("", "", {}, lambda _: None).problem(None) == NOTHING

    def test_flows_own_check_applies(self) -> None:
        """An answer that fits the schema can still fail the flow's own check."""
        wanted = RequestedInput("", "", Order.model_json_schema(), lambda _: "too many")
        assert wanted.problem({"count": 9}) == "too many"

    def test_recursive_schema(self) -> None:
        """A recursive schema is followed as deep as the answer goes."""
        schema: dict[str, JsonValue] = {
            "$ref": "#/$defs/Node",
            "$defs": {
                "Node": {
                    "type": "object",
                    "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}},
                },
                "Loop": {"$ref": "#/$defs/Loop"},
            },
        }
        wanted = RequestedInput("", "", schema, lambda _: None)
        assert wanted.problem({"n": 1, "next": {"n": 2, "next": {"n": 3}}}) is None
        assert wanted.problem({"next": {"next": {"n": True}}}) == (
            "next.next.n: expected a whole number, found true"
        )
        assert (
            RequestedInput("", "", {**schema, "$ref": "#/$defs/Loop"}, lambda _: None).problem({}) is None
        )
