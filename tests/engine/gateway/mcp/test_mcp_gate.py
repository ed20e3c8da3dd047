"""The traffic between an MCP client and its server: all other bytes pass, and no disguised call does."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from mcp.types.jsonrpc import jsonrpc_message_adapter
from pydantic import ValidationError

from interlock.engine.gateway.mcp.gate import Ask, McpGate, Settle, ToClient, ToServer, Withdraw
from interlock.engine.gateway.mcp.results import LONGEST, read_outcome
from interlock.engine.gateway.mcp.stdio import Lines

CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}'


def line(**message: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def refusal(gate: McpGate, sent: bytes) -> dict[str, Any]:
    """Return the error with which a line is refused; no part of the line passes."""
    [step] = gate.handle_client(sent)
    assert isinstance(step, ToClient)
    return json.loads(step.line)


# Known behaviour of lenient readers of JSON lines


def _lenient(text: str) -> Iterator[object]:
    """Yield the readings of lenient readers: the first or last of two keys, NaN, keys of any case."""
    for pick in (dict, lambda pairs: dict(reversed(pairs))):
        try:
            yield json.loads(text, object_pairs_hook=pick)
            yield json.loads(text, object_pairs_hook=lambda pairs: pick(_folded(pairs)))  # noqa: B023
        except (ValueError, RecursionError):
            continue


def _folded(pairs: list[tuple[str, object]]) -> list[tuple[str, object]]:
    return [(key.casefold().split("\0")[0].strip("\u200b\ufeff "), value) for key, value in pairs]


def _is_call(found: object) -> bool:
    if isinstance(found, list):
        return any(map(_is_call, found))
    method = found.get("method") if isinstance(found, dict) else None
    return isinstance(method, str) and method.split("\0")[0].strip().casefold() == "tools/call"


def calls_in(sent: bytes) -> bool:
    """Return true if one of these readers finds a tool call."""
    text = sent.decode("utf-8", "replace")
    node = re.split(r"\r\n|[\n\r\u2028\u2029]", text)
    python = io.TextIOWrapper(io.BytesIO(sent), encoding="utf-8", errors="replace").read().split("\n")
    for part in {text, *text.splitlines(), *node, *python}:
        if any(map(_is_call, _lenient(part))):
            return True
        try:
            message = jsonrpc_message_adapter.validate_json(part, by_name=False)
        except ValidationError:
            continue
        if getattr(message, "method", None) == "tools/call":
            return True
    return False


class TestPassing:
    @pytest.mark.parametrize(
        "sent",
        [
            b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a://b"}}\n',
            b'  {"params" : {"x":1.0e2, "y":"\\u00e9\xc3\xa9\xe2\x80\xa8"},"method":"x/y"}\r\n',
            b'{"jsonrpc":"2.0","id":"s1","result":{"content":[]}}\n',
            b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}\n',
            b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"n"}]\n',
            b'{"future":true}\n',
            b"\n",
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}\n',
        ],
    )
    def test_non_call_passes_byte_for_byte(self, sent: bytes) -> None:
        """A message that is no call passes byte for byte."""
        assert McpGate().handle_client(sent) == (ToServer(sent),)

    @pytest.mark.parametrize(
        "sent", [b"no JSON\n", b"\xff\n", b'{"id":1}', b"[" * 100_000 + b"\n", b"{}\n"]
    )
    def test_every_server_line_passes(self, sent: bytes) -> None:
        """Every line of the server passes, also if it is not understood."""
        assert McpGate().handle_server(sent).line == sent

    def test_client_and_server_names_are_read(self) -> None:
        """The names of client and server are read in both versions of the protocol."""
        gate = McpGate()
        gate.handle_client(line(id=0, method="initialize", params={"clientInfo": {"name": "claude"}}))
        gate.handle_server(line(id=0, result={"serverInfo": {"name": "shop"}}))
        assert (gate.client, gate.server) == ("claude", "shop")
        newer, key = McpGate(), "io.modelcontextprotocol/"
        meta = {key + "clientInfo": {"name": "claude"}}
        newer.handle_client(line(id=0, method="server/discover", params={"_meta": meta}))
        newer.handle_server(line(id=0, result={"_meta": {key + "serverInfo": {"name": "shop"}}}))
        assert (newer.client, newer.server) == ("claude", "shop")


class TestCalls:
    def test_call_is_submitted_under_prefixed_name(self) -> None:
        """A call is submitted under its prefixed name, and its other fields stay."""
        gate = McpGate(prefix="shop_", new_id=lambda: "g1")
        given = {"name": "rm", "arguments": {"a": 1}, "_meta": {"progressToken": 3}, "extra": [1]}
        [step] = gate.handle_client(line(id="x", method="tools/call", params=given, more=1))
        assert isinstance(step, Ask)
        call = step.call
        assert (call.gate_id, call.tool, call.input, call.token) == ("g1", "shop_rm", {"a": 1}, 3)
        assert json.loads(gate.allowed_line(call, {"a": 2})) == {
            "jsonrpc": "2.0",
            "id": "x",
            "method": "tools/call",
            "params": {**given, "arguments": {"a": 2}},
            "more": 1,
        }

    def test_cancelled_call_is_settled_once(self) -> None:
        """A call that is cancelled while it runs is settled once; its later answer settles nothing."""
        gate = McpGate()
        [asked] = gate.handle_client(CALL.encode())
        assert isinstance(asked, Ask)
        gate.allowed_line(asked.call, {})
        cancel = line(method="notifications/cancelled", params={"requestId": 1})
        [settled, passed] = gate.handle_client(cancel)
        assert isinstance(settled, Settle)
        assert settled.outcome.is_error
        assert passed == ToServer(cancel)
        assert gate.handle_server(line(id=1, result={"content": []})).settled == ()

    def test_call_without_arguments_has_empty_input(self) -> None:
        """A call without arguments has an empty input and passes unchanged."""
        gate = McpGate()
        [step] = gate.handle_client(CALL.encode())
        assert isinstance(step, Ask)
        assert step.call.input == {}
        assert json.loads(gate.allowed_line(step.call, {})) == json.loads(CALL)

    def test_blocked_call_gets_a_result_with_reason(self) -> None:
        """A blocked call gets a result with the reason, marked as complete in the newer protocol."""
        gate = McpGate()
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        [step] = gate.handle_client(line(id=1, method="tools/call", params={"name": "rm", "_meta": meta}))
        assert isinstance(step, Ask)
        content = [{"type": "text", "text": "no"}]
        result = {"content": content, "isError": True, "resultType": "complete"}
        assert json.loads(gate.refusal_line(step.call, "no")) == {
            "jsonrpc": "2.0",
            "id": 1,
            "result": result,
        }

    @pytest.mark.parametrize(
        "params",
        [
            None,
            [],
            {},
            {"name": 1},
            {"name": ""},
            {"name": "a\0b"},
            {"name": "a", "arguments": []},
            {"name": "a", "Name": "b"},
            {"name": "a", "Argument\u017f": {}},
        ],
    )
    def test_malformed_call_is_refused_under_its_id(self, params: object) -> None:
        """A malformed call is refused under its id."""
        found = refusal(McpGate(), line(id=7, method="tools/call", params=params))
        assert found["id"] == 7
        assert "error" in found


class TestDisguises:
    @pytest.mark.parametrize(
        "sent",
        [
            '{"jsonrpc":"2.0","method":"tools/call","params":{"name":"rm"}}',
            CALL.replace('"id":1', '"id":null'),
            CALL.replace('"id":1', '"id":1.5'),
            CALL.replace('"id":1', '"id":true'),
            CALL.replace('"id":1', '"id":[1]'),
            '{"method":"ping",' + CALL[1:],
            CALL[:-1] + ',"method":"ping"}',
            CALL.replace('"method"', '"Method"'),
            CALL.replace('"method"', '"\\u006dETHOD"'),
            CALL.replace('"method"', '"method\\u0000"'),
            CALL.replace('"method"', '"me\\u200bthod"'),
            CALL.replace('"params"', '"param\u017f"'),
            CALL.replace("tools/call", "Tools/Call"),
            CALL.replace("tools/call", "tools/call "),
            CALL.replace("tools/call", "tools/call\\u0000x"),
            CALL.replace("tools/call", "\uff54ools/call"),
            CALL[:-1] + ',"result":{}}',
            CALL.replace('"rm"', '"read","name":"rm"'),
            CALL.replace('"name"', '"arguments":{"a":1,"a":2},"name"'),
            CALL.replace('"name"', '"arguments":{"a":NaN},"name"'),
            CALL.replace('"name"', '"arguments":{"a":1e999},"name"'),
            f"[{CALL}]",
            f'[{{"jsonrpc":"2.0","id":2,"method":"ping"}},{CALL}]',
            f"[[{CALL}]]",
            f'{{"method":"ping","params":\r{CALL}\r}}',
            f"[\r{CALL}\r]",
            f"\ufeff{CALL}",
            f"{CALL}{CALL}",
            f"Content-Length: {len(CALL)}\r\n\r\n{CALL}",
            f"\x1e{CALL}",
            f"/* */{CALL}",
            '{"method":["tools/call"]}',
            '"tools/call"',
        ],
    )
    def test_possible_call_is_refused(self, sent: str) -> None:
        """A line that some reader could take for a call is refused unless it is a well-formed call."""
        found = refusal(McpGate(), sent.encode() + b"\n")
        errors = found if isinstance(found, list) else [found]
        assert all(
            each["error"]["message"].startswith("Interlock did not pass this on") for each in errors
        )

    @pytest.mark.parametrize("sent", [b"[" * 100_000, CALL.replace("rm", "\xff").encode("latin-1")])
    def test_too_deep_or_non_utf8_line_is_refused(self, sent: bytes) -> None:
        """A line that is too deep or no UTF-8 is refused."""
        assert "error" in refusal(McpGate(), sent)

    def test_escaped_method_name_is_recognized(self) -> None:
        """Escapes in the method's name do not hide a call."""
        for spelled in ("tools\\/call", "\\u0074ools/c\\u0061ll"):
            [step] = McpGate().handle_client(CALL.replace("tools/call", spelled).encode())
            assert isinstance(step, Ask)

    def test_refused_batch_has_no_effects(self) -> None:
        """A refused batch uses no id and cancels no call."""
        gate = McpGate()
        [asked] = gate.handle_client(CALL.encode())
        assert isinstance(asked, Ask)
        cancel = '{"method":"notifications/cancelled","params":{"requestId":1}}'
        ping = '{"id":2,"method":"ping"}'
        refusal(gate, f"[{ping},{cancel},{ping}]".encode())
        assert isinstance(gate.handle_client(ping.encode())[0], ToServer)
        [withdrawn, passed] = gate.handle_client(f"[{cancel}]".encode())
        assert isinstance(withdrawn, Withdraw)
        assert withdrawn.call is asked.call
        assert isinstance(passed, ToServer)


