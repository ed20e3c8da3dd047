"""The queue: the order of requests, their lines, and the queue's keys."""

from __future__ import annotations

from datetime import timedelta

import pytest
from textual.content import Content

from interlock.app.screens.approval.screen import ApprovalScreen
from interlock.app.screens.live.screen import LiveScreen
from interlock.app.sources.messages import HubMoved
from interlock.app.widgets.approval.queue_lines import risk_and_time, time_left
from interlock.app.widgets.approval.title import request_title
from interlock.app.widgets.lists.sessions import WaitingList
from interlock.engine.approvals.request_order import FIRST, ApprovalQueue, Unread, in_order
from interlock.engine.core.approvers import Approvers, Escalation
from interlock.engine.history.model.events import ApprovalExpired, ApprovalGiven
from interlock.engine.history.model.state import ApprovalState, SessionState, mark_disconnected
from interlock.engine.hub.hub import DisconnectedCalls

from ...support.queue_scenes import asking, asks, several
from ...support.scenes import NOW, before, docs_writer
from ...support.stage import Stage, stage


def queue(on: Stage) -> list[str]:
    """The request ids in the order in which they are shown."""
    return [block.key for block in on.app.screen.query_one(WaitingList).blocks]


def under_cursor(on: Stage) -> str | None:
    return on.app.screen.query_one(WaitingList).current


class TestOrder:
    def test_risk_first_then_age(self) -> None:
        """Queue: high risk first, then medium, none, low. Within each, the longest wait first."""
        waiting = [
            asks(1, risk="low"),
            asks(2),
            asks(3),
            asks(4, risk="high"),
            asks(5, risk="medium"),
            asks(6, risk="high"),
        ]
        assert [a.id for a in in_order(waiting)] == ["q6", "q4", "q5", "q3", "q2", "q1"]

    def test_openers_take_turns(self) -> None:
        """Queue: many requests by one opener, in any number of sessions, do not hide those of others."""
        flood = [asks(100 + n, session=f"s{n % 7}", agent=f"bot-{n}", opener="bot") for n in range(98)]
        own = [asks(2, session="night"), asks(1, session="night")]
        other = asks(3, session="day", opener="other")
        urgent = asks(0, session="s1", opener="bot", risk="high")
        found = in_order([*flood, *own, other, urgent])
        assert [a.id for a in found[:6]] == ["q0", "q197", "q3", "q2", "q196", "q1"]
        # The sessions of one token take turns, too.
        assert {a.session for a in found[1:14] if a.opener == "bot"} == {f"s{n}" for n in range(7)}

    @pytest.mark.slow
    async def test_long_queue_lists_first_requests_and_counts_others(self) -> None:
        """Queue: a long queue lists only the first requests and the number of the others."""
        waiting = [asks(n) for n in range(10 * FIRST)]
        async with stage(asking(*waiting)) as on:
            shown = on.app.screen.query_one(WaitingList)
            assert len(shown.blocks) == FIRST + 1
            assert queue(on)[:-1] == [a.id for a in in_order(waiting)[:FIRST]]
            [last] = shown.blocks[-1].lines(40)
            assert last.plain == "and 540 more after these"
            assert not shown.blocks[-1].selectable

    async def test_editor_of_an_input_is_named(self) -> None:
        """G-75: a request with an edited input names its editor in the queue."""
        edited = asks(1, original={"command": "./deploy --env prod"}, edited_by="ada")
        async with stage(asking(edited, asks(2))) as on:
            lists = on.app.screen.query_one(WaitingList)
            first, second = (
                "\n".join(row.plain for row in block.lines(30)) for block in lists.blocks[:2]
            )
            assert ("edited by ada" in first) != ("edited by ada" in second)

    async def test_list_is_in_queue_order(self) -> None:
        """Queue: the list is in this order, whatever order the hub gives."""
        async with stage(several()) as on:
            assert queue(on) == ["q1", "q2", "q3"]

    @pytest.mark.slow
    async def test_the_cursor_stays_on_its_request(self) -> None:
        """Queue: a riskier request that arrives above does not move the selection."""
        async with stage(asking(asks(1), asks(2))) as on:
            await on.press("alt+5", "j")
            await on.settle()
            chosen = under_cursor(on)
            await on.press("alt+1")
            on.hub.states["release-bot-1f3a"].approvals["q9"] = asks(9, risk="high")
            on.hub.publish("release-bot-1f3a", ApprovalGiven(approval_id="q9", call_id="c9", by="ben"))
            await on.until("▲ high")
            assert queue(on)[0] == "q9"
            assert under_cursor(on) == chosen == "q1"
            await on.press("alt+5", "a")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            assert on.app.screen.request.id == "q1"
            assert on.decisions() == []


