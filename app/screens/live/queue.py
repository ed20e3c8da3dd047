"""Actions of the live screen on requests, other than opening them, and on grants.

Several requests are marked and decided together, a request gets more time, a grant is revoked. Marks are
request ids, so they do not depend on the order of the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime

from ....engine.approvals.request_order import ApprovalQueue, Unread, in_order
from ....engine.history.model.state import ApprovalState, GrantState, SessionState
from ....engine.hub.hub import Outcome
from ...format.text import shown
from ...format.times import in_force, with_more
from ...sources.messages import ActionDone, RequestChosen
from ...widgets.base.greyed_keys import Parameters
from ...widgets.lists.sessions import WaitingList
from ...widgets.nets.flow_lines import askers
from ...widgets.nets.grants import bounds, passes
from ...widgets.nets.list import NetList
from ..common.confirm import Confirm, when_yes
from ..common.deferred_paint import SettledScreen
from ..common.guarded_keys import ASLEEP
from ..common.operator_context import OperatorContext, outcome_of

MOST = 50
"""Maximum number of requests that are decided together."""
COMING = (
    "triage",
    "mark",
    "take_back",
    "together",
    "revoke",
    "raise_limit",
    "decide",
    "stop",
    "interrupt",
)
"""Actions whose availability changes as sessions and requests come and go."""


class QueueScreen(SettledScreen[None], inherit_bindings=False):
    """Base of a screen with a queue and a list of nets."""

    def __init__(self, context: OperatorContext) -> None:
        super().__init__()
        self._operator_context = context
        self._hub = context.hub
        self._operator = context.operator
        self._clock = context.clock
        self._sessions: dict[str, SessionState] = {}
        self._queue = ApprovalQueue()
        self._unread = Unread()
        self._marked: set[str] = set()
        self._arrived = float("-inf")
        self._offered: list[bool | None] = []

    @property
    def state(self) -> SessionState | None:
        """Return the selected session."""
        raise NotImplementedError

    @property
    def selected_request(self) -> ApprovalState | None:
        """Return the request under the cursor of the queue."""
        return self._queue.get(self.query_one("#waiting", WaitingList).current)

    @property
    def selected_grant(self) -> GrantState | None:
        """Return the grant under the cursor of the nets."""
        current = self.query_one("#nets", NetList).current
        return None if self.state is None else self.state.grants.get(current or "")

    def _show_queue(self, names: dict[str, str], now: datetime) -> None:
        """Show the queue. Keys become inert when another request comes under the cursor."""
        waiting = self.query_one("#waiting", WaitingList)
        before = waiting.current
        if self._marked:
            self._marked &= {each.id for each in self._queue}
        waiting.show_waiting(
            self._queue, askers(self._sessions, names), now, self._marked, unread=self._unread.requests
        )
        if waiting.current != before:
            self._arrived = self._operator_context.monotonic()
        offered = [self.check_action(action, ()) for action in COMING]
        if offered != self._offered:
            self._offered = offered
            self.refresh_bindings()

    def fall_asleep(self) -> None:
        """Make keys inert for a moment, because another request may be under the cursor now."""
        self._arrived = self._operator_context.monotonic()

    def _accepts_key(self) -> bool:
        if self._operator_context.monotonic() - self._arrived >= ASLEEP:
            return True
        self.notify("Another request has just come under the cursor.", severity="warning")
        return False

    def offers(self, action: str, parameters: Parameters = ()) -> bool:
        """Return whether a key of the queue or of the nets applies to the focused pane."""
        match action:
            case "mark" | "extend" | "claim":
                return self._in("waiting") and bool(self._queue)
            case "take_back":
                request = self.selected_request
                return self._in("waiting") and request is not None and request.fuse is not None
            case "together":
                return bool(self._marked)
            case "triage":
                return self._several
            case "revoke":
                return self._in("nets") and self.selected_grant is not None
            case _:
                return True

    @property
    def _several(self) -> bool:
        """Return whether more than one request is open."""
        return len(self._queue) + self._unread.requests > 1

    def _in(self, pane: str) -> bool:
        return self.focused is not None and self.focused.id == pane

    # Deciding several requests

    async def action_triage(self) -> None:
        """Show all open requests as a table over the whole width."""
        await self.app.run_action("triage")

    async def action_mark(self) -> None:
        """Mark the request under the cursor, or remove its mark."""
        request = self.selected_request
        if request is None:
            return
        if request.id in self._marked:
            self._marked.remove(request.id)
        elif len(self._marked) >= MOST:
            self.notify(f"At most {MOST} requests are decided together.", severity="warning")
            return
        else:
            self._marked.add(request.id)
        await self.paint()

    async def paint(self) -> None:
        """Update the screen to the hub's state."""
        raise NotImplementedError

    def action_together(self) -> None:
        """Show the marked requests as a table, to be decided together.

        Open a single one in its dialog.
        """
        from ..approval.batch import BatchScreen

        chosen = in_order(a for a in self._queue if a.id in self._marked)
        if len(chosen) == 1:
            self.post_message(RequestChosen(chosen[0].id))
            return
        if chosen:
            self.app.push_screen(BatchScreen(self._operator_context, chosen, self._sessions))

    # Requests

    def action_extend(self) -> None:
        """Extend the deadline of the request under the cursor by 15 minutes."""
        request = self.selected_request
        if request is None or not self._accepts_key():
            return
        seconds = with_more(request, self._clock())
        if seconds is None:
            self.notify("This request has no deadline.")
            return
        self._do(self._operator_context.extend(request, seconds))

    def action_take_back(self) -> None:
        """Take back the approval of the request under the cursor before its call runs."""
        request = self.selected_request
        if request is not None and request.fuse is not None:
            self._do(self._operator_context.take_back(request))

    def action_claim(self) -> None:
        """Claim the request under the cursor, or give up the claim."""
        request = self.selected_request
        if request is not None:
            self._do(self._operator_context.claim(request))

    # Grants

    def action_revoke(self) -> None:
        """Revoke the grant under the cursor, with a confirmation."""
        state, grant = self.state, self.selected_grant
        if state is None or grant is None:
            return
        now = self._clock()
        if not in_force(grant, now):
            self.notify(f"{shown(grant.key)} no longer lets calls pass.", markup=False)
            return
        self._ask(
            "Revoke a grant",
            f"Revoke {grant.key}?",
            [
                f"Now {passes(grant)}: {', '.join(bounds(grant, now))}.",
                *(["All other steps of its plan end with it."] if grant.record.plan is not None else []),
                "Such calls then need approval again. Calls that already ran are not undone.",
            ],
            lambda: self._revoke(state.id, grant.key),
        )

    async def _revoke(self, session: str, key: str) -> Outcome:
        return await self._hub.revoke_grant(session, key, by=self._operator)

    # Running actions

    def _ask(
        self,
        title: str,
        question: str,
        details: Sequence[str],
        on_yes: Callable[[], Coroutine[object, object, Outcome]],
    ) -> None:
        confirm = Confirm(title, question, details)
        self.app.push_screen(confirm, when_yes(lambda: self._do(on_yes())))

    def _do(self, action: Coroutine[object, object, Outcome]) -> None:
        self.app.run_worker(self._finish(action), group="decisions", exit_on_error=False)

    async def _finish(self, action: Coroutine[object, object, Outcome]) -> None:
        self.post_message(ActionDone(await outcome_of(lambda: action)))
