"""Frames: the accepted input from clients, and the refused one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from interlock.engine.gateway.protocol.agent_methods import AGENT_METHODS, CallTool
from interlock.engine.gateway.protocol.console_methods import CONSOLE_METHODS
from interlock.engine.gateway.protocol.framing import (
    DEEPEST,
    LARGEST_ID,
    Code,
    Notice,
    Response,
    WireError,
    error_frame,
    notice_frame,
    read_incoming,
    read_request,
    request_frame,
    result_frame,
)

numbers = st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | numbers | st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    leaves, lambda within: st.lists(within) | st.dictionaries(st.text("abc"), within), max_leaves=20
)


def frame(**fields: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": "tool.call", "id": 7} | fields)


def refused(text: str | bytes) -> WireError:
    with pytest.raises(WireError) as found:
        read_request(text)
    return found.value


class TestRequests:
    @pytest.mark.slow
    @given(st.dictionaries(st.text("abc"), values))
    def test_sent_values_are_read_unchanged(self, sent: dict[str, object]) -> None:
        """Numbers of any size, text and nesting are read unchanged, because operators approve them."""
        got = read_request(frame(params=sent)).params
        assert json.dumps(got) == json.dumps(sent)

    @given(st.text() | st.binary())
    def test_any_input_is_read_or_raises_wire_error(self, sent: str | bytes) -> None:
        """Any invalid input raises a `WireError` and no other exception."""
        assert isinstance(refused(sent), WireError)

    def test_integer_beyond_64_bits_stays_exact(self) -> None:
        """A number that a float would round stays exact."""
        assert read_request(frame(params={"input": 10**30 + 1})).params == {"input": 10**30 + 1}

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("", Code.PARSE),
            ("{", Code.PARSE),
            ("NaN", Code.PARSE),
            ("[]", Code.REQUEST),
            ("[" * 100_000, Code.PARSE),
            ('"\\ud800"', Code.PARSE),
            (frame(params={"x": 1}).replace("1}", "1e999}"), Code.PARSE),
            (frame(params={"x": 1}).replace("1}", "[-0.1E+0310]}"), Code.PARSE),
            (frame(params={"x": 1}).replace("1}", "9" * 400 + ".0}"), Code.PARSE),
            (frame(params={"x": 1}).replace("1}", "9" * 210 + "e99}"), Code.PARSE),
            (frame(params={"x": 1}).replace("1}", "9" * 308 + ".5E+1}"), Code.PARSE),
            (frame(params={"x": 1}).replace("1}", "9" * 9999 + "}"), Code.PARSE),
            (frame(params={"x": 1}).replace("1}", "NaN}"), Code.PARSE),
            (frame(params=[1]), Code.REQUEST),
            (frame(jsonrpc="1.0"), Code.REQUEST),
            (frame(method="m" * 101), Code.REQUEST),
            (frame(method=None), Code.REQUEST),
            (frame(unknown=1), Code.REQUEST),
            (b"{}", Code.REQUEST),
        ],
    )
    def test_invalid_requests_are_refused(self, text: str | bytes, code: Code) -> None:
        """Invalid JSON, invalid requests, infinite numbers and unknown fields are refused."""
        assert refused(text).code == code

    @pytest.mark.parametrize("number", ["1e0308", "1E+100", "2.5e-999", "1" * 309, "9" * 209 + "e99"])
    def test_long_finite_number_is_accepted(self, number: str) -> None:
        """A long number is accepted if it is finite."""
        found = read_request(frame(params={"x": 1}).replace("1}", f"{number}}}")).params["x"]
        assert found == json.loads(number)

    @pytest.mark.parametrize("given_id", [True, 1.0, 1.5, [], {}, LARGEST_ID + 1, "x" * 129])
    def test_invalid_ids_are_refused(self, given_id: object) -> None:
        """An id is a text or an integer that every language can represent; `true` is refused."""
        error = refused(frame(id=given_id))
        assert (error.code, error.request_id) == (Code.REQUEST, None)

    def test_refusal_contains_the_request_id(self) -> None:
        """The error contains the id of the refused request."""
        error = refused(frame(params=[]))
        assert json.loads(error_frame(error.request_id, error))["id"] == 7

    def test_depth_is_bounded(self) -> None:
        """The depth of a frame is bounded; brackets in texts do not count."""

        def nested(levels: int) -> str:
            return frame(params={"x": 0}).replace("0}", "[" * levels + "]" * levels + "}")

        assert read_request(nested(DEEPEST - 2))
        assert "levels" in str(refused(nested(DEEPEST)))
        assert read_request(frame(params={"x": "[{" * 500}))

    @pytest.mark.parametrize(
        "text",
        [
            frame(params={}).replace('"id": 7', '"id": 7, "id": 7'),
            frame(params={"session": "s", "tool": "ls"}).replace('"tool"', '"tool": "rm", "tool"'),
            frame(params={"input": {"a:b": "c:d", "tool": 1}}).replace(
                '"tool"', r'"t\u006fol": 2, "tool"'
            ),
            frame(params={"input": [{"x": 1}, {"tool": 1.5}]}).replace('"tool"', '"tool": 1e3, "tool"'),
        ],
    )
    def test_repeated_key_is_refused(self, text: str) -> None:
        """A repeated key is refused with its name, because two readers could read different inputs."""
        error = refused(text)
        assert (error.code, error.request_id) == (Code.PARSE, 7)
        assert '"tool"' in str(error) or '"id"' in str(error)
        assert "occurs twice" in str(error)

    def test_colons_in_texts_are_read_unchanged(self) -> None:
        """Texts and keys with colons and numbers of any size are read unchanged."""
        sent = {"url": "http://h:1/", '"a": "b"': [{"a": ":", "b": {"a": 10**4200}}], "a": {}}
        assert read_request(frame(params=sent)).params == sent

    def test_error_does_not_show_the_value(self) -> None:
        """An error names the faulty field, but not its value, which may be secret."""
        error = refused(frame(params="ilk_agent_secret"))
        assert "params" in str(error)
        assert "secret" not in str(error)


class TestAnswers:
    def test_round_trip(self) -> None:
        """Each side reads the frames that the other writes."""
        asked = CallTool(session="s", call="c", tool="bash", input={"x": 10**30})
        assert read_request(request_frame("tool.call", asked, 3).decode()).params["input"] == {
            "x": 10**30
        }
        answered = read_incoming(result_frame(3, asked))
        assert isinstance(answered, Response)
        assert answered.id == 3
        failed = read_incoming(error_frame(None, WireError(Code.LIMIT, "too much", {"limit": 3})))
        assert isinstance(failed, Response)
        assert failed.error is not None
        assert failed.error.data == {"limit": 3}
        assert isinstance(read_incoming(notice_frame("said", asked)), Notice)

    def test_recorded_inputs_may_be_deep_or_infinite(self) -> None:
        """Recorded inputs of the server's own agents may be deeper than a request, or infinite."""

        class Said(BaseModel):
            x: object

        deep: object = 0
        for _ in range(220):
            deep = [deep]
        text = '{"jsonrpc":"2.0","method":"m","params":{"x":%s}}'
        assert isinstance(read_incoming(text % json.dumps(deep)), Notice)
        assert isinstance(read_incoming(text % "Infinity"), Notice)

    def test_lone_surrogate_in_error_is_replaced(self) -> None:
        """A lone surrogate in an error message is replaced, and the message is sent."""
        assert json.loads(error_frame(1, WireError(Code.REFUSED, "a\udcff")))["error"]["message"] == "a?"


@pytest.mark.parametrize(
    ("method", "field", "others"),
    [
        ("approval.decide", "approved", {"approval_id": "a1", "digest": "d" * 64}),
        ("net.toggle", "active", {"session": "s1", "net": "n"}),
        ("tool.result", "is_error", {"session": "s1", "call": "c1", "output": ""}),
    ],
)
@pytest.mark.parametrize("value", ["true", "false", 1, 0, "on"])
def test_boolean_field_accepts_only_booleans(
    method: str, field: str, others: dict[str, object], value: object
) -> None:
    """A boolean field accepts only `true` and `false`."""
    methods = {each.name: each for each in (*CONSOLE_METHODS, *AGENT_METHODS)}
    params = methods[method].params
    assert params.model_validate({**others, field: True})
    with pytest.raises(ValidationError, match="valid boolean"):
        params.model_validate({**others, field: value})
