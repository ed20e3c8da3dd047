"""A body as it is stored and as it is hashed: each path of encoding gives equal values."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock.engine.history.audit.hash_chain import CONTENT, parts
from interlock.engine.history.journal.encoding import _kind, encoded
from interlock.engine.history.model.events import (
    CallDecided,
    CallResult,
    EventBody,
    MessageAdded,
    StepEnded,
)
from interlock.engine.history.model.records import CallRecord, Record
from tests.support.laws import examples

from ..support.recording import RULE, decided, opening, request, sequence, step

NET = sequence("test", "deploy")
FLOATS = st.floats() | st.sampled_from((0.0, -0.0, 1.0, 0.1, 1e-7, 1e16, 1e21, 0.30000000000000004))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ("null", "[null]", "1e5", ":5.0,", "0" * 20, "\ufb33\U0001f600", "\x00\x1f\x7f\u2028")
)
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
INPUTS = st.dictionaries(TEXTS, VALUES, max_size=3)
BODIES: st.SearchStrategy[EventBody] = st.one_of(
    st.builds(
        CallDecided,
        call_id=TEXTS,
        tool=TEXTS,
        input=INPUTS,
        names=st.just(("bash", "push")),
        outcome=st.sampled_from(("allow", "block", "ask")),
        mode=st.sampled_from(("enforce", "shadow")),
        reason=st.none() | TEXTS,
        net=st.none() | TEXTS,
        rule=st.sampled_from((None, RULE)),
        steps=st.sampled_from(((), (step(NET, "do-test", "test", deferred=True),))),
        approved_by=st.sampled_from(((), ("maria",))),
    ),
    st.builds(
        CallResult, call_id=TEXTS, tool=TEXTS, output=TEXTS, is_error=st.booleans(), seconds=FLOATS
    ),
    st.builds(
        MessageAdded,
        role=st.just("assistant"),
        text=st.none() | TEXTS,
        calls=st.lists(
            st.builds(
                CallRecord,
                call_id=TEXTS,
                tool=st.just("bash"),
                input=INPUTS,
                malformed=st.none() | TEXTS,
            ),
            max_size=2,
        ).map(tuple),
    ),
    st.builds(StepEnded, finish_reason=TEXTS, input_tokens=st.integers(0), cost=FLOATS),
    st.builds(
        lambda source, labels, cost: opening(NET, source=source, labels=labels, max_cost=cost),
        st.none() | INPUTS,
        st.dictionaries(TEXTS, TEXTS, max_size=2),
        st.none() | FLOATS,
    ),
    st.just(request("a1", "c1", "deploy")),
)


class TestLaw:
    @pytest.mark.slow
    @settings(max_examples=examples(300))
    @given(BODIES)
    def test_text_and_hashed_parts_equal_the_models_json(self, body: EventBody) -> None:
        """The text equals the model's own JSON in order, and the hashed parts are those of the text."""
        text, hashed = encoded(body)
        assert read(text) == read(body.model_dump_json())
        assert hashed is None or hashed == parts(text)

    @pytest.mark.parametrize("kind", get_args(get_args(EventBody)[0]))
    def test_split_content_is_what_the_chain_salts(self, kind: type[Record]) -> None:
        """The content that is split off is exactly what the chain salts."""
        names, _ = _kind(kind)
        assert set(names) == CONTENT & kind.model_fields.keys()


class TestQuickWay:
    def test_typical_decisions_take_the_quick_path(self) -> None:
        """A typical decision is encoded without reading it back."""
        body = decided("c1", "test", step(NET, "do-test", "test", deferred=True), rule=RULE)
        assert encoded(body).parts is not None

    def test_brackets_in_a_text_are_not_nesting(self) -> None:
        """Brackets in a text do not count as nesting, so the quick path applies."""
        assert encoded(decided("c1", "write", input={"text": "[{" * 1000})).parts is not None

    @pytest.mark.parametrize(
        "values", [{"n": float("nan")}, {"n": 1.0}, {"n": [0.05]}, {"n": 2**64}, {"é": 1, "n": 2}]
    )
    def test_other_values_take_the_slow_path_unchanged(self, values: dict[str, JsonValue]) -> None:
        """Values that `orjson` might write differently take the slow path and stay unchanged."""
        text, hashed = encoded(decided("c1", "test", input=values))
        assert hashed is None
        assert dict(read(text))["input"] == read(json.dumps(values))

    def test_unreadable_values_are_refused(self) -> None:
        """Lone surrogates and too deeply nested values are refused."""
        deep: JsonValue = []
        for _ in range(230):
            deep = [deep]
        half = "a\ud800"
        for values in ({"n": half}, {half: 1}, {"n": {half: 1}}, {"n": [{half: half}]}, {"n": deep}):
            with pytest.raises(ValueError, match=r"surrogates|recursion"):
                encoded(decided("c1", "test", input=values))

    def test_nets_take_the_slow_path(self) -> None:
        """Nets take the slow path, because times of transitions may have fractions."""
        assert encoded(opening(NET)).parts == parts(opening(NET).model_dump_json())


def read(text: str) -> Any:
    """Parse JSON so that the order of members and the notation of numbers are compared."""
    return json.loads(text, object_pairs_hook=tuple, parse_float=str, parse_constant=str)
