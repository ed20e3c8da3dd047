"""Message logs that other programs recorded: the conversations in a file.

A file is one JSON value, or JSON lines. An array of messages is one conversation, and so is a sequence of
lines with one message each. An object with `messages`, or an array inside the array or on a line, is a
separate conversation. So are a request to OpenAI's Responses API with its `input`, a response with its
`output`, an object with both, a response of its chat API with its `choices`, and a line of its batches.
An `input` that is text is what the user said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO, TypeAlias

from ...core.sources import USER
from ...gate.wrapping.messages import as_list, as_mapping
from ..recording import Recording
from .items import Fields, Location, is_list
from .messages import is_message, items_of

Conversation: TypeAlias = tuple[Location, list[tuple[Location, object]]]
"""Messages with their locations, and the location of the conversation."""

_LINES = (".jsonl", ".ndjson")
_EXPECTED = (
    "expected a message (an object with 'role'), a list of messages, "
    "or an object with 'messages', 'input', 'output' or 'choices'"
)


def conversations(path: Path, *, texts: bool = False) -> Iterator[Recording]:
    """Conversations of a log, one after the other. Raises `LogError`.

    Lines are read as needed, an array at once. With `texts` also what was said in them.
    """
    for place, messages in _conversations(path):
        yield Recording(place.file, items_of(messages, texts=texts), unit="message")


def _conversations(path: Path) -> Iterator[Conversation]:
    place = Location(str(path))
    try:
        with path.open(encoding="utf-8-sig") as file:
            lines = path.suffix.lower() in _LINES or _is_lines(file)
            file.seek(0)
            yield from _of_lines(file, place) if lines else _of_document(file.read(), place)
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        raise place.error(reason, "check the path and its permissions") from error
    except UnicodeDecodeError as error:
        raise place.error("is not UTF-8 text", "save the file as UTF-8") from error


def _is_lines(file: TextIO) -> bool:
    """True if the first line is a complete JSON value and others follow."""
    lines = (line for line in file if line.strip())
    try:
        json.loads(next(lines, ""))
    except (ValueError, RecursionError):
        return False
    return next(lines, None) is not None


def _of_document(text: str, place: Location) -> Iterator[Conversation]:
    value = _parsed(text, place)
    if is_message(value):
        yield place, [(place, value)]
    elif is_list(value):
        items = as_list(value)
        if not items or any(map(is_message, items)):
            yield place, [(place.at(n), item) for n, item in enumerate(items, 1)]
            return
        for number, item in enumerate(items, 1):
            yield _conversation(item, Location(f"{place.file}: conversation {number}"))
    else:
        yield _conversation(value, place)


def _of_lines(file: TextIO, place: Location) -> Iterator[Conversation]:
    messages: list[tuple[Location, object]] = []
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        here = Location(f"{place.file}:{number}")
        value = _parsed(line, here, single=True)
        if is_message(value):
            messages.append((Location(here.file, number), value))
        elif messages:
            remedy = "put messages and whole conversations into files of their own"
            raise here.error("a conversation after single messages", remedy)
        else:
            yield _conversation(value, here)
    if messages:
        yield place, messages


def _conversation(value: object, place: Location) -> Conversation:
    """The conversation in a value."""
    fields = as_mapping(value)
    fields = None if fields is None else _body(fields)
    content = value if fields is None else _in(fields)
    if not is_list(content):
        raise place.error(f"holds {_kind(value)}", _EXPECTED)
    messages = [(place.at(n), item) for n, item in enumerate(as_list(content), 1)]
    prompt = None if fields is None else fields.get("input")
    if isinstance(prompt, str):
        messages.insert(0, (place, {"role": USER, "content": prompt}))
    return place, messages


def _body(fields: Fields) -> Fields:
    """The request or response in a line of a batch; any other object itself."""
    answer = as_mapping(fields.get("response"))
    body = as_mapping((fields if answer is None else answer).get("body"))
    return fields if body is None else body


def _in(fields: Fields) -> object:
    """The messages in an object; `None` if it has none."""
    if "messages" in fields:
        return fields["messages"]
    if is_list(fields.get("choices")):
        choice = next(map(as_mapping, as_list(fields["choices"])), None)
        return [] if choice is None else [choice.get("message")]
    if is_list(fields.get("input")) or is_list(fields.get("output")):
        return [*as_list(fields.get("input")), *as_list(fields.get("output"))]
    return None


def _parsed(text: str, place: Location, *, single: bool = False) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"column {error.colno}" if single else f"line {error.lineno}, column {error.colno}"
        remedy = (
            "expected one JSON value per line" if single else "expected one JSON value, or JSON lines"
        )
        raise place.error(f"is not JSON at {where}: {error.msg}", remedy) from error
    except RecursionError as error:
        raise place.error("is nested too deeply", "is this a log of messages?") from error


def _kind(value: object) -> str:
    """Kind of a value, in JSON's terms."""
    match value:
        case dict():
            return "an object that is not a message and contains none"
        case list():
            return "a list"
        case str():
            return "a text"
        case None:
            return "null"
        case _:
            return json.dumps(value)