def set_unread(on: Stage, lacking: Unread) -> None:
    """Pretend that the hub belongs to a server and that so much is still unread."""
    on.hub.lacking = lacking
    on.app.screen.post_message(HubMoved(()))


class TestBeingRead:
    """A server's queue of which the console has read only the beginning."""

    @pytest.mark.slow
    async def test_count_includes_unread_requests(self) -> None:
        """The count includes unread requests, and the list says how many are missing."""
        async with stage(asking(asks(1), asks(2))) as on:
            set_unread(on, Unread(3, 9_998))
            await on.until("Waiting (10000)")
            assert "Sessions · 3 to read" in on.painted()
            assert on.app.title == "Interlock · 10000 waiting"
            [last] = on.app.screen.query_one(WaitingList).blocks[-1].lines(40)
            assert last.plain == "and 9,998 more after these"
            set_unread(on, Unread())
            await on.until("Waiting (2)")
            assert "to read" not in on.painted()

    @pytest.mark.slow
    async def test_no_session_is_reported_only_after_reading(self) -> None:
        """The screen reports that no session runs only after it has read the server's list."""
        async with stage() as on:
            on.hub.states.clear()
            set_unread(on, Unread(1, 0))
            await on.until("Reading the server's")
            assert "No session runs" not in on.painted()

    @pytest.mark.slow
    async def test_opened_request_reads_its_session_first(self) -> None:
        """Opening a request reads its session first, if that has not been read."""
        state = asking(asks(1), asks(2))
        async with stage() as on:
            on.hub.states.clear()
            first = list(state.approvals.values())

            async def listed() -> list[ApprovalState]:
                return first

            async def read(session_id: str) -> SessionState:
                on.hub.asked.append(("session", session_id))
                return state

            on.hub.approvals, on.hub.session = listed, read
            set_unread(on, Unread(1, 0))
            await on.until("stage-1")
            await on.press("alt+5", "enter")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            assert ("session", state.id) in on.hub.asked


