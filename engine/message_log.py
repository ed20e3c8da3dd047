"""A recorded conversation in the shape that OpenAI's chat API has, for other programs."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import JsonValue

from .agents.compaction import prompt_of
from .agents.model import ModelRequest
from .agents.openai_wire import wire_messages
from .conversation import conversation
from .history.events import JournalEvent


def message_log(events: Iterable[JournalEvent]) -> list[JsonValue]:
    """The messages in a session's events as its model would be sent them next, without instructions.

    What was summed up stands there as its summary; the record itself has every word.
    """
    return wire_messages(ModelRequest(messages=tuple(prompt_of(conversation(events)))))
