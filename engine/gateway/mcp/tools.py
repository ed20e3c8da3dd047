"""Tools that an MCP server lists, with their hints; calls of other names are refused (G-66). No I/O.

Rules use the names that a server lists. A server that is lenient about names could run a listed tool
under a spelling that no rule has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, cast
from uuid import uuid4

from pydantic import JsonValue

from ...core.hints import Hint, Hints, claimed_hints, differing_hints
from ...core.json_values import RepeatedKeyError, unique
from .frames import line_of
from .results import is_object

MOST_PAGES: Final = 1_000
"""Maximum number of pages of a list; a longer list counts as endless."""
_METHOD: Final = "tools/list"
_CHANGED: Final = "notifications/tools/list_changed"
_LONGEST: Final = 200


class ToolNames:
    """Tool names from lists that the proxy requests itself.

    `fault` is the reason why the last list is incomplete; names of an incomplete list do not count.
    """

    def __init__(self, new_id: Callable[[], str] = lambda: uuid4().hex) -> None:
        self.fault: str | None = None
        self._prefix: Final = f"interlock-tools-{new_id()}-"
        self._names: frozenset[str] = frozenset()
        self._hints: dict[str, dict[Hint, bool]] = {}
        self._listed_hints: dict[str, dict[Hint, bool]] = {}
        self._meta: Mapping[str, JsonValue] = {}
        self._requests = self._pages = 0
        self._pending: str | None = None
        self._outdated = False

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def hints(self, name: str) -> Hints:
        """Claims of the server about a tool in its last complete list."""
        return self._hints.get(name, {})

    def request(self, meta: Mapping[str, JsonValue]) -> bytes:
        """Return the request for the first page of a new list, with the client's own `_meta`, if any."""
        self._listed_hints, self._pages, self._meta = {}, 0, meta
        self.fault, self._outdated = None, False
        return self._page(None)

    def _page(self, cursor: str | None) -> bytes:
        self._requests += 1
        self._pages += 1
        self._pending = f"{self._prefix}{self._requests}"
        params: dict[str, JsonValue] = {} if cursor is None else {"cursor": cursor}
        if self._meta:
            params["_meta"] = dict(self._meta)
        return line_of({"jsonrpc": "2.0", "id": self._pending, "method": _METHOD, "params": params})

    def is_answer(self, line: bytes) -> bool:
        """Return whether a line of the server answers a request of this object, current or not."""
        if self._prefix.encode() not in line:
            return False
        message = _read(line)
        request_id = message.get("id") if is_object(message) and "method" not in message else None
        return isinstance(request_id, str) and request_id.startswith(self._prefix)

    def take(self, line: bytes) -> tuple[bytes | None, bool]:
        """Process an answer. Returns the next request, and whether the list has ended.

        An error or an invalid list ends it with a fault. A list that changed in the meantime is requested
        again.
        """
        message = _read(line)
        if not is_object(message) or message.get("id") != self._pending:
            return None, False
        self._pending = None
        try:
            json.loads(line, object_pairs_hook=unique)
        except RepeatedKeyError as error:
            self._end(f"answered tools/list with an ambiguous message: {error}")
            return None, True
        result = message.get("result")
        tool_list = result.get("tools") if is_object(result) else None
        if not is_object(result) or not isinstance(tool_list, list):
            self._end(f"answered tools/list with {_answer_text(message)}")
            return None, True
        for tool in tool_list:
            name = tool.get("name") if is_object(tool) else None
            if is_object(tool) and isinstance(name, str):
                self._find(name, claimed_hints(tool.get("annotations")))
        cursor = result.get("nextCursor")
        if self._outdated:
            return self.request(self._meta), False
        if isinstance(cursor, str):
            if self._pages < MOST_PAGES:
                return self._page(cursor), False
            self._end(f"answered tools/list with more than {MOST_PAGES} pages")
            return None, True
        self._names, self._hints = frozenset(self._listed_hints), self._listed_hints
        return None, True

    def _find(self, name: str, hints: dict[Hint, bool]) -> None:
        """Add a tool of the list; if it is listed twice, keep only the claims that both entries share."""
        listed_hints = self._listed_hints.setdefault(name, hints)
        for differing in differing_hints({**listed_hints}, hints):
            listed_hints.pop(differing, None)

    def note_late(self, seconds: float) -> None:
        """Note that no complete list arrived in time; one that arrives later is still used."""
        self.fault = f"did not answer tools/list within {seconds:g} s"

    def _end(self, fault: str) -> None:
        self.fault, self._names = fault, frozenset()

    def note(self, line: bytes) -> None:
        """Forget the list if a line of the server says that it has changed."""
        if b"list_changed" in line:
            document = _read(line)
            messages = document if isinstance(document, list) else [document]
            if any(is_object(each) and each.get("method") == _CHANGED for each in messages):
                self._names, self._outdated = frozenset(), True


def unlisted_reason(name: str, fault: str | None) -> str:
    """Return the reason why a call of a tool is not passed on, with the remedy."""
    tool = json.dumps(name)[:_LONGEST]
    if fault is not None:
        return (
            f"the tool {tool} was not called: the server {fault}, so it is not known whether it has this "
            "tool. Call again later, or restart this MCP server"
        )
    return (
        f"unknown tool {tool}: the server's tools/list does not name it. "
        "Call a tool by its name in that list, written exactly so"
    )


def _answer_text(answer: Mapping[str, JsonValue]) -> str:
    error = answer.get("error")
    message = error.get("message") if is_object(error) else None
    return (
        f"an error ({message[:_LONGEST]})"
        if isinstance(message, str)
        else "something other than a list of tools"
    )


def _read(line: bytes) -> JsonValue:
    try:
        return cast("JsonValue", json.loads(line))
    except (ValueError, RecursionError):
        return None
