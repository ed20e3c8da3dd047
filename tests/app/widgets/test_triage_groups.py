"""Groups of requests: heading and line together contain the whole request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.app.format.text import shown
from interlock.app.viewmodels.batch import fields_of
from interlock.app.viewmodels.queue_filter import parse_queue_filter
from interlock.app.viewmodels.triage import grouped, must_be_opened, shape_of
from interlock.app.widgets.approval.time_in_view import TimeInView
from interlock.app.widgets.approval.triage_list import MetaColumns, lay_out_group

from ..support.queue_scenes import asks
from ..support.scenes import NOW
from ..support.triage_scenes import every_kind, pushes, thirty_one

WORDS = st.text(alphabet="ab /=-\n", max_size=12)


class TestGroups:
    @pytest.mark.slow
    @given(st.lists(st.tuples(WORDS, st.none() | WORDS), min_size=1, max_size=6))
    def test_heading_and_line_contain_all_fields(self, inputs: list[tuple[str, str | None]]) -> None:
        """Triage: a group's heading and a line's parts together are all fields of the request."""
        waiting = [
            asks(
                n,
                input={"command": f"git push {a}", **({} if b is None else {"path": f"src/{b}"})},
            )
            for n, (a, b) in enumerate(inputs, 1)
        ]
        found = {
            request.id: {
                **group.alike,
                **{
                    each.name: each.head + part + each.tail
                    for each, part in zip(group.differences, group.parts[request.id], strict=True)
                    if part is not None
                },
            }
            for group in grouped(waiting, {})
            for request in group.requests
        }
        assert found == {each.id: fields_of(each, None) for each in waiting}

    def test_commands_share_only_whole_words(self) -> None:
        """Triage: commands share only whole words."""
        [group] = grouped(pushes(3), {})
        [difference] = group.differences
        assert (difference.name, difference.head) == ("input.command", "git push origin ")
        assert group.parts["q2"] == ("feature-2",)

    def test_value_of_another_type_differs(self) -> None:
        """Triage: a text that looks like a number, a boolean or an object differs from that value."""
        for text, value in (("1", 1), ("true", True), ("null", None), ('{"a": 1}', {"a": 1}), ("[]", [])):
            [group] = grouped([asks(1, input={"x": text}), asks(2, input={"x": value})], {})
            assert [each.name for each in group.differences] == ["input.x"]
            assert group.parts["q1"] != group.parts["q2"]

    @pytest.mark.parametrize(
        "text", ["ls │ (none)", "ls · env staging", "git push … now", "(none)", "(nothing)", "ls ", " ls"]
    )
    def test_text_with_separators_is_quoted(self, text: str) -> None:
        """Triage: a text with separators of fields, or with blanks at an end, is quoted."""
        [group] = grouped([asks(1, input={"x": text}), asks(2, input={"x": "ls", "y": "1 2"})], {})
        assert group.parts["q1"][0] == f'"{text}"'
        assert group.parts["q2"] == ("ls", "1 2")

    def test_line_breaks_differ_from_escapes(self) -> None:
        """Triage: a text of several lines must be opened. A written escape looks different."""
        one, other = (
            asks(1, input={"command": "echo a\nrm b"}),
            asks(2, input={"command": "echo a\\nrm b"}),
        )
        assert must_be_opened(one) == "a text in it has several lines"
        assert must_be_opened(other) is None
        assert {shown(fields_of(each, None)["input.command"]) for each in (one, other)} == {
            r"echo a\nrm b",
            r'"echo a\\nrm b"',
        }

    def test_a_lone_field_has_its_name(self) -> None:
        """Triage: the only value of a single call has its field's name, unless it is the command."""
        for name, said in (("exclude", True), ("command", False)):
            [group] = grouped([asks(1, input={name: "prod"})], {})
            heading = lay_out_group(group, MetaColumns.of(group.requests, NOW), 80).heading
            assert any(name in line.plain for line in heading) is said

    def test_grouped_by_rule_and_agent(self) -> None:
        """Triage: requests of one rule and agent are one group, ordered by the most urgent request."""
        waiting = list(every_kind()[0].approvals.values())
        groups = grouped(waiting, {})
        assert [len(group.requests) for group in groups] == [5, 3, 2, 1]
        assert sum(len(group.requests) for group in grouped(thirty_one(), {})) == 31

    def test_unchanged_group_is_reused(self) -> None:
        """Triage: a group with the same requests is reused."""
        waiting = pushes(3)
        first = grouped(waiting, {})
        again = grouped(waiting, {}, {group.key: group for group in first})
        assert again[0] is first[0]
        assert grouped(waiting[:2], {}, {first[0].key: first[0]})[0] is not first[0]

    def test_shape_depends_on_fields_risk_and_effect(self) -> None:
        """Triage: another field, risk or effect is another shape; another value is not."""
        one, other = pushes(2)
        assert shape_of(one) == shape_of(other)
        for change in ({"risk": "high"}, {"tool": "x"}, {"input": {"command": "x", "force": True}}):
            assert shape_of(one) != shape_of(one.model_copy(update=change))


class TestFilter:
    def test_any_value_every_key_and_every_word_match(self) -> None:
        """Triage's filter: a request matches any value of a key, every key and every word."""
        [first, *_] = pushes(1)
        for text, fits in (
            ("risk:medium", True),
            ("risk:high risk:medium", True),
            ("risk:high", False),
            ("agent:release tool:bash rule:approval", True),
            ("agent:docs", False),
            ("FEATURE-1 push", True),
            ("feature-1 pull", False),
            ("session:1f3a", True),
        ):
            assert parse_queue_filter(text).fits(first) is fits, text


class TestTimeInView:
    def test_request_in_view_long_enough_was_seen(self) -> None:
        """Time in view: a request that stayed for long enough was seen, also after it has left."""
        found = TimeInView(0.4)
        found.painted("a", 0.0)
        found.review(["a"], 0.3)
        assert found.coming("a")
        assert not found.seen("a")
        found.review([], 0.5)
        assert found.seen("a")

    def test_leaving_early_restarts_the_time(self) -> None:
        """Time in view: the time of a request that left and came back restarts."""
        found = TimeInView(0.4)
        found.painted("a", 0.0)
        found.review([], 0.3)
        found.painted("a", 0.35)
        found.review(["a"], 0.5)
        assert not found.seen("a")