class TestLines:
    @pytest.mark.parametrize(
        ("seconds", "text", "pressing"),
        [
            (858, "14:18 left", False),
            (60, "1:00 left", False),
            (59, "! 0:59 left", True),
            (0.2, "! 0:01 left", True),
            (0, "time is up", True),
        ],
    )
    def test_time_left_is_shown(self, seconds: float, text: str, pressing: bool) -> None:
        """Expiry: the time left is shown, and in the last minute marked by more than a colour."""
        found = time_left(asks(1, expires=NOW + timedelta(seconds=seconds)), NOW)
        assert found[0] == text
        assert ("bold" in found[1]) == pressing
        assert time_left(asks(1), NOW)[0] == ""

    def test_line_shows_risk_time_approvals_and_doubts(self) -> None:
        """Queue: the rule's risk, the time left, the number of approvals, and doubts are shown."""
        one, two, three = several().approvals.values()
        assert plain(risk_and_time(one, NOW)) == ["▲ high", "14:18 left", "1 of 2 ●○"]
        assert plain(risk_and_time(two, NOW)) == ["uninspectable"]
        assert plain(risk_and_time(three, NOW)) == ["▼ low", "! 0:41 left"]

    def test_group_excluded_author_and_escalation_are_shown(self) -> None:
        """Queue: the group is shown, that the author is excluded, and the escalation."""
        terms = Approvers("security", author=False, escalation=Escalation("oncall", 600))
        asked = asks(1, people=2, approvers=terms, given=("ada",))
        assert plain(risk_and_time(asked, NOW)) == [
            "1 of 2 ●○",
            "needs 2 of security",
            "not by author",
        ]
        later = asked.model_copy(update={"escalated": NOW})
        assert plain(risk_and_time(later, NOW))[-1] == "escalated to oncall"

    def test_disconnected_agent_is_shown(self) -> None:
        """Queue and dialog: an open request shows for how long its agent has been disconnected."""
        lost = asks(1, disconnected=NOW - timedelta(seconds=40), risk="low")
        assert plain(risk_and_time(lost, NOW)) == ["disconnected 40 s", "▼ low"]
        assert " · disconnected 40 s" in request_title(lost, NOW, 72).plain
        assert "disconnected" not in request_title(lost, NOW, 72, over=True).plain
        assert "disconnected" not in request_title(asks(1), NOW, 72).plain

    async def test_dialog_title_follows_agent_connection(self) -> None:
        """Dialog: the title shows that the agent is disconnected, until it is connected again."""
        state = asking(asks(1))
        async with stage(state) as on:
            await on.press("a")
            dialog = on.app.screen
            assert isinstance(dialog, ApprovalScreen)
            for calls in ({dialog.request.call_id: before(40)}, {}):
                mark_disconnected(state.approvals, calls)
                event = DisconnectedCalls(session=state.id, calls=calls)
                dialog.post_message(HubMoved((event,)))
                await on.settle()
                assert ("disconnected 40 s" in str(dialog._frame.border_title)) == bool(calls)

    @pytest.mark.slow
    @pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 24)])
    async def test_lines_are_complete_on_screen(self, size: tuple[int, int]) -> None:
        """Queue: tool, age, agent, risk, time left, approvals and doubts are shown, wide and narrow."""
        async with stage(several(), size=size) as on:
            await on.press("alt+5")
            await on.settle()
            shown = on.painted()
        for part in ("▲ high", "14:18 left", "1 of 2 ●○", "uninspectable", "▼ low", "! 0:41 left"):
            assert part in shown
        assert "git push --force" in shown
        assert "2:00" in shown


class TestStopped:
    async def test_waiting_session_shows_its_requests(self) -> None:
        """Sessions: a waiting session shows its number of requests, the most urgent one, and its age."""
        async with stage(asking(asks(1), asks(2, tool="rm", risk="high")), docs_writer()) as on:
            shown = on.painted()
        assert "asks 2 · rm 2:00" in shown
        assert "running · enforce" in shown

    def test_a_subagent_is_stopped_by_its_own_call(self) -> None:
        """Sessions: a request for a subagent's call stops the subagent and its parent."""
        queue = ApprovalQueue([asks(2), asks(1, via="child-1")])
        assert [a.id for a in queue.of("release-bot-1f3a")] == ["q2", "q1"]
        assert [a.id for a in queue.of("child-1")] == ["q1"]
        stops = {session: (stop.number, stop.first.id) for session, stop in queue.stops().items()}
        assert stops == {"release-bot-1f3a": (2, "q2"), "child-1": (1, "q1")}

    @pytest.mark.slow
    async def test_subagent_line_shows_its_waiting_call(self) -> None:
        """Sessions: a subagent's line shows its waiting call."""
        parent = asking(asks(1, via="helper-2"))
        child = docs_writer().model_copy(
            update={"id": "helper-2", "agent": "helper", "kind": "child", "parent": parent.id}
        )
        async with stage(parent, child) as on:
            line = next(line for line in on.painted().splitlines() if "└ ◐ helper" in line)
        assert "1:00" in line[:26]


