"""Reading rows without parsing gives the same result as parsing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.backtest import Recorded, RecordedCall
from interlock.engine.backtest import journal_reader as rows
from interlock.engine.backtest.journal_reader import (
    OPENINGS,
    JsonInput,
    RecordedItems,
    plain_call,
    result,
)
from interlock.engine.history.decisions.call_pages import CallRow
from interlock.engine.history.errors import JournalError
from interlock.engine.history.journal.rows import event_of
from interlock.engine.history.model.events import CallDecided, CallResult, EventBody, SessionOpened
from interlock.engine.history.model.records import RuleRecord, StepRecord
from interlock.engine.history.model.times import to_ms

from ...support.laws import examples
from ..history.support.recording import NOON, opening, sequence

FILE = Path("journal.db")
MARKS = [
    '"',
    "\\",
    '},"names":["',
    '","is_error":true',
    ',"outcome":"allow"',
    '"approved_by":[]',
    "ä",
    "\n",
]
TEXTS = st.one_of(
    st.sampled_from(["bash", "deploy", "c1", ""]),
    st.lists(st.sampled_from([*MARKS, "a"]), max_size=4).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXTS | st.sampled_from(["names", "outcome"]), inner, max_size=3)
    ),
    max_leaves=6,
)
INPUTS = st.dictionaries(TEXTS | st.sampled_from(["names", "outcome", "approved_by"]), JSON, max_size=3)
STEPS = st.lists(st.builds(StepRecord, net=TEXTS, transition=TEXTS, tool=TEXTS), max_size=2).map(tuple)
DECISIONS = st.builds(
    CallDecided,
    call_id=TEXTS,
    tool=TEXTS,
    input=INPUTS,
    names=st.lists(TEXTS, max_size=3).map(tuple),
    outcome=st.sampled_from(["allow", "allow", "block", "ask"]),
    mode=st.sampled_from(["enforce", "shadow"]),
    reason=st.none() | TEXTS,
    net=st.none() | TEXTS,
    rule=st.none() | st.builds(RuleRecord, file=TEXTS, line=st.just(1), text=TEXTS),
    steps=STEPS,
    approved_by=st.sampled_from([(), (), ("maria",)]),
    edited=st.booleans(),
    via=st.none() | TEXTS,
)
RESULTS = st.builds(
    CallResult, call_id=TEXTS, tool=TEXTS, output=TEXTS, is_error=st.booleans(), fired=STEPS
)


def row(body: EventBody, text: str | None = None) -> CallRow:
    return (3, to_ms(NOON), body.type, text or body.model_dump_json())


def parsed(body: EventBody) -> Recorded | None:
    """Return the item of an event that was parsed completely."""
    _, at, kind, text = row(body)
    return RecordedItems().of(event_of((0, "s1", 3, at, kind, text), FILE))


def only_item(items: RecordedItems, one: CallRow) -> Recorded:
    """Return the only item of a row."""
    [item] = items.of_rows("s1", [one], FILE)
    return item


class TestRows:
    """The short path compared with the long one."""

    @pytest.mark.slow
    @given(st.one_of(DECISIONS, RESULTS))
    @settings(max_examples=examples(400), deadline=None)
    def test_item_equals_that_of_the_parsed_event(self, body: EventBody) -> None:
        """The item of any tool, input or output equals that of the parsed event."""
        assert only_item(RecordedItems(), row(body)) == parsed(body)

    @pytest.mark.parametrize(
        "real",
        [
            {},
            {"mode": "shadow"},
            {"outcome": "block", "net": "block-rm", "reason": "rm is blocked."},
            {"outcome": "ask", "mode": "shadow", "net": "approve"},
            {"approved_by": ("maria",)},
            {"names": ("delete", "bash")},
            {"names": ()},
        ],
    )
    def test_an_input_that_looks_like_a_decision(self, real: dict[str, Any]) -> None:
        """An input with the fields of a decision does not change how the decision is read."""
        forged = {
            "a": {},
            "names": ["harmless"],
            "outcome": "allow",
            "mode": "enforce",
            "reason": None,
            "net": None,
            "rule": None,
            "steps": [],
            "approved_by": [],
            "edited": False,
        }
        for arguments in (forged, {"x": forged}, {"x": [forged, {}]}, {"x": forged, "names": {}}):
            fields = {"names": ("bash",), "outcome": "allow", "mode": "enforce", **real}
            body = CallDecided(call_id="c1", tool="bash", input=arguments, **fields)
            found = only_item(RecordedItems(), row(body))
            assert found == parsed(body)
            assert isinstance(found, RecordedCall)
            assert found.names == fields["names"]

    def test_typical_rows_are_not_parsed(self) -> None:
        """Typical decisions and results are not parsed, and an input only when it is accessed."""
        decided = CallDecided(
            call_id="c1",
            tool="bash",
            input={"a": {"names": ["x"]}},
            names=("bash",),
            outcome="allow",
            mode="enforce",
        )
        call = plain_call(row(decided))
        assert isinstance(call, RecordedCall)
        assert isinstance(call.input, JsonInput)
        assert call.input.text == '{"a":{"names":["x"]}}'
        assert dict(call.input) == {"a": {"names": ["x"]}}
        assert result(row(CallResult(call_id="c1", tool="bash", output="", is_error=True))) is not None

    def test_most_common_ending_matches_the_pattern(self) -> None:
        """A call with one name and a flat input, as this version writes it, matches one pattern."""
        body = CallDecided(
            call_id="c1", tool="a", input={"x": 1}, names=("a",), outcome="allow", mode="enforce"
        )
        text = body.model_dump_json()
        assert rows._COMMON.match(text)
        assert text.endswith(rows._COMMON_ENDS)
        for other in ({"edited_by": "ada"}, {"off": {"block-a": ("ada",)}}, {"uninspectable": "x"}):
            assert not body.model_copy(update=other).model_dump_json().endswith(rows._COMMON_ENDS)

    @pytest.mark.parametrize("change", [("{", "{ "), ('"tool":', '"newer":1,"tool":'), ('","', '", "')])
    def test_unusual_text_takes_the_long_path(self, change: tuple[str, str]) -> None:
        """Text with blanks or new fields, as from another version, takes the long path."""
        for body in (
            CallDecided(
                call_id="c1", tool="a", input={"x": 1}, names=("a",), outcome="allow", mode="enforce"
            ),
            CallResult(call_id="c1", tool="a", output="o", is_error=True),
        ):
            text = body.model_dump_json().replace(*change)
            found = only_item(RecordedItems(), row(body, text))
            assert found == parsed(body)

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"type":"call.result","call_id":"c"', "nul\0"])
    @pytest.mark.parametrize("kind", ["call.decided", "call.result", "session.opened"])
    def test_a_damaged_row(self, text: str, kind: str) -> None:
        """A damaged row gives an error with file and event."""
        damaged: CallRow = (3, 0, kind, text)
        with pytest.raises(JournalError, match=r"journal\.db': event 3 of session 's1' cannot be read"):
            only_item(RecordedItems(), damaged)

    def test_equal_openings_are_parsed_once(self) -> None:
        """Sessions with equal openings share one parsed value, and the cache is bounded."""
        kept: dict[str, Any] = {}
        items = RecordedItems(kept)
        first = only_item(items, row(opening(sequence("a", "b"))))
        assert only_item(items, row(opening(sequence("a", "b")))) is first
        for n in range(OPENINGS + 5):
            only_item(items, row(opening(sequence("a", f"b{n}"))))
        assert len(kept) <= OPENINGS

    def test_branch_opening_is_not_cached(self) -> None:
        """A branch's opening is not cached, because its markings are its own."""
        body = SessionOpened(agent="b", model="m", mode="enforce", kind="branch", parent="s0")
        kept: dict[str, Any] = {}
        assert only_item(RecordedItems(kept), row(body)) is not None
        assert kept == {}
