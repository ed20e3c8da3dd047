"""A headless session: one line per event, approvals answered as the options specify."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Literal, TextIO

from pydantic import JsonValue

from ...engine.core.sanitize import visible, visible_words
from ...engine.history.fold.event_text import headline
from ...engine.history.model.events import ApprovalRequested, JournalEvent
from ...engine.history.model.state import ApprovalState, SessionState
from ...engine.hub.hub import Hub, HubEvent, Outcome, Streaming
from .farewell import close_aloud

Answer = Literal["approve", "deny"]
WIDTH = 100
"""Width in columns of a request printed before it is approved."""


def machine_answer(request: ApprovalRequested, answer: Answer) -> tuple[bool, str | None]:
    """Return whether an option approves a request, and the reason if it does not.

    An option does not count as a person: if several people must approve, it denies (G-77).
    """
    if answer == "approve" and request.people > 1:
        return False, f"{request.people} people must approve, and --answer approve counts as none"
    if answer == "approve" and request.approvers is not None and request.approvers.guards:
        who = request.approvers.words
        return False, f"a person must approve ({who}), and --answer approve is not one"
    return answer == "approve", None if answer == "approve" else f"answered by --answer {answer}"


async def follow(
    hub: Hub,
    start: Callable[[Hub], Awaitable[str]],
    *,
    answer: Answer,
    out: TextIO,
) -> int:
    """Start a session with `start` and print its events until it is idle.

    Returns 0 if the session reached its end, 1 if it failed.
    """

    async def decide(request: ApprovalRequested) -> str | None:
        outcome = await answer_request(hub, request, answer, out)
        return None if outcome.ok else outcome.message

    subscription = hub.subscribe()
    printing = asyncio.create_task(print_events(own_events(hub, subscription), decide, out))
    try:
        session = await start(hub)
        try:
            await hub.wait(session)
        except Exception:  # the journal has the error, and it was printed
            failed = True
        else:
            failed = (await hub.session(session)).status == "failed"
    finally:
        await close_aloud(hub)
        await printing
    return 1 if failed else 0


async def answer_request(
    hub: Hub,
    request: ApprovalRequested,
    answer: Answer,
    out: TextIO,
    filled_in: dict[str, JsonValue] | None = None,
) -> Outcome:
    """Answer a request as the options specify.

    Its input is printed completely first; only that is approved. A request whose masks may hide more than
    a secret is denied: it cannot be reviewed headless.
    """
    approved, reason = machine_answer(request, answer)
    if approved:
        state = next((each for each in await hub.approvals() if each.id == request.approval_id), None)
        if state is not None and state.hidden:
            places = ", ".join(dict.fromkeys(each.place for each in state.hidden))
            approved, reason = False, f"viewing what is masked in {places} needs a screen"
        elif state is not None:
            for line in request_lines(state, await hub.session(state.session)):
                print(f"          {line}".rstrip(), file=out, flush=True)
    return await hub.decide(
        request.approval_id,
        approved=approved,
        by="headless",
        reason=reason,
        input=filled_in if approved else None,
        digest=request.digest,
    )


@asynccontextmanager
async def automatic_answers(hub: Hub, answer: Answer | None, out: TextIO) -> AsyncGenerator[None]:
    """While the context is open, answer every request of the hub by `answer`; if `None`, answer none.

    A request that cannot be answered this way stays open, and the reason is written to `out`.
    """
    if answer is None:
        yield
        return
    subscription = hub.subscribe()
    task = asyncio.create_task(_answer_all(hub, subscription, answer, out))
    try:
        yield
    finally:
        subscription.close()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _answer_all(hub: Hub, events: AsyncIterable[HubEvent], answer: Answer, out: TextIO) -> None:
    async for event in events:
        if not isinstance(event, JournalEvent) or not isinstance(event.body, ApprovalRequested):
            continue
        request = event.body
        try:
            outcome = await answer_request(hub, request, answer, out)
        except Exception as error:
            # A request that cannot be answered must not keep later ones from being answered.
            print(f"{visible(request.approval_id)} was not answered: {visible(str(error))}", file=out)
        else:
            print(visible(outcome.message), file=out, flush=True)


def request_lines(request: ApprovalState, session: SessionState) -> list[str]:
    """Return as plain lines all that the dialog shows of a request before it is approved."""
    from ..widgets.approval.request import request_text

    text = request_text(request, session, request.since, WIDTH, 0, expanded=True, bounded=False)
    return [line.plain for line in text.lines[: text.decisive]]


async def own_events(hub: Hub, events: AsyncIterable[HubEvent]) -> AsyncGenerator[HubEvent]:
    """Yield the events without those of other servers of the database, whose requests wait for people."""
    async for event in events:
        if not isinstance(event, JournalEvent) or hub.is_own(event):
            yield event


async def print_events(
    events: AsyncIterator[HubEvent],
    decide: Callable[[ApprovalRequested], Awaitable[str | None]],
    out: TextIO,
) -> None:
    """Print every event. `decide` answers each request, or returns the reason why it could not."""
    wanting: set[str] = set()
    async for event in events:
        match event:
            case JournalEvent():
                line = headline(event, wanting)
                print(
                    f"{event.at.astimezone():%H:%M:%S}  {visible_words(event.session)}  {line}",
                    file=out,
                    flush=True,
                )
                if isinstance(event.body, ApprovalRequested):
                    if event.body.wants is not None:
                        wanting.add(event.body.approval_id)
                    problem = await decide(event.body)
                    if problem is not None:
                        print(f"          {visible(problem)}", file=out, flush=True)
            case Streaming(kind="failure"):
                failure = f"{event.session}  failed: {event.text}"
                print(f"          {visible(failure)}", file=out, flush=True)
            case _:
                pass
