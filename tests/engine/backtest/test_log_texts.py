"""G-86: logs of other programs, under rules about the source of a value."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.backtest import RecordedText, conversations

from .recorder import changes, judged

RULES = "block send when input.recipient not from user, get_contacts"
SAID = "Pay ada@x.org, please"

Message = dict[str, Any]


class Chat:
    """OpenAI's chat messages."""

    def user(self, text: str) -> list[Message]:
        return [{"role": "user", "content": text}]

    def call(self, call_id: str, tool: str, given: object) -> list[Message]:
        function = {"name": tool, "arguments": json.dumps(given)}
        return [{"role": "assistant", "tool_calls": [{"id": call_id, "function": function}]}]

    def result(self, call_id: str, tool: str, text: str, *, failed: bool = False) -> list[Message]:
        marked = {"is_error": True} if failed else {}
        return [{"role": "tool", "tool_call_id": call_id, "content": text, **marked}]


class ChatParts(Chat):
    """The same with content in parts."""

    def user(self, text: str) -> list[Message]:
        image = {"type": "image_url", "image_url": {"url": "https://x.org/eve@x.org"}}
        return [{"role": "user", "content": [{"type": "text", "text": text}, image]}]

    def result(self, call_id: str, tool: str, text: str, *, failed: bool = False) -> list[Message]:
        [message] = super().result(call_id, tool, text, failed=failed)
        return [{**message, "content": [{"type": "text", "text": text}]}]


class Responses:
    """Items of OpenAI's Responses API."""

    def user(self, text: str) -> list[Message]:
        content = [{"type": "input_text", "text": text}]
        return [{"type": "message", "role": "user", "content": content}]

    def call(self, call_id: str, tool: str, given: object) -> list[Message]:
        arguments = json.dumps(given)
        return [{"type": "function_call", "call_id": call_id, "name": tool, "arguments": arguments}]

    def result(self, call_id: str, tool: str, text: str, *, failed: bool = False) -> list[Message]:
        status = "incomplete" if failed else "completed"
        return [{"type": "function_call_output", "call_id": call_id, "output": text, "status": status}]


class ResponsesParts(Responses):
    """The same with outputs in parts."""

    def result(self, call_id: str, tool: str, text: str, *, failed: bool = False) -> list[Message]:
        [item] = super().result(call_id, tool, text, failed=failed)
        return [{**item, "output": [{"type": "input_text", "text": text}]}]


class Mcp(Responses):
    """Tools of MCP servers: each call is one item with its result."""

    def call(self, call_id: str, tool: str, given: object) -> list[Message]:
        if tool == "send":
            return super().call(call_id, tool, given)
        return []

    def result(self, call_id: str, tool: str, text: str, *, failed: bool = False) -> list[Message]:
        end = {"error": text} if failed else {"output": text, "error": None}
        return [{"type": "mcp_call", "id": call_id, "name": tool, "arguments": "{}", **end}]


class Vercel:
    """The AI SDK's messages for models."""

    def user(self, text: str) -> list[Message]:
        return [{"role": "user", "content": [{"type": "text", "text": text}]}]

    def call(self, call_id: str, tool: str, given: object) -> list[Message]:
        part = {"type": "tool-call", "toolCallId": call_id, "toolName": tool, "input": given}
        return [{"role": "assistant", "content": [part]}]

    def result(self, call_id: str, tool: str, text: str, *, failed: bool = False) -> list[Message]:
        output = {"type": "error-text" if failed else "text", "value": text}
        return self._part(call_id, tool, output=output)

    def _part(self, call_id: str, tool: str, **fields: object) -> list[Message]:
        part = {"type": "tool-result", "toolCallId": call_id, "toolName": tool, **fields}
        return [{"role": "tool", "content": [part]}]


class VercelJson(Vercel):
    """The same with objects for results."""

    def result(self, call_id: str, tool: str, text: str, *, failed: bool = False) -> list[Message]:
        output = {"type": "error-json" if failed else "json", "value": {"found": [text]}}
        return self._part(call_id, tool, output=output)


class OlderVercel(Vercel):
    """The same under the names of version 4."""

    def user(self, text: str) -> list[Message]:
        return [{"role": "user", "content": text}]

    def result(self, call_id: str, tool: str, text: str, *, failed: bool = False) -> list[Message]:
        return self._part(call_id, tool, result=text, **({"isError": True} if failed else {}))


class UserInterface:
    """Vercel's user interfaces: a call and its result are one part."""

    def user(self, text: str) -> list[Message]:
        return [{"role": "user", "parts": [{"type": "text", "text": text}]}]

    def call(self, call_id: str, tool: str, given: object) -> list[Message]:
        if tool != "send":
            return []
        part = {"type": "tool-send", "toolCallId": call_id, "state": "input-available", "input": given}
        return [{"role": "assistant", "parts": [part]}]

    def result(self, call_id: str, tool: str, text: str, *, failed: bool = False) -> list[Message]:
        end = {"state": "output-error", "errorText": text, "output": text}
        part = end if failed else {"state": "output-available", "output": text}
        return [self._message({"type": f"tool-{tool}", "toolCallId": call_id, "input": {}, **part})]

    def _message(self, part: Message) -> Message:
        return {"role": "assistant", "parts": [{"type": "step-start"}, part]}