class TestExtend:
    async def test_plus_adds_15_minutes(self) -> None:
        """Extend: `+` adds 15 minutes to the time left, and the queue shows it."""
        async with stage(several()) as on:
            await on.press("alt+5")
            await on.wake()
            await on.press("plus")
            await on.settle()
            assert on.hub.asked == [("extend", "q1", 858.0 + 900.0, "maria")]
            await on.until("29:18 left")

    @pytest.mark.slow
    async def test_request_without_deadline_is_not_extended(self) -> None:
        """Extend: a request without a deadline is not given one."""
        async with stage(asking(asks(1))) as on:
            await on.press("alt+5")
            await on.wake()
            await on.press("plus")
            await on.until("This request has no deadline")
            assert on.hub.asked == []

    @pytest.mark.slow
    async def test_key_works_only_in_the_queue(self) -> None:
        """Extend: in other panes the key does nothing."""
        async with stage(several()) as on:
            await on.press("alt+2")
            await on.wake()
            await on.press("plus")
            await on.settle()
            assert on.hub.asked == []

    @pytest.mark.slow
    async def test_key_sleeps_for_a_new_request_under_the_cursor(self) -> None:
        """Never by accident: when a request disappears, the key sleeps before it acts on the next one."""
        async with stage(several()) as on:
            await on.press("alt+5")
            await on.wake()
            on.hub.withdraw("q1", "the agent was interrupted")
            await on.settle()
            assert under_cursor(on) == "q2"
            await on.press("j", "k", "plus")
            await on.settle()
            assert on.hub.asked == []
            await on.until("Another request has just come")

    @pytest.mark.slow
    async def test_hub_refusal_is_shown(self) -> None:
        """Extend: a refusal by the hub is shown."""
        async with stage(several()) as on:
            on.hub.refuse = "This request has expired"
            await on.press("alt+5")
            await on.wake()
            await on.press("plus")
            await on.until("This request has expired")


class TestMarks:
    async def test_marks_stay_with_their_requests(self) -> None:
        """Batch: a mark is shown, disappears with its request, and is removed by the same key."""
        async with stage(several()) as on:
            await on.press("alt+5", "space", "j", "space")
            await on.settle()
            shown = on.painted()
            assert "[x] deploy" in shown
            assert "[x] git push --force" in shown
            assert "2 marked" in shown
            on.hub.withdraw("q1", "gone")
            await on.until("1 marked")
            await on.press("space")
            await on.settle()
            assert "marked" not in on.painted()
            assert on.decisions() == []

    @pytest.mark.slow
    async def test_mark_key_works_only_in_the_queue(self) -> None:
        """Batch: the key marks requests in the queue only."""
        async with stage(several()) as on:
            await on.press("alt+2", "space", "B")
            await on.settle()
            assert "marked" not in on.painted()
            assert isinstance(on.app.screen, LiveScreen)

    @pytest.mark.slow
    async def test_single_marked_request_opens_its_dialog(self) -> None:
        """Batch: a single marked request opens its own dialog."""
        async with stage(several()) as on:
            await on.press("alt+5", "j", "space", "k", "B")
            await on.settle()
            assert isinstance(on.app.screen, ApprovalScreen)
            assert on.app.screen.request.id == "q2"

    @pytest.mark.slow
    async def test_at_most_fifty_can_be_marked(self) -> None:
        """Batch: at most fifty requests can be marked, and a notice says so."""
        async with stage(asking(*(asks(n) for n in range(60)))) as on:
            screen = on.app.screen
            assert isinstance(screen, LiveScreen)
            await on.press("alt+5")
            for _ in range(51):
                await screen.action_mark()
                screen.query_one(WaitingList).action_cursor(1)
            await on.until("At most 50 requests are decided together.")
            assert "50 marked" in on.painted()


class TestEnds:
    async def test_an_expired_request_leaves_at_once(self) -> None:
        """Expiry: an expired request leaves the queue at once."""
        async with stage(several()) as on:
            on.hub.settle("q3")
            expired = ApprovalExpired(approval_id="q3", call_id="c3", reason="nobody decided in time")
            on.hub.publish("release-bot-1f3a", expired)
            await on.settle()
            assert queue(on) == ["q1", "q2"]


def plain(pieces: list[Content]) -> list[str]:
    return [piece.plain for piece in pieces]


def test_scenes_are_older_the_higher_their_number() -> None:
    """The order in these tests depends on the requests' ages."""
    assert asks(3).since == before(180)
