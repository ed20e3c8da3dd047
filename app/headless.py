"""A session without a screen: one line per event, approvals answered as told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal, TextIO

from ..engine.history.changes import headline
from ..engine.history.events import ApprovalRequested, JournalEvent
from ..engine.hub import Hub, HubEvent, Streaming
from ..engine.text import visible

Answer = Literal["approve", "deny"]


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
        approved = answer == "approve"
        reason = None if approved else f"answered by --answer {answer}"
        outcome = await hub.decide(asked.approval_id, approved=approved, by="headless", reason=reason)
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
                    f"{event.at.astimezone():%H:%M:%S}  {visible(event.session)}  {line}",
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
