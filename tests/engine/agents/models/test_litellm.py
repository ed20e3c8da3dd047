"""Models through litellm, with a real server on loopback."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from interlock.engine.agents import (
    Agent,
    BashTool,
    InvalidModelUrlError,
    LitellmModel,
    ModelError,
    ModelTool,
    ReasoningDelta,
    StepEvent,
    ToolProgress,
    ToolResultEvent,
    Usage,
    tool,
)
from tests.support.openai_server import (
    CUT,
    END,
    Answer,
    OpenAIServer,
    Piece,
    Raw,
    Refusal,
    begins_call,
    chunk,
    ends,
    fails,
    goes_on,
    says,
    thinks,
)

from ..gates import Log
from ..script import Watched

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
    """Remove real keys from the environment."""
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)


async def talk(
    server: OpenAIServer,
    *texts: str,
    name: str = "openai/gpt-x",
    tools: Sequence[ModelTool] = (BashTool,),
    gate: object = None,
) -> Watched:
    """Return a session that sends `texts` to the server, one turn each."""
    model = LitellmModel(name, api_base=server.base_url, max_retries=0)
    agent = Agent(model, tools=tools, system_prompt="Be brief.")
    w = Watched(agent, await agent.create_session(gate=gate))
    for text in texts:
        await w.say(text)
    return w


def serve(*answers: Answer) -> OpenAIServer:
    return OpenAIServer(list(answers))


class TestReply:
    @pytest.mark.slow
    async def test_text(self) -> None:
        """A text reply streams; the request has prompt, tools and the option for usage."""
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
        """Several calls in pieces run, and their results are sent back with their ids."""
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

    @pytest.mark.slow
    async def test_broken_arguments(self) -> None:
        """The model can correct arguments that were not JSON."""
        with serve(
            [begins_call(0, "a", "bash", '{"command": "rm'), *ends("tool_calls")],
            [begins_call(0, "b", "bash", '{"command": "echo ok"}'), *ends("tool_calls")],
            says("done"),
        ) as server:
            w = await talk(server, "go")
        first, second = [e for e in w.events if isinstance(e, ToolResultEvent)]
        assert (first.is_error, second.result) == (True, "ok\n")
        assert not any(isinstance(e, ToolProgress) and e.call_id == "a" for e in w.events)

    async def test_reasoning(self) -> None:
        """Part 2: reasoning is reported while it streams, but neither stored nor sent back."""
        with serve([*thinks("hm, ", "well"), *says("Hello")], says("Bye")) as server:
            w = await talk(server, "Hi", "go on")
        thought = [e.delta for e in w.events if isinstance(e, ReasoningDelta)]
        assert thought == ["hm, ", "well"]
        assert await w.stored() == ['user "Hi"', 'assistant "Hello"', 'user "go on"', 'assistant "Bye"']
        assert "hm" not in json.dumps(server.requests[1].body)

    async def test_calls_run_together(self) -> None:
        """A-55, A-56: calls of one reply run concurrently, and their results are sent in its order."""
        met = asyncio.Barrier(2)

        @tool
        async def meet(name: str) -> str:
            """Wait for the other."""
            async with asyncio.timeout(10):
                await met.wait()
            return name

        with serve(
            [
                begins_call(0, "a", "meet", '{"name": '),
                begins_call(1, "b", "meet", '{"name"'),
                goes_on(1, ': "two"}'),
                goes_on(0, '"one"}'),
                *ends("tool_calls"),
            ],
            says("done"),
        ) as server:
            await talk(server, "go", tools=[meet])
        results = [(m["tool_call_id"], m["content"]) for m in server.requests[1].body["messages"][-2:]]
        assert results == [("a", "one"), ("b", "two")]

    @pytest.mark.parametrize("broken", ['{"command": "rm', "rm -rf /", '["rm"]', '{"cmd": "rm"}', "null"])
    async def test_malformed_arguments(self, broken: str) -> None:
        """A-128: invalid arguments reach neither gate nor tool; the model reads the fault."""
        gate = Log()
        with serve(
            [begins_call(0, "a", "bash", broken[:4]), goes_on(0, broken[4:]), *ends("tool_calls")],
            says("sorry"),
        ) as server:
            w = await talk(server, "go", gate=gate)
        answer = server.requests[1].body["messages"][-1]
        assert (answer["role"], answer["tool_call_id"]) == ("tool", "a")
        assert answer["content"].startswith("Invalid arguments for bash: ")
        assert gate.happened == []
        assert w.turn_end.text == "sorry"


class TestUsage:
    """Tokens as the provider counts them, and dollars by litellm's price list."""

    async def test_of_a_known_model(self) -> None:
        """A-27, part 2: tokens, including cached ones, and their cost are summed up over a session."""
        with serve(says("one"), says("two", cached=4)) as server:
            w = await talk(server, "a", "b", name="openai/gpt-4o")
        first, second = [e.usage for e in w.events if isinstance(e, StepEvent)]
        assert (first.input, first.output, first.cached) == (11, 7, 0)
        assert (second.input, second.output, second.cached) == (11, 7, 4)
        price, cached_price, output_price = 2.5e-6, 1.25e-6, 10e-6
        assert first.cost == pytest.approx(11 * price + 7 * output_price)
        assert second.cost == pytest.approx(7 * price + 4 * cached_price + 7 * output_price)
        assert w.session.usage == first + second

    async def test_of_a_model_without_prices(self, capfd: pytest.CaptureFixture[str]) -> None:
        """Part 2: a model without a price costs 0, without any output about it."""
        with serve(says("one")) as server:
            w = await talk(server, "a")
        assert w.session.usage == Usage(input=11, output=7)
        assert capfd.readouterr() == ("", "")


