"""Models through litellm, against a real server on loopback."""

from __future__ import annotations

import logging

import pytest

from interlock.engine.agents import (
    Agent,
    BashTool,
    InvalidModelUrlError,
    LitellmModel,
    ModelError,
    ToolProgress,
    ToolResultEvent,
)
from tests.support.openai_server import (
    CUT,
    Answer,
    OpenAIServer,
    Refusal,
    begins_call,
    chunk,
    ends,
    goes_on,
    says,
)

from .script import Watched, shown

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:litellm")

KEYS = (
    "OPENAI_API_KEY",
    "OPENAI_API_BASE",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's real keys."""
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)


async def talk(server: OpenAIServer, *texts: str) -> Watched:
    """A session that says `texts` to the server, one turn each."""
    model = LitellmModel("openai/gpt-x", api_base=server.base_url, max_retries=0)
    agent = Agent(model, tools=[BashTool], system_prompt="Be brief.")
    w = Watched(agent, await agent.create_session())
    for text in texts:
        await w.say(text)
    return w


def serve(*answers: Answer) -> OpenAIServer:
    return OpenAIServer(list(answers))


class TestReply:
    async def test_text(self) -> None:
        """A reply of text streams; the request carries prompt, tools and the wish for usage."""
        with serve(says("Hel", "lo")) as server:
            w = await talk(server, "Hi")
        assert w.seen == [
            'user "Hi"',
            'delta "Hel"',
            'delta "lo"',
            'assistant "Hello"',
            "step(stop,11,7)",
            'turn_end("Hello")',
        ]
        [request] = server.requests
        assert request.path == "/v1/chat/completions"
        assert request.body["model"] == "gpt-x"
        assert request.body["stream_options"] == {"include_usage": True}
        assert [m["role"] for m in request.body["messages"]] == ["system", "user"]
        assert request.body["tools"][0]["function"]["name"] == "bash"

    async def test_calls(self) -> None:
        """Several calls in pieces run, and their results go back with their ids."""
        with serve(
            [
                chunk({"content": "let me"}),
                begins_call(0, "a", "bash", '{"comm'),
                begins_call(1, "b", "bash"),
                goes_on(0, 'and": "echo one"}'),
                goes_on(1, '{"command": "echo two"}'),
                *ends("tool_calls"),
            ],
            says("done"),
        ) as server:
            w = await talk(server, "go")
        results = [(e.call_id, e.result) for e in w.events if isinstance(e, ToolResultEvent)]
        assert results == [("a", "one\n"), ("b", "two\n")]
        sent = server.requests[1].body["messages"]
        assert [c["id"] for c in sent[2]["tool_calls"]] == ["a", "b"]
        assert [(m["tool_call_id"], m["content"]) for m in sent[3:]] == [("a", "one\n"), ("b", "two\n")]

    async def test_broken_arguments(self) -> None:
        """The model can correct arguments that were no JSON."""
        with serve(
            [begins_call(0, "a", "bash", '{"command": "rm'), *ends("tool_calls")],
            [begins_call(0, "b", "bash", '{"command": "echo ok"}'), *ends("tool_calls")],
            says("done"),
        ) as server:
            w = await talk(server, "go")
        first, second = [e for e in w.events if isinstance(e, ToolResultEvent)]
        assert (first.is_error, second.result) == (True, "ok\n")
        assert not any(isinstance(e, ToolProgress) and e.call_id == "a" for e in w.events)


class TestFailure:
    async def test_connection_cut_amid_the_reply(self) -> None:
        """A-92: a cut connection is an error with the text so far, and no call of it runs."""
        with serve(
            [chunk({"content": "par"}), begins_call(0, "a", "bash", '{"command": "true"}'), CUT]
        ) as server:
            w = await talk(server)
            w.session.send("go")
            with pytest.raises(Exception, match=r"transfer|closed|complete"):
                await w.session.wait_for_idle()
        assert w.error.partial_text == "par"
        assert [shown(e) for e in w.events[:2]] == ['user "go"', 'delta "par"']
        assert await w.stored() == ['user "go"']

    async def test_refusal(self) -> None:
        """A-91: the provider's refusal is the error."""
        with serve(Refusal(401, "wrong key, sorry")) as server:
            w = await talk(server)
            w.session.send("go")
            with pytest.raises(Exception, match="wrong key, sorry"):
                await w.session.wait_for_idle()

    async def test_abort_closes_the_connection(self) -> None:
        """A-95: aborting amid a reply keeps the text and needs no more of the stream."""
        with serve([chunk({"content": str(n)}) for n in range(2000)]) as server:
            w = await talk(server)
            w.session.on("text_delta", lambda e: w.session.abort() if e.delta == "3" else None)
            await w.say("go")
        assert w.turn_end.text == "0123"
        assert w.turn_end.stop_reason == "aborted"


