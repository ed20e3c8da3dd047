"""Nets as lines: places, tokens, and what the marking means for the next call."""

from __future__ import annotations

import pytest

from interlock.app.widgets.nets.drawing import picture_blocks
from interlock.app.widgets.nets.list import net_blocks, places_line, prospects, tokens, words
from interlock.engine.history.model.records import NetRecord, TransitionRecord
from interlock.engine.history.model.state import NetState, SessionState

from ..support.queue_scenes import sliding, two_people
from ..support.scenes import NOW, approve, before, block, deploy_request, limit, release_bot, require


def meaning(net: NetState) -> list[str]:
    return [f"{p.symbol} {p.text}" for p in prospects(net)]


class TestMeaning:
    def test_sequence_names_the_missing_call(self) -> None:
        """Before the first call the second is blocked and says why. Afterwards it may run."""
        assert meaning(require("test", "deploy", 4, "ready")) == ["■ deploy needs test first"]
        assert meaning(require("test", "deploy", 4, "gate")) == ["▸ deploy may run"]

    def test_manual_transition_needs_approval(self) -> None:
        """An enabled manual transition means that the call needs approval."""
        assert meaning(approve("deploy", 5)) == ["◐ deploy needs approval"]

    def test_a_budget_is_counted(self) -> None:
        """A limit shows how many calls are left, and when it is reached."""
        assert meaning(limit("deploy", 2, 2, 6)) == ["▸ deploy: 2 left"]
        assert meaning(limit("deploy", 2, 0, 6)) == ["■ deploy at its limit"]

    def test_limit_per_action_names_its_refill(self) -> None:
        """A limit per action names the action that restores its tokens."""
        each = limit("push", 1, 0, 6)
        refill = TransitionRecord(
            name="refill",
            inputs=("ready",),
            outputs=("ready",),
            tools=("review",),
            deferred=True,
            transfers=(("spent", "budget"),),
        )
        record = each.net.model_copy(
            update={"places": (*each.net.places, "spent"), "transitions": (*each.net.transitions, refill)}
        )
        net = NetState(net=record, active=True, marking={**each.marking, "spent": 1})
        assert meaning(net) == ["■ push at its limit until review"]

    def test_a_blocked_tool_is_blocked(self) -> None:
        """A transition that can never fire blocks its tool."""
        assert meaning(block("rm", 7)) == ["■ rm is blocked"]

    def test_a_hand_built_net_without_a_rule(self) -> None:
        """Arc weights count: a place that is listed twice needs two tokens."""
        record = NetRecord(
            key="pair",
            name="pair",
            places=("hands",),
            transitions=(
                TransitionRecord(name="lift", inputs=("hands", "hands"), outputs=(), tools=("lift",)),
            ),
            initial_marking={"hands": 2},
        )
        assert meaning(NetState(net=record, active=True, marking={"hands": 1})) == ["■ lift at its limit"]
        assert meaning(NetState(net=record, active=True, marking={"hands": 2}))[0].startswith("▸ lift")

    def test_inactive_net_keeps_its_state(self) -> None:
        """An inactive net is shown as off, with its state kept."""
        assert words(require("a", "b", 1, "ready", active=False)).plain == "off (state kept)"


class TestPlaces:
    @pytest.mark.parametrize(
        ("number", "shown"), [(0, "○"), (1, "●"), (4, "●●●●"), (5, "●5"), (90, "●90")]
    )
    def test_tokens_are_dots_and_a_number_from_five_on(self, number: int, shown: str) -> None:
        """Few tokens are dots, more are a number."""
        assert tokens(number) == shown

    def test_places_in_order_with_arrows(self) -> None:
        """A place that cannot be reached again is left out. An arrow leads to the next one."""
        assert places_line(require("test", "deploy", 4, "gate")).plain == "ready ○ → gate ●"
        assert places_line(limit("deploy", 7, 7, 6)).plain == "ready ●  budget ●7"


class TestLines:
    def test_columns_are_aligned(self) -> None:
        """Places and meanings of all nets start in the same column."""
        lines = [block.lines(100)[0].plain for block in net_blocks(release_bot())]
        assert (
            len({line.index("ready") for line in lines if not line.startswith("[x] require-lint")}) == 1
        )
        assert lines[2].startswith("[x] approve-before-deploy ")
        assert lines[5].startswith("[ ] require-freeze-before-deploy ")

    @pytest.mark.parametrize("width", [20, 40, 71, 72, 100, 160])
    def test_no_line_is_too_wide(self, width: int) -> None:
        """Lines fit at any width."""
        for shown in net_blocks(release_bot()):
            for line in shown.lines(width):
                assert line.cell_length <= width

    def test_changed_nets_are_marked(self) -> None:
        """The changed nets of a replay have a sign, not only a colour."""
        state: SessionState = release_bot()
        marked = net_blocks(state, changed={"block-rm"})
        assert [b.key for b in marked if "Δ" in b.lines(100)[0].plain] == ["block-rm"]


class TestTime:
    def test_sliding_limit_shows_next_call_time(self) -> None:
        """Timed nets: the line shows the calls left and when the next one is available."""
        net = sliding(1, 2880, 100)
        assert [p.text for p in prospects(net, NOW)] == ["push: 1 of 3 left · next back in 12 min"]

    def test_tokens_return_with_time(self) -> None:
        """Timed nets: tokens return with time. At the limit the line shows when the next one returns."""
        assert prospects(sliding(0, 3700, 3600, 60), NOW)[0].text.startswith("push: 2 of 3 left")
        assert prospects(sliding(0, 60, 30, 0), NOW)[0].text == (
            "push at its limit · next back in 59 min"
        )
        assert prospects(sliding(3), NOW)[0].text == "push: 3 of 3 left"

    def test_lines_show_the_current_time(self) -> None:
        """Timed nets: places and words of the list are those of now, not of the last event."""
        state = release_bot()
        state.nets = {"limit": sliding(0, 3700, 60, 30)}
        (line,) = (line.plain for line in net_blocks(state, now=NOW)[0].lines(120))
        assert "budget ●" in line
        assert "push: 1 of 3 left · next back in 59 min" in line


class TestPeople:
    def test_number_of_approvals_is_shown(self) -> None:
        """Two people: the net shows how many approvals it needs."""
        assert meaning(two_people()) == ["◐ deploy needs 2 approvals"]

    def test_approvals_are_shown_as_tokens(self) -> None:
        """Two people: an open request shows its approvals as tokens and rings, with names and times."""
        asking = [deploy_request(people=2, given=("ben",), given_at=(before(180),))]
        told = "◐ deploy needs 2 approvals  approvals ●○ ben"
        assert words(two_people(), NOW, asking).plain == f"{told} 3 min ago ✓"
        assert words(two_people(), None, asking).plain == told
        assert words(two_people(), NOW, [deploy_request()]).plain == "◐ deploy needs 2 approvals"


class TestConditions:
    def test_condition_is_left_out_first(self) -> None:
        """Conditions: `when` is at the end of a line and is left out first."""
        state = release_bot()
        state.approvals.clear()
        state.nets = {"approve-before-deploy": two_people()}
        (block,) = net_blocks(state, now=NOW)
        assert block.lines(120)[0].plain.rstrip().endswith('when input.env = "prod"')
        assert "when" not in block.lines(72)[0].plain
        assert "needs 2 approvals" in block.lines(72)[0].plain

    def test_panel_shows_the_condition(self) -> None:
        """Conditions: the net's panel shows the calls to which it applies."""
        text = [line.plain for b in picture_blocks(two_people()) for line in b.lines(100)]
        assert 'applies to calls of deploy only when input.env = "prod"' in text