KEYS = ["jsonrpc", "id", "method", "Method", "METHOD", "params", "name", "x", "method\0", "re\u017fult"]
TEXTS = ["tools/call", "Tools/call", "ping", "notifications/cancelled", "tools/call\0", "", "\u2028", "{"]
SCALARS = st.one_of(
    st.sampled_from(TEXTS), st.integers(-1, 3), st.none(), st.booleans(), st.floats(), st.text(max_size=5)
)


def _written(draw: st.DrawFn, depth: int) -> str:
    """Return JSON with repeated keys, unusual blanks and messages inside other messages."""
    blank = draw(st.sampled_from(["", "", "", " ", "\r", "\t", "\u2028"]))
    kind = draw(st.integers(0, 5 if depth else 1))
    if kind <= 1:
        return blank + json.dumps(draw(SCALARS), ensure_ascii=draw(st.booleans()))
    if kind == 2:
        return f"{blank}[{','.join(_written(draw, depth - 1) for _ in range(draw(st.integers(0, 2))))}]"
    if kind == 3:
        return blank + CALL + blank
    pairs = [
        f"{blank}{json.dumps(draw(st.sampled_from(KEYS)))}:{_written(draw, depth - 1)}"
        for _ in range(draw(st.integers(0, 4)))
    ]
    return f"{{{','.join(pairs)}{blank}}}"


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    return _written(draw, 3).encode("utf-8", "surrogatepass").replace(b"\n", b" ") + b"\n"