class TestUrls:
    async def test_ollama_by_the_openai_wire(self) -> None:
        """P-121: `wire=openai` posts to the server's chat completions, with the key `ollama`."""
        with serve(says("hi")) as server:
            url = server.base_url.removesuffix("/v1").replace("http://", "ollama://")
            session = await Agent(f"{url}/qwen3:8b?wire=openai", tools=[BashTool]).create_session()
            assert await session.prompt("go") == "hi"
        [request] = server.requests
        assert request.path == "/v1/chat/completions"
        assert request.headers["authorization"] == "Bearer ollama"
        assert request.body["model"] == "qwen3:8b"
        assert request.body["tools"]

    async def test_parameters(self) -> None:
        """P-122: base and temperature of a URL are used in the call."""
        with serve(says("hi")) as server:
            url = f"openai:///gpt-x?base_url={server.base_url}&temperature=0.25"
            session = await Agent(url).create_session()
            assert await session.prompt("go") == "hi"
        assert server.requests[0].body["temperature"] == 0.25


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
        assert w.seen[:2] == ['user "go"', 'delta "par"']
        assert await w.stored() == ['user "go"']

    @pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
    async def test_refusal(self, status: int) -> None:
        """A-90, A-91: the provider's refusal is the error, and nothing of the reply is stored."""
        with serve(Refusal(status, "not today, sorry")) as server:
            w = await talk(server)
            w.session.send("go")
            with pytest.raises(Exception, match="not today, sorry"):
                await w.session.wait_for_idle()
        assert [s.split("(")[0] for s in w.seen] == ['user "go"', "error"]
        assert await w.stored() == ['user "go"']

    async def test_unreachable_server(self) -> None:
        """A-90: an unreachable server is an error, and the session stays usable."""
        with serve() as server:
            base = server.base_url
        agent = Agent(LitellmModel("openai/gpt-x", api_base=base, max_retries=0))
        w = Watched(agent, await agent.create_session())
        w.session.send("go")
        with pytest.raises(Exception, match=r"[Cc]onnect"):
            await w.session.wait_for_idle()
        assert w.session.status == "idle"

    @pytest.mark.parametrize(
        "broken",
        [
            [fails("overloaded")],
            [CUT],
            [END],
            [],
            [Raw('{"choices": [{"index": 0, "del')],
        ],
        ids=["error", "cut", "end", "no finish", "no json"],
    )
    async def test_failure_during_a_reply(self, broken: list[Piece]) -> None:
        """A-92: after any failure during a reply, its text is in the error and its calls never run."""
        gate = Log()
        call = begins_call(0, "a", "bash", '{"command": "true"}')
        with serve([chunk({"content": "par"}), call, *broken], says("fine")) as server:
            w = await talk(server, gate=gate)
            w.session.send("go")
            with pytest.raises(Exception, match=r"."):
                await w.session.wait_for_idle()
            assert w.error.partial_text == "par"
            assert gate.happened == []
            assert await w.stored() == ['user "go"']
            await w.say("again")
        assert w.turn_end.text == "fine"
        assert [m["role"] for m in server.requests[1].body["messages"]] == ["system", "user", "user"]

    async def test_abort_closes_the_connection(self) -> None:
        """A-95: aborting during a reply keeps the text and reads no more of the stream."""
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
        """A missing key is reported before anything is sent."""
        with pytest.raises(ModelError, match=f"{variable}$"):
            LitellmModel(name).check_environment()
        agent = Agent(name)
        session = await agent.create_session()
        session.send("go")
        with pytest.raises(ModelError, match=f"{variable}$"):
            await session.wait_for_idle()

    async def test_key_comes_from_the_named_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The key comes from the variable that the URL names."""
        monkeypatch.setenv("MY_KEY", "k-1")
        with serve(says("hi")) as server:
            url = f"openai://gpt-x?base_url={server.base_url}&api_key_env=MY_KEY"
            session = await Agent(url).create_session()
            assert await session.prompt("go") == "hi"
        assert server.requests[0].headers["authorization"] == "Bearer k-1"

    async def test_given_key_is_used(self) -> None:
        """A given key is used."""
        model = LitellmModel("openai/gpt-4o", api_key="k-2")
        model.check_environment()

    @pytest.mark.parametrize("base", ["http://127.0.0.1:1/v1", "http://localhost:1", "http://[::1]:1"])
    def test_loopback_needs_none(self, base: str) -> None:
        """A server on this machine needs no key."""
        LitellmModel("openai/gpt-x", api_base=base).check_environment()

    def test_remote_server_needs_a_key(self) -> None:
        """A server elsewhere needs a key, whatever its name looks like."""
        for base in ("http://localhost.example.org/v1", "http://10.0.0.1/v1"):
            with pytest.raises(ModelError, match="OPENAI_API_KEY"):
                LitellmModel("openai/gpt-x", api_base=base).check_environment()

    def test_base_url_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A base URL in the environment is equivalent to a given one."""
        monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:1/v1")
        LitellmModel("openai/gpt-x").check_environment()
        monkeypatch.setenv("OPENAI_API_BASE", "http://example.org/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        LitellmModel("openai/gpt-x").check_environment()

    def test_local_models_need_none(self) -> None:
        """Ollama has no keys."""
        LitellmModel("ollama://localhost:11434/llama3.2").check_environment()

    def test_unknown_provider(self, capfd: pytest.CaptureFixture[str]) -> None:
        """An unknown provider is an error with the expected form, and litellm prints nothing."""
        with pytest.raises(InvalidModelUrlError, match="unknown provider; write provider/model"):
            LitellmModel("foo/bar").check_environment()
        assert capfd.readouterr() == ("", "")


class TestSilence:
    async def test_nothing_on_the_terminal(
        self, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        """A failing call writes nothing to the terminal or the log."""
        caplog.set_level(logging.INFO)
        with serve(Refusal(500, "overloaded")) as server:
            w = await talk(server)
            w.session.send("go")
            with pytest.raises(Exception, match="overloaded"):
                await w.session.wait_for_idle()
        assert capfd.readouterr() == ("", "")
        assert [r for r in caplog.records if r.name.startswith("LiteLLM")] == []


@pytest.mark.slow
class TestProjectsEnvironment:
    def test_dotenv_file_sets_no_variables(self, tmp_path: Path) -> None:
        """A `.env` file of the project whose `.venv` has the packages does not set variables."""
        spec = find_spec("litellm")
        assert spec is not None
        assert spec.origin is not None
        packages = tmp_path / ".venv" / "packages"
        packages.mkdir(parents=True)
        (packages / "litellm").symlink_to(Path(spec.origin).parent)
        (tmp_path / ".env").write_text("OPENAI_BASE_URL=https://elsewhere.example/v1\n")
        program = tmp_path / "program.py"
        program.write_text(
            "import os\n"
            "from interlock.engine.agents.models.litellm_model import _litellm\n"
            "print(_litellm().__file__, os.environ.get('OPENAI_BASE_URL'))\n"
        )
        environ = {"PATH": os.defpath, "PYTHONPATH": str(packages)}
        done = subprocess.run(
            [sys.executable, str(program)], capture_output=True, text=True, env=environ, check=True
        )
        assert done.stdout.split() == [str(packages / "litellm" / "__init__.py"), "None"]
