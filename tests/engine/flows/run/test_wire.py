"""Agent nodes over litellm, with a real server on loopback."""

from __future__ import annotations

import json

import pytest

from interlock.engine.flows import AgentConfig, AgentNode, Context, Done, Flow, FlowRuntime
from tests.support.openai_server import OpenAIServer, begins_call, ends, says

from ..support.scripted import Answer, X, echo


def runtime(url: str, *tools: object) -> FlowRuntime:
    class Asked(AgentNode[X, Answer]):
        config = AgentConfig("Be brief.", url, tools)

    return FlowRuntime(Flow.of(X, Answer).agent(Asked), X())


class TestOverTheWire:
    @pytest.mark.slow
    async def test_request_without_tools_has_the_schema(self, monkeypatch) -> None:
        """P-130, P-139: without tools the request has the output's schema, strict, and no tools."""
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        with OpenAIServer([says('{"answer":', ' "42"}')]) as server:
            url = f"openai://gpt-4o?base_url={server.base_url}"
            assert await runtime(url).run(Context()) == Done(Answer(answer="42"))
        [request] = server.requests
        assert "tools" not in request.body
        assert request.body["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": '{"topic":"t"}'},
        ]
        schema = request.body["response_format"]["json_schema"]
        assert schema["strict"] is True
        assert schema["schema"]["required"] == ["answer"]
        assert schema["schema"]["additionalProperties"] is False

    async def test_request_with_tools_has_the_exit_last(self, monkeypatch) -> None:
        """P-124, P-131: with tools the request has those, and the exit as the last one."""
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        first = [begins_call(0, "c1", "echo", '{"text": "hi"}'), *ends("tool_calls")]
        second = [begins_call(0, "c2", "submit", '{"answer": "42"}'), *ends("tool_calls")]
        with OpenAIServer([first, second]) as server:
            url = f"openai://gpt-4o?base_url={server.base_url}"
            assert await runtime(url, echo).run(Context()) == Done(Answer(answer="42"))
        one, two = (request.body for request in server.requests)
        assert [tool["function"]["name"] for tool in one["tools"]] == ["echo", "submit"]
        assert "response_format" not in one
        said, result = two["messages"][-2:]
        assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"text": "hi"}
        assert result == {"role": "tool", "tool_call_id": "c1", "content": '"hi"'}