class TestKeys:
    @pytest.mark.parametrize(
        ("name", "variable"),
        [
            ("openai/gpt-4o", "the environment variable OPENAI_API_KEY"),
            ("openai://gpt-4o", "the environment variable OPENAI_API_KEY"),
            ("claude://claude-opus-4-5", "the environment variable ANTHROPIC_API_KEY"),
            ("gemini://gemini-2.5-flash", "the environment variable GEMINI_API_KEY or GOOGLE_API_KEY"),
            ("openai://gpt-4o?api_key_env=MY_KEY", "the environment variable MY_KEY"),
        ],
    )
    async def test_missing(self, name: str, variable: str) -> None:
        """A missing key is named before anything is sent."""
        with pytest.raises(ModelError, match=f"{variable}$"):
            LitellmModel(name).check_environment()
        agent = Agent(name)
        session = await agent.create_session()
        session.send("go")
        with pytest.raises(ModelError, match=f"{variable}$"):
            await session.wait_for_idle()

    async def test_from_its_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The key comes from the variable that the URL names."""
        monkeypatch.setenv("MY_KEY", "k-1")
        with serve(says("hi")) as server:
            url = f"openai://gpt-x?base_url={server.base_url}&api_key_env=MY_KEY"
            session = await Agent(url).create_session()
            assert await session.prompt("go") == "hi"
        assert server.requests[0].headers["authorization"] == "Bearer k-1"

    async def test_given(self) -> None:
        """A key that is given is used."""
        model = LitellmModel("openai/gpt-4o", api_key="k-2")
        model.check_environment()

    @pytest.mark.parametrize("base", ["http://127.0.0.1:1/v1", "http://localhost:1", "http://[::1]:1"])
    def test_loopback_needs_none(self, base: str) -> None:
        """A server on this machine needs no key."""
        LitellmModel("openai/gpt-x", api_base=base).check_environment()

    def test_elsewhere_needs_one(self) -> None:
        """A server elsewhere needs one, whatever its name pretends."""
        for base in ("http://localhost.example.org/v1", "http://10.0.0.1/v1"):
            with pytest.raises(ModelError, match="OPENAI_API_KEY"):
                LitellmModel("openai/gpt-x", api_base=base).check_environment()

    def test_base_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A base in the environment counts like a given one."""
        monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:1/v1")
        LitellmModel("openai/gpt-x").check_environment()
        monkeypatch.setenv("OPENAI_API_BASE", "http://example.org/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        LitellmModel("openai/gpt-x").check_environment()

    def test_local_models_need_none(self) -> None:
        """Ollama has no keys."""
        LitellmModel("ollama://localhost:11434/llama3.2").check_environment()

    def test_unknown_provider(self, capfd: pytest.CaptureFixture[str]) -> None:
        """A provider nobody knows is an error that says how to write one, and litellm stays silent."""
        with pytest.raises(InvalidModelUrlError, match="unknown provider; write provider/model"):
            LitellmModel("foo/bar").check_environment()
        assert capfd.readouterr() == ("", "")


class TestSilence:
    async def test_nothing_on_the_terminal(
        self, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        """A failing call writes nothing on the screen it would disturb."""
        caplog.set_level(logging.INFO)
        with serve(Refusal(500, "overloaded")) as server:
            w = await talk(server)
            w.session.send("go")
            with pytest.raises(Exception, match="overloaded"):
                await w.session.wait_for_idle()
        assert capfd.readouterr() == ("", "")
        assert [r for r in caplog.records if r.name.startswith("LiteLLM")] == []
