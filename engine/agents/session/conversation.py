"""State that the runs of one session share: messages, inbox, listeners."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ..events import Event, Status, StatusEvent, Usage
from ..messages import Message
from ..stores.base import SessionStore
from .inbox import Inbox
from .listeners import Listeners


@dataclass(slots=True)
class Conversation:
    """State that the runs of a session share. `messages` are those in the store, in its order (A-77).

    `undelivered` are user messages that were not stored and no longer wait, each text once.
    `reported_status` is the last status sent to listeners, `prompt_tokens` the number of input tokens of
    the last model call. `rules` are the sentences about the gate's rules with which the system prompt
    ends, once one was sent (G-73).
    """

    id: str
    store: SessionStore
    listeners: Listeners = field(default_factory=Listeners)
    inbox: Inbox = field(default_factory=Inbox)
    messages: list[Message] = field(default_factory=list[Message])
    usage: Usage = field(default_factory=Usage)
    text: str = ""
    closed: bool = False
    reported_status: Status = "idle"
    prompt_tokens: int = 0
    rules: tuple[str, ...] | None = None
    undelivered: list[str] = field(default_factory=list[str])

    def hand_back_messages(self) -> tuple[str, ...]:
        """Remove every message from the inbox that will get no answer; return the texts."""
        texts = self.inbox.clear()
        self.undelivered.extend(texts)
        return texts

    async def report_idle(
        self, emit: Callable[[Event], Awaitable[None]], undelivered: tuple[str, ...] = ()
    ) -> None:
        """Report that the session is idle, unless messages sent in the meantime start a run at once.

        `undelivered` was already handed back and is reported in any case.
        """
        while undelivered or self.closed or not self.inbox:
            if self.closed:
                undelivered += self.hand_back_messages()
            self.reported_status = "idle"
            await emit(StatusEvent(status="idle", undelivered=undelivered))
            undelivered = ()
            if not (self.closed and self.inbox):
                return