class OlderUserInterface(UserInterface):
    """The same with calls beside the text."""

    def user(self, text: str) -> list[Message]:
        return [{"role": "user", "content": text}]

    def result(self, call_id: str, tool: str, text: str, *, failed: bool = False) -> list[Message]:
        if failed:
            return super().result(call_id, tool, text, failed=True)
        end = {"toolCallId": call_id, "toolName": tool, "args": {}, "state": "result", "result": text}
        return [{"role": "assistant", "content": "", "toolInvocations": [end]}]


FORMATS = [
    Chat,
    ChatParts,
    Responses,
    ResponsesParts,
    Mcp,
    Vercel,
    VercelJson,
    OlderVercel,
    UserInterface,
    OlderUserInterface,
]


def outcomes(path: Path, value: object, rules: str = RULES) -> list[str]:
    """Return the outcomes of the calls to send in the file's only conversation, in order."""
    path.write_text(json.dumps(value))
    [recording] = conversations(path, texts=True)
    found = judged(rules, recording.items)
    return [j.now.outcome for j in found if j.call.tool == "send"]


@pytest.mark.parametrize("make", FORMATS, ids=lambda made: made.__name__)
class TestFormats:
    """All supported formats."""

    def test_messages_and_results_count_when_they_occur(
        self, tmp_path: Path, make: Callable[[], Chat]
    ) -> None:
        """User messages and results of a named tool count from the moment they occur."""
        log = make()

        def send(call_id: str, to: str) -> list[Message]:
            return log.call(call_id, "send", {"recipient": to})

        value = [
            *send("s1", "ada@x.org"),
            *log.user(SAID),
            *send("s2", "ada@x.org"),
            *send("s3", "bob@x.org"),
            *log.call("c1", "get_contacts", {}),
            *log.result("c1", "get_contacts", "bob@x.org, carl@x.org"),
            *send("s4", "bob@x.org"),
        ]
        assert outcomes(tmp_path / "log.json", value) == ["block", "allow", "block", "allow"]

    def test_other_tools_and_errors_do_not_count(self, tmp_path: Path, make: Callable[[], Chat]) -> None:
        """Results of other tools and of failed calls do not count."""
        log = make()
        value = [
            *log.user(SAID),
            *log.call("c1", "read_web", {}),
            *log.result("c1", "read_web", "eve@x.org"),
            *log.call("c2", "get_contacts", {}),
            *log.result("c2", "get_contacts", "dan@x.org", failed=True),
            *log.call("s1", "send", {"recipient": "eve@x.org"}),
            *log.call("s2", "send", {"recipient": "dan@x.org"}),
            *log.call("s3", "send", {"recipient": ["ada@x.org"]}),
        ]
        path = tmp_path / "log.json"
        assert outcomes(path, value) == ["block", "block", "allow"]
        allowed = "block send when input.recipient not from read_web"
        assert outcomes(path, value, allowed) == ["allow", "block", "block"]


class TestWrappers:
    """Values that contain a conversation."""

    def test_an_input_that_is_a_text(self, tmp_path: Path) -> None:
        """The input of a Responses request may be a text, also in a batch."""
        call = Responses().call("c1", "send", {"recipient": "ada@x.org"})
        path = tmp_path / "log.json"
        assert outcomes(path, {"input": SAID, "output": call}) == ["allow"]
        assert outcomes(path, {"input": "go", "output": call}) == ["block"]
        assert outcomes(path, {"body": {"input": SAID, "output": call}}) == ["allow"]

    def test_system_and_model_messages_do_not_count(self, tmp_path: Path) -> None:
        """System prompts and model messages do not count as the user's words."""
        call = Chat().call("c1", "send", {"recipient": "ada@x.org"})
        said = [{"role": role, "content": SAID} for role in ("system", "developer", "assistant")]
        assert outcomes(tmp_path / "log.json", [*said, *call]) == ["block"]

    def test_unmatched_results_are_ignored(self, tmp_path: Path) -> None:
        """G-62: a result without a call, or one that names another tool than its call, is ignored."""
        log, send = Chat(), Chat().call("s", "send", {"recipient": "ada@x.org"})
        stray = log.result("c9", "get_contacts", SAID)
        asked = log.call("c1", "read_web", {})
        other = [{**log.result("c1", "", SAID)[0], "name": "get_contacts"}]
        path = tmp_path / "log.json"
        assert outcomes(path, [*stray, *send]) == ["block"]
        assert outcomes(path, [*asked, *other, *send]) == ["block"]

    def test_texts_are_not_concatenated(self, tmp_path: Path) -> None:
        """Two texts of one result are not concatenated into a value."""
        log, send = Chat(), Chat().call("s", "send", {"recipient": "ada@x.org"})
        parts = [{"type": "text", "text": text} for text in ("ada@x", ".org")]
        result = {**log.result("c1", "", "")[0], "content": parts}
        value = [*log.call("c1", "get_contacts", {}), result, *send]
        assert outcomes(tmp_path / "log.json", value) == ["block"]

    def test_texts_are_read_only_if_needed(self, tmp_path: Path) -> None:
        """Texts and outputs are read only if a rule needs them."""
        log = Chat()
        value = [*log.user(SAID), *log.call("c1", "rm", {}), *log.result("c1", "rm", "gone")]
        path = tmp_path / "log.json"
        path.write_text(json.dumps(value))
        [bare], [full] = conversations(path), conversations(path, texts=True)
        assert [getattr(item, "output", None) for item in bare.items] == [None, None]
        items = list(full.items)
        assert items[0] == RecordedText("user", SAID)
        assert items[2].output == "gone"  # type: ignore[union-attr]
        assert changes(judged("block rm", items)) == ["c1 blocked"]