class TestNothingSlipsThrough:
    @given(frames())
    @example(f'{{"method":"x","params":{CALL}}}\n'.encode())
    def test_passed_line_is_unchanged_and_no_call(self, sent: bytes) -> None:
        """A passed line is unchanged, and no reader finds a tool call in it."""
        gate = McpGate()
        for step in gate.handle_client(sent):
            if isinstance(step, ToServer):
                assert step.line == sent
                assert not calls_in(sent)

    @given(st.binary(max_size=200), st.integers(1, 50))
    def test_any_chunks_yield_the_sent_lines(self, sent: bytes, size: int) -> None:
        """Chunks of any size yield the sent lines; a line that is too long is reported once."""
        for longest in (None, 20):
            lines, found = Lines(longest), list[bytes | None]()
            for start in range(0, len(sent), size):
                found += lines.feed(sent[start : start + size])
            found += lines.end()
            expected = re.findall(rb"[^\n]*\n|[^\n]+$", sent)
            assert found == [x if longest is None or len(x) <= longest else None for x in expected]


IDS = st.sampled_from([1, 2, "1", "a"])


class Conversation(RuleBasedStateMachine):
    """Any order of requests, cancellations, answers and decisions."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = McpGate()
        self.waiting: list[Any] = []
        self.made: list[Any] = []
        self.settled: list[Any] = []

    def take(self, sent: bytes) -> None:
        for step in self.gate.handle_client(sent):
            match step:
                case Ask(call):
                    self.waiting.append(call)
                case Withdraw(call):
                    self.waiting.remove(call)
                case ToServer(line=passed):
                    assert passed == sent
                    assert not calls_in(passed)
                case _:
                    if hasattr(step, "outcome"):
                        self.settled.append(step.call)

    @rule(request_id=IDS, name=st.sampled_from(["a", "b"]))
    def call(self, request_id: int | str, name: str) -> None:
        self.take(line(id=request_id, method="tools/call", params={"name": name}))

    @rule(request_id=IDS)
    def other(self, request_id: int | str) -> None:
        self.take(line(id=request_id, method="ping"))

    @rule(request_id=IDS)
    def cancel(self, request_id: int | str) -> None:
        self.take(line(method="notifications/cancelled", params={"requestId": request_id}))

    @rule(data=st.data(), allow=st.booleans())
    def decide(self, data: st.DataObject, allow: bool) -> None:
        if self.waiting:
            call = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
            if allow:
                assert json.loads(self.gate.allowed_line(call, {}))["id"] == call.id
                self.made.append(call)
            else:
                self.gate.refusal_line(call, "no")

    @rule(request_id=IDS)
    def answer(self, request_id: int | str) -> None:
        found = self.gate.handle_server(line(id=request_id, result={"content": []}))
        waits = [
            each for each in self.waiting if (type(each.id), each.id) == (type(request_id), request_id)
        ]
        assert (found.line is None) == bool(waits)
        self.settled += [each.call for each in found.settled]

    @invariant()
    def check_only_made_calls_settle_once(self) -> None:
        assert len({id(each) for each in self.settled}) == len(self.settled)
        assert all(any(each is made for made in self.made) for each in self.settled)
        open_ones = {id(each) for each in self.made} - {id(each) for each in self.settled}
        assert {id(each) for each in self.gate.unsettled_calls()} == open_ones

    @invariant()
    def one_request_of_an_id(self) -> None:
        ids = [(type(each.id), each.id) for each in self.waiting]
        assert len(set(ids)) == len(ids)


TestConversation = Conversation.TestCase


class TestOutcomes:
    def test_recorded_text_is_what_a_model_reads(self) -> None:
        """The recorded text is the text that a model reads; other content is named."""
        content = [
            {"type": "text", "text": "a"},
            {"type": "image", "mimeType": "image/png", "data": "xxxx"},
            {"type": "resource", "resource": {"uri": "a://b", "text": "inner"}},
            {"type": "resource_link", "uri": "a://c"},
            5,
        ]
        found = read_outcome({"result": {"content": content}})
        assert found.output.split("\n") == [
            "a",
            "[image, image/png, 4 characters of base64]",
            "inner",
            "[resource_link, a://c]",
            "[invalid content]",
        ]
        assert not found.is_error
        assert read_outcome({"result": {"structuredContent": {"a": 1}}}).output == '{"a": 1}'

    def test_long_result_is_cut(self) -> None:
        """A long result is cut with the number of removed characters, and lone surrogates do no harm."""
        found = read_outcome(
            {"result": {"content": [{"type": "text", "text": "\ud800" * (LONGEST + 5)}]}}
        )
        assert found.output.endswith("… (5 more characters)")
        found.output.encode()
