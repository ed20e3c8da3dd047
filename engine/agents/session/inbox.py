"""Messages that wait to join a running conversation."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal, TypeAlias

from ..messages import UserMessage

SendMode: TypeAlias = Literal["steer", "queue"]
FollowUp: TypeAlias = Literal["one", "all"]


def as_messages(text: str | UserMessage | Sequence[str], by: str | None) -> list[UserMessage]:
    """Messages of one sender, in order; at least one. Raises `ValueError` if there is none."""
    match text:
        case UserMessage():
            return [text]
        case str():
            return [UserMessage(text=text, by=by)]
        case _ if not text:
            raise ValueError("there is nothing to send")
        case _:
            return [UserMessage(text=each, by=by) for each in text]


class Inbox:
    """Two queues: steering messages join before the next model call, follow-ups after the turn (A-70)."""

    def __init__(self) -> None:
        self.steering: deque[UserMessage] = deque()
        self.follow_ups: deque[UserMessage] = deque()

    def __bool__(self) -> bool:
        return bool(self.steering or self.follow_ups)

    @property
    def messages(self) -> tuple[UserMessage, ...]:
        """Waiting messages, steering first; the same objects that were put."""
        return (*self.steering, *self.follow_ups)

    def put(self, message: UserMessage, mode: SendMode) -> None:
        """Add `message` to the queue of `mode`."""
        (self.steering if mode == "steer" else self.follow_ups).append(message)

    def next(self) -> UserMessage:
        """Remove and return the first message. Raises `IndexError` if there is none."""
        return (self.steering or self.follow_ups).popleft()

    def clear(self) -> tuple[str, ...]:
        """Empty both queues; return the waiting texts, steering first."""
        texts = tuple(message.text for message in self.messages)
        self.steering.clear()
        self.follow_ups.clear()
        return texts
