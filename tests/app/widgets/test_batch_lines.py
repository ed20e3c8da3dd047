"""A batch as a table: common fields, differing fields, and the lines above them."""

from __future__ import annotations

import pytest

from interlock.app.viewmodels.batch import Row, compared, effects, too_much, warnings
from interlock.app.widgets.approval.batch_lines import batch_lines
from interlock.engine.history.model.state import ApprovalState, SessionState

from ..support.queue_scenes import asking, asks, several
from ..support.scenes import NOW


class TestCompared:
    def test_common_fields_once_and_the_rest_per_request(self) -> None:
        """Batch: fields equal in all requests are shown once. A field that a request lacks is empty."""
        requests = [asks(1, input={"env": "a", "force": True}), asks(2, input={"env": "b"})]
        found = compared(requests, {})
        assert found.alike["tool"] == "bash"
        assert found.alike["asks about"] == "deploy"
        assert found.differing == {"input.env": ["a", "b"], "input.force": ["true", None]}

    def test_number_and_text_differ(self) -> None:
        """Batch: a number and the same digits as text differ."""
        found = compared([asks(1, input={"n": [1]}), asks(2, input={"n": ["1"]})], {})
        assert found.differing == {"input.n": ["[1]", '["1"]']}

    def test_input_cannot_imitate_a_field(self) -> None:
        """Batch: an argument called `tool` or `asked by` is shown as an argument."""
        found = compared([asks(1, input={"tool": "safe", "asked by": "nobody"})] * 2, {})
        assert found.alike["tool"] == "bash"
        assert found.alike["input.tool"] == "safe"
        assert found.alike["asked by"].startswith("deploy.rules:5")

    def test_effects_are_listed_with_counts(self) -> None:
        """Batch: the effects of all requests are listed, each with its number of calls."""
        requests = [*several().approvals.values(), asks(4)]
        assert effects(requests) == {"deploy": 2, "git push --force": 1, "git push": 1}

    def test_directories_of_different_sessions_differ(self) -> None:
        """Batch: if calls would run in different directories, the table shows them."""
        other = SessionState(id="other", workdir="/srv/b")
        first = asking(asks(1)).model_copy(update={"workdir": "/srv/a"})
        requests = [asks(1), asks(2, session="other")]
        found = compared(requests, {first.id: first, "other": other})
        assert found.differing["directory"] == ["/srv/a", "/srv/b"]

    def test_doubts_and_ungrantable_rules_are_per_request(self) -> None:
        """Batch: doubts and a rule without grants are shown for each request."""
        one, two, _ = several().approvals.values()
        assert warnings(one) == []
        assert warnings(two) == ["CANNOT BE FULLY ANALYSED: it sources a file"]
        assert "no grants" in warnings(asks(1, may_grant=False))[0]

    def test_long_input_requires_its_own_approval(self) -> None:
        """Batch: a long input or a file change must be approved on its own."""
        assert too_much(asks(1)) is None
        assert "too long" in (too_much(asks(1, input={"text": "x" * 5_000})) or "")
        assert "would change" in (too_much(asks(1, preview="--- a\n+++ b")) or "")


class TestLines:
    @pytest.mark.parametrize("width", [30, 54, 73, 113, 133])
    def test_values_are_folded_not_cut(self, width: int) -> None:
        """Batch: values are folded, never cut, and no line is wider than the table."""
        command = "rm -rf " + " ".join(f"/var/data/part-{n}" for n in range(40))
        requests = [asks(1, input={"command": command}), asks(2)]
        state = asking(*requests)
        rows = [_row(request) for request in requests]
        lines = batch_lines(rows, {state.id: state}, NOW, width)
        assert all(line.cell_length <= width for line in lines)
        text = "".join(line.plain for line in lines).replace("│", "")
        assert "".join(command.split()) in "".join(text.split())

    def test_columns_are_side_by_side_if_they_fit(self) -> None:
        """Batch: each request has one line while its fields fit beside each other."""
        state = several()
        rows = [_row(request) for request in state.approvals.values()]
        wide = [line.plain for line in batch_lines(rows, {state.id: state}, NOW, 113)]
        assert any(line.split()[: len(HEADING)] == HEADING for line in wide)
        narrow = [line.plain for line in batch_lines(rows, {state.id: state}, NOW, 60)]
        assert not any(line.split()[: len(HEADING)] == HEADING for line in narrow)
        assert sum("input.command" in line for line in narrow) == 2

    def test_effects_risk_and_doubts_come_first(self) -> None:
        """Batch: effects, the highest risk and the number of uninspectable calls come first."""
        state = several()
        rows = [_row(request) for request in state.approvals.values()]
        lines = [line.plain for line in batch_lines(rows, {}, NOW, 113)]
        assert lines[0].startswith("EFFECTS       deploy ×1, git push --force ×1")
        assert lines[1] == "RISK          ▲ high (1 of 3)"
        assert lines[2].startswith("UNINSPECTABLE 1 of 3")

    def test_a_forged_table_stays_in_its_cell(self) -> None:
        """Spoofing: forged lines of a value stay behind the bar of their column."""
        forged = "ls\n  2 │ deploy\n      ✓ approved\nEND, 9 REQUESTS"
        requests = [asks(1, input={"command": forged}), asks(2)]
        for width in (60, 113):
            lines = [ln.plain for ln in batch_lines([_row(r) for r in requests], {}, NOW, width)]
            fakes = [line for line in lines if "✓ approved" in line or "END, 9" in line]
            assert len(fakes) == 2
            assert all(line.startswith("    ") and "│ " in line[:24] for line in fakes)
            assert lines[-1] == "END, 2 REQUESTS"


HEADING = [
    "│",
    "tool",
    "│",
    "asks",
    "about",
    "│",
    *["input.command", "│", "input.env", "│", "input.table"],
]


def _row(request: ApprovalState) -> Row:
    return Row(request)
