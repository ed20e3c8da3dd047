"""A headless session: one line per event, approvals answered as the options say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal, TextIO

from pydantic import JsonValue

from ...engine.core.sanitize import visible, visible_words
from ...engine.history.fold.event_text import headline
from ...engine.history.model.events import ApprovalRequested, JournalEvent
from ...engine.history.model.state import ApprovalState, SessionState
from ...engine.hub.hub import Hub, HubEvent, Outcome, Streaming

Answer = Literal["approve", "deny"]
WIDTH = 100
"""Columns of a request that is printed before it is approved."""


def machine_answer(asked: ApprovalRequested, answer: Answer) -> tuple[bool, str | None]:
    """Tell whether an option approves a request, and the reason where it does not.

    An option counts as no person: where several people must approve it denies (G-77).
    """
    if answer == "approve" and asked.people > 1:
        return False, f"{asked.people} people must approve, and --answer approve is none of them"
    return answer == "approve", None if answer == "approve" else f"answered by --answer {answer}"


async def follow(
    hub: Hub,
    start: Callable[[Hub], Awaitable[str]],
    *,
    answer: Answer,
    out: TextIO,
) -> int:
    """Start a session with `start` and print what happens until it rests.

    Returns 0 when the session came to its end, 1 when it failed.
    """

    async def decide(asked: ApprovalRequested) -> str | None:
        outcome = await answer_request(hub, asked, answer, out)
        return None if outcome.ok else outcome.message

    subscription = hub.subscribe()
    printing = asyncio.create_task(print_events(subscription.__aiter__(), decide, out))
    try:
        session = await start(hub)
        try:
            await hub.wait(session)
        except Exception:  # whatever it failed with is in the journal and printed
            failed = True
        else:
            failed = (await hub.session(session)).status == "failed"
    finally:
        await hub.close()
        await printing
    return 1 if failed else 0


async def answer_request(
    hub: Hub,
    asked: ApprovalRequested,
    answer: Answer,
    out: TextIO,
    filled_in: dict[str, JsonValue] | None = None,
) -> Outcome:
    """Answer a request as the options say. An input is printed first, whole; only that is approved.

    A request whose masked text may be more than a secret is denied: it cannot be reviewed headless.
    """
    approved, reason = machine_answer(asked, answer)
    if approved:
        shown = next((each for each in await hub.approvals() if each.id == asked.approval_id), None)
        if shown is not None and shown.hidden:
            places = ", ".join(dict.fromkeys(each.place for each in shown.hidden))
            approved, reason = False, f"to look at what is masked in {places} takes a screen"
        elif shown is not None:
            for line in request_lines(shown, await hub.session(shown.session)):
                print(f"          {line}".rstrip(), file=out, flush=True)
    return await hub.decide(
        asked.approval_id,
        approved=approved,
        by="headless",
        reason=reason,
        input=filled_in if approved else None,
        digest=asked.digest,
    )


def request_lines(request: ApprovalState, session: SessionState) -> list[str]:
    """All that the dialog shows of a request before it is approved, as plain lines."""
    from ..widgets.approval.request import request_text

    text = request_text(request, session, request.since, WIDTH, 0, expanded=True)
    return [line.plain for line in text.lines[: text.decisive]]


async def print_events(
    events: AsyncIterator[HubEvent],
    decide: Callable[[ApprovalRequested], Awaitable[str | None]],
    out: TextIO,
) -> None:
    """Print every event; `decide` answers each request, or says why it could not."""
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
