"""Agents as nodes: the requests to the model, and the handling of its replies."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import pytest
from pydantic import BaseModel

from interlock.engine.agents import (
    ERR,
    AssistantMessage,
    C,
    FakeRuntime,
    Reply,
    ScriptedModel,
    T,
    ToolMessage,
    ToolOutput,
    UserMessage,
    tool,
)
from interlock.engine.agents.models.scripted import ScriptedCall
from interlock.engine.flows import (
    AgentConfig,
    AgentError,
    AgentNode,
    BuildError,
    ClientOptions,
    ClientReply,
    Context,
    Continue,
    Done,
    Flow,
    FlowRuntime,
    Invalid,
    LimitExceeded,
    ModelClients,
    RunLimits,
    StateConflict,
    ToolError,
    ToolFatal,
    ToolHttpError,
)
from interlock.engine.gate.types import GateDecision, ResultRecord, ToolResult
from interlock.engine.net.net import ToolCall

from ..support.scripted import (
    CTX,
    URL,
    Answer,
    Final,
    Script,
    X,
    agent,
    echo,
    flow_of,
    recorded,
    results,
    running,
)

SUBMIT = C(submit={"answer": "42"})


def calls(*named: tuple[str, dict[str, object]]) -> Reply:
    return Reply(calls=tuple(ScriptedCall(name, args) for name, args in named))


async def to_end(runtime: FlowRuntime) -> tuple[int, str]:
    """Return the number of Continue results, and the answer."""
    went = 0
    while await runtime.next(CTX) == Continue():
        went += 1
    out = await runtime.next(CTX)
    assert isinstance(out, Done)
    return went, out.output.answer


class TestNode:
    def test_key_is_the_name_of_the_input(self) -> None:
        """P-11: an agent is registered under the name of its input and produces its output."""
        graph = flow_of(agent()).build()
        assert list(graph.nodes) == ["X"]
        assert graph.terminals == ["Answer"]

    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            ({"model": ""}, "agent 'X': model is empty"),
            ({"exit_name": "echo"}, "agent 'X': tool name 'echo' is reserved"),
        ],
    )
    def test_missing_model_or_clashing_exit_is_refused(
        self, settings: dict[str, object], problem: str
    ) -> None:
        """P-40, P-41: an agent without a model, or with a tool of the exit's name, is refused."""
        with pytest.raises(Invalid) as caught:
            flow_of(agent(echo, **settings)).build()
        assert caught.value.problems == (problem,)

    def test_tools_of_one_name(self) -> None:
        """P-41: two tools with the same name are refused, together with all other problems."""
        with pytest.raises(Invalid) as caught:
            flow_of(agent(echo, echo, model="")).build()
        assert caught.value.problems == (
            "agent 'X': model is empty",
            "agent 'X': duplicate tool name 'echo'",
        )

    def test_output_is_input(self) -> None:
        """P-39: an agent cannot produce its own input."""

        class Itself(AgentNode[X, X]):
            config = AgentConfig("", URL)

        with pytest.raises(Invalid, match="agent 'X': exit_name equals input name"):
            Flow.of(X, X).agent(Itself).build()

    def test_without_types_or_config(self) -> None:
        """P-2: an agent without types, or without a configuration, is refused with the reason."""

        class Untyped(AgentNode):
            config = AgentConfig("", URL)

        class Idle(AgentNode[X, Answer]):
            pass

        with pytest.raises(BuildError, match="agent 'Untyped': write its types"):
            Flow.of(X, Answer).agent(Untyped)
        with pytest.raises(BuildError, match="agent 'Idle': has neither config nor configure"):
            Flow.of(X, Answer).agent(Idle)

    async def test_configured_by_the_value(self) -> None:
        """Section 14: an agent can make its configuration from its input value."""

        class Asks(AgentNode[X, Answer]):
            def configure(self, value: X, ctx: Context) -> AgentConfig:
                return AgentConfig(f"About {value.topic}.", URL)

        script = Script(T('{"answer": "yes"}'))
        runtime = FlowRuntime(flow_of(Asks), X(topic="cats"), factory=script)
        assert await runtime.run(CTX) == Done(Answer(answer="yes"))
        assert script.options[0].preamble == "About cats."

    async def test_one_agent_at_a_time(self) -> None:
        """P-55: an agent that has started keeps its place until it is done."""

        class Y(BaseModel):
            n: int

        class Other(BaseModel):
            n: int

        class Second(AgentNode[Y, Other]):
            config = AgentConfig("", URL, [echo])

        def split(a):
            return X(), Y(n=1)

        def merge(a, b): ...

        split.__annotations__ = {"a": Final, "return": tuple[X, Y]}
        merge.__annotations__ = {"a": Answer, "b": Other, "return": Merged}
        g = Flow.of(Final, Merged).fork(split).agent(agent(echo)).agent(Second).join(merge)
        script = Script(
            C(echo={"text": "1"}),
            C(echo={"text": "2"}),
            SUBMIT,
            C(echo={"text": "3"}),
            C(submit={"n": 7}),
        )
        runtime = FlowRuntime(g, Final(text=""), factory=script)
        seen: list[tuple[str, ...]] = []
        for _ in range(6):
            assert await runtime.next(CTX) == Continue()
            seen.append(runtime.states)
        assert seen == [("X", "Y")] * 3 + [("Y", "Answer")] * 2 + [("Answer", "Other")]

    async def test_overwriting_output_makes_no_model_call(self) -> None:
        """P-58: an agent whose output is already live makes no model call."""

        def pick(a):
            return Answer(answer="first")

        def split(a):
            return Third(n=1), X()

        split.__annotations__ = {"a": Final, "return": tuple[Third, X]}
        pick.__annotations__ = {"a": Third, "return": Answer | Other}

        def merge(a, b):
            return Merged(n=1)

        merge.__annotations__ = {"a": Answer, "b": Other, "return": Merged}
        script = Script()
        g = Flow.of(Final, Merged).fork(split).either(pick).agent(agent()).join(merge)
        runtime = FlowRuntime(g, Final(text=""), factory=script)
        await runtime.next(CTX)
        await runtime.next(CTX)
        with pytest.raises(StateConflict, match="agent 'X' would overwrite state 'Answer'"):
            await runtime.next(CTX)
        assert script.urls == []


class Third(BaseModel):
    n: int


class Other(BaseModel):
    n: int = 0


class Merged(BaseModel):
    n: int = 0


class TestStructured:
    async def test_reply_without_tools_is_the_output(self) -> None:
        """P-130: without tools the reply is the output; the call has preamble, history and schema."""
        script = Script(T('{"answer": "42"}'))
        runtime = running(script)
        assert await to_end(runtime) == (1, "42")
        [options] = script.options
        assert (options.preamble, options.tools) == ("Be brief.", ())
        assert options.output_schema == Answer.model_json_schema()
        assert script.said == [(UserMessage(text='{"topic":"t"}'),)]
        assert script.urls == [URL]

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("Sure!", "failed to deserialize output: .*: Sure!"),
            ("", "LLM returned an empty response"),
            ("  ", "LLM returned an empty response"),
        ],
    )
    async def test_reply_that_is_not_json_fails_the_step(self, text: str, problem: str) -> None:
        """P-136: a reply that is not JSON fails the step, with the text."""
        runtime = running(Script(T(text)))
        before = runtime.snapshot()
        with pytest.raises(AgentError, match=problem) as caught:
            await runtime.next(CTX)
        assert caught.value.agent == "X"
        assert (runtime.snapshot(), runtime.history.entries) == (before, ())

    async def test_wrong_shape_is_retried_twice(self) -> None:
        """P-136: JSON of another shape goes back to the model, and fails the step after two retries."""
        script = Script(T('{"a": 1}'), T("[]"), T('{"answer": "ok"}'))
        assert await to_end(running(script)) == (3, "ok")
        assert "answer: Field required" in script.said[1][-1].text
        runtime = running(Script(T("{}"), T("{}"), T("{}")))
        assert await runtime.next(CTX) == await runtime.next(CTX) == Continue()
        with pytest.raises(AgentError, match=r"agent 'X'.*answer: Field required"):
            await runtime.next(CTX)

    async def test_calls_without_tools(self) -> None:
        """P-130: without tools, a model that calls one fails the step."""
        with pytest.raises(AgentError, match="called 'echo', but has no tools"):
            await running(Script(C(echo={}))).next(CTX)


class TestTools:
    async def test_tools_and_exit(self) -> None:
        """P-131: the exit, with the output's schema, comes after the tools; replies have no schema."""
        script = Script(SUBMIT)
        assert await to_end(running(script, echo)) == (1, "42")
        [options] = script.options
        assert [spec.name for spec in options.tools] == ["echo", "submit"]
        assert options.tools[1].description == (
            "Submit your final result. Call this only when the task is complete."
        )
        assert options.tools[1].parameters == Answer.model_json_schema()
        assert options.output_schema is None

    async def test_exit_may_have_another_name(self) -> None:
        """P-131: the exit can have another name."""
        script = Script(C(finish={"answer": "7"}))
        assert await to_end(running(script, echo, exit_name="finish")) == (1, "7")

    async def test_step_is_a_model_call_with_its_batch(self) -> None:
        """P-51, P-132: a step is a model call with its complete batch."""
        script = Script(C(echo={"text": "hello"}), SUBMIT)
        assert await to_end(running(script, echo)) == (2, "42")
        assert results(script.said[1]) == ['"hello"']

    async def test_batch_runs_in_order_before_the_exit(self) -> None:
        """P-51, P-133: a batch runs in order, and the exit after it."""
        ran: list[str] = []

        @tool
        async def note(text: str) -> str:
            """Note it."""
            ran.append(text)
            return text

        script = Script(
            calls(("note", {"text": "a"}), ("note", {"text": "b"}), ("submit", {"answer": "z"}))
        )
        assert await to_end(running(script, note)) == (1, "z")
        assert ran == ["a", "b"]

    async def test_calls_after_the_exit_are_cancelled(self) -> None:
        """P-133: calls after the exit are cancelled, and the first of two exits counts."""
        ran: list[str] = []

        @tool
        async def note(text: str) -> str:
            """Note it."""
            ran.append(text)
            return text

        script = Script(
            calls(("submit", {"answer": "1"}), ("note", {"text": "a"}), ("submit", {"answer": "2"}))
        )
        runtime = running(script, note)
        assert await to_end(runtime) == (1, "1")
        assert ran == []
        assert results(recorded(runtime)) == ["accepted", "cancelled", "cancelled"]

    async def test_invalid_output_is_retried_twice(self) -> None:
        """P-134: an invalid output goes back to the model, twice; then the step fails."""
        script = Script(C(submit={"answer": 1}), C(submit="{"), SUBMIT)
        assert await to_end(running(script, echo)) == (3, "42")
        assert "answer: Input should be a valid string" in results(script.said[1])[0]
        runtime = running(Script(*[C(submit={})] * 3), echo)
        assert await runtime.next(CTX) == await runtime.next(CTX) == Continue()
        with pytest.raises(AgentError, match=r"agent 'X': 3 outputs .*answer: Field required"):
            await runtime.next(CTX)

    async def test_text_may_be_the_output(self) -> None:
        """P-135: text that is the output counts as such; other text leads to a reminder, twice."""
        assert await to_end(running(Script(T('{"answer": "direct"}')), echo)) == (1, "direct")
        script = Script(T("I think"), T("so"), SUBMIT)
        assert await to_end(running(script, echo)) == (3, "42")
        assert script.said[1][-1] == UserMessage(text="Call submit with your final result.")
        assert script.said[1][-2] == AssistantMessage(text="I think")
        runtime = running(Script(T("a"), T("b"), T("never mind")), echo)
        assert await runtime.next(CTX) == await runtime.next(CTX) == Continue()
        with pytest.raises(AgentError, match="No tool calls found: 'never mind'"):
            await runtime.next(CTX)

    async def test_on_text_error_fails_the_step(self) -> None:
        """P-135: with `on_text="error"` the first text fails the step."""
        with pytest.raises(AgentError, match="No tool calls found: 'hm'"):
            await running(Script(T("hm")), echo, on_text="error").next(CTX)

    async def test_custom_client(self) -> None:
        """P-59, P-135: a custom client can answer with the output."""

        class Own:
            def create(self, model_url: str, options: ClientOptions) -> Own:
                return self

            async def execute(self, messages: Sequence[object]) -> ClientReply:
                return ClientReply('{"answer": "own"}')

        runtime = FlowRuntime(flow_of(agent(echo)), X()).with_factory(Own())
        assert await runtime.run(CTX) == Done(Answer(answer="own"))

    async def test_repeated_call_ids(self) -> None:
        """P-140: equal ids in one reply fail the step; an id of an earlier reply is replaced."""
        twice = Reply(calls=(ScriptedCall("echo", {"text": "a"}, "c"), ScriptedCall("echo", {}, "c")))
        with pytest.raises(AgentError, match="two calls of 'echo' have the id 'c'"):
            await running(Script(twice), echo).next(CTX)
        again = C(c=("echo", {"text": "a"}))
        runtime = running(Script(again, again, SUBMIT), echo)
        await to_end(runtime)
        answered = [m.call_id for m in recorded(runtime) if isinstance(m, ToolMessage)]
        assert answered[:2] == ["c", "c-2"]


class TestToolFailures:
    @pytest.mark.parametrize(
        ("call", "kind", "text"),
        [
            (("nothing", {}), "unknown_tool", "unknown tool 'nothing'"),
            (("echo", {}), "arguments", "text: Field required"),
            (("fails", {"how": "escape"}), "path_escape", "path '../x' escapes"),
            (("fails", {"how": "command"}), "forbidden_command", "command 'rm' is not in"),
            (("fails", {"how": "io"}), "io", "disk"),
            (("fails", {"how": "http"}), "http", "502"),
            (("fails", {"how": "other"}), "failed", "division"),
        ],
    )
    async def test_failure_is_the_calls_result(
        self, call: tuple[str, dict[str, object]], kind: str, text: str
    ) -> None:
        """P-137: a tool's failure is its result, with the kind of failure; or it ends the step."""

        @tool
        async def fails(ctx: Context, how: str) -> str:
            """Fail."""
            match how:
                case "escape":
                    ctx.resolve("../x")
                case "command":
                    ctx.check_command("rm")
                case "io":
                    raise OSError("disk")
                case "http":
                    raise ToolHttpError("502")
            return str(1 / 0)

        script = Script(calls(call), SUBMIT)
        assert await to_end(running(script, echo, fails)) == (2, "42")
        result = json.loads(results(script.said[1])[0])
        assert result["error_kind"] == kind
        assert text in result["error"]
        with pytest.raises(AgentError, match="agent 'X': Tool error: "):
            await running(Script(calls(call)), echo, fails, tool_errors="raise").next(CTX)

    async def test_fatal_failure_ends_the_step(self) -> None:
        """P-137: a fatal failure ends the step, which then has no effect."""

        @tool
        async def fatal() -> str:
            """Fail."""
            raise ToolFatal("the disk is gone")

        runtime = running(Script(calls(("echo", {"text": "a"}), ("fatal", {})), SUBMIT), echo, fatal)
        before = runtime.snapshot()
        with pytest.raises(AgentError, match="tool 'fatal': the disk is gone") as caught:
            await runtime.next(CTX)
        assert isinstance(caught.value.cause, ToolFatal)
        assert (runtime.snapshot(), runtime.history.entries) == (before, ())
        assert await to_end(runtime) == (1, "42")

    async def test_session_tool_works_in_a_flow(self) -> None:
        """P-59: a session's tool works in a flow too, with the runtime and context that it expects."""

        @tool
        async def look(ctx: Context) -> str:
            """Look around."""
            return f"{(await ctx.runtime.exec('echo hi')).stdout} {ctx.require(int)} {ctx.call_id}"

        runtime = running(Script(C(c1=("look", {})), SUBMIT), look)
        fake = FakeRuntime({"echo hi": "hi"})
        await runtime.run(Context(runtime=fake, deps={int: 5}))
        assert results(recorded(runtime))[0] == '"hi 5 c1"'


class TestModels:
    async def test_model_failure_is_an_agent_error(self) -> None:
        """P-59, P-138: any failure of the model is an AgentError, and no message is sent twice."""
        script = Script(ERR("503 overloaded"), T('{"answer": "late"}'))
        runtime = running(script)
        before = runtime.snapshot()
        with pytest.raises(AgentError, match="agent 'X': 503 overloaded") as caught:
            await runtime.next(CTX)
        assert isinstance(caught.value.cause, RuntimeError)
        assert (runtime.snapshot(), runtime.history.entries) == (before, ())
        assert await to_end(runtime) == (1, "late")
        assert [len(messages) for messages in script.said] == [1, 1]

    async def test_exhausted_script_is_an_agent_error(self) -> None:
        """P-59: a script without a reply left is an AgentError as well."""
        with pytest.raises(AgentError, match="The script has no reply left"):
            await running(Script()).next(CTX)

    @pytest.mark.parametrize(
        ("url", "problem"),
        [
            ("gpt-4o", "missing scheme"),
            ("foo://m", "unknown provider 'foo'"),
            ("openai://", "missing model"),
            ("ollama://localhost:11434", "missing model"),
            ("openai://key@gpt-4o", "a key does not belong in a name"),
            ("openai://gpt-4o?top=1", "unknown parameter 'top'"),
        ],
    )
    async def test_invalid_url_fails_at_first_call(self, url: str, problem: str) -> None:
        """P-122, P-123: an invalid URL fails at the first model call, or earlier with `check_models`."""
        runtime = FlowRuntime(flow_of(agent(model=url)), X())
        with pytest.raises(AgentError, match=f"invalid LLM URL: .*{problem}"):
            await runtime.next(CTX)
        with pytest.raises(AgentError, match=f"agent 'X': invalid LLM URL: .*{problem}"):
            runtime.check_models()

    def test_factory_can_support_own_schemes(self) -> None:
        """P-123: a factory can support its own schemes."""
        runtime = FlowRuntime(flow_of(agent(model="mine://m")), X(), factory=Script())
        runtime.check_models()

    async def test_model_without_schema_gets_it_in_the_prompt(self) -> None:
        """P-59, P-139: a model that does not take a schema gets it in the system prompt."""
        model = ScriptedModel([T('{"answer": "42"}')])
        assert await FlowRuntime(flow_of(agent(model=model)), X()).run(CTX) == Done(Answer(answer="42"))
        assert '"title": "Answer"' in (model.requests[0].system_prompt or "")

    def test_provider_with_schema_gets_the_type(self) -> None:
        """P-139: if the provider takes a schema, litellm gets the type itself."""
        made = ModelClients().create("openai://gpt-4o", ClientOptions("Hi.", output=Answer))
        assert made._model._params["response_format"] is Answer
        assert made._prompt == "Hi."
        told = ModelClients().create("groq/llama", ClientOptions("Hi.", output=Answer))
        assert "response_format" not in told._model._params
        assert "JSON Schema" in told._prompt


class TestHistory:
    async def test_content_of_the_history(self) -> None:
        """P-98: the history has the state as compact JSON, the replies, the results and the submit."""
        script = Script(
            T("Looking. ") + C(c1=("echo", {"text": "hi"})), C(c2=("submit", {"answer": "42"}))
        )
        runtime = running(script, echo)
        await to_end(runtime)
        assert {(entry.session, entry.agent) for entry in runtime.history.entries} == {("X#1", "X")}
        first, said, result, submitted, accepted = recorded(runtime)
        assert first == UserMessage(text='{"topic":"t"}')
        assert (said.text, said.tool_calls[0].name) == ("Looking. ", "echo")
        assert result == ToolMessage(call_id="c1", name="echo", text='"hi"')
        # P-141: the exit passes no gate and is always in the record.
        assert submitted.tool_calls[0].args == {"answer": "42"}
        assert accepted == ToolMessage(call_id="c2", name="submit", text="accepted")

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("two\nlines", '"two\\nlines"'),
            ('{"n": 1}', '"{\\"n\\": 1}"'),
            ("", '""'),
            ({"n": 1, "of": ["ü"]}, '{"n":1,"of":["ü"]}'),
            (["a"], '["a"]'),
            (3, "3"),
            (ToolOutput("plain"), '"plain"'),
            ("lone \udc80", '"lone ?"'),
        ],
    )
    async def test_results_are_json(self, value: object, text: str) -> None:
        """P-98: a result is JSON text, with strings quoted; the gate gets the tool's own text."""
        heard: list[str] = []

        class Hears:
            async def check(self, call: ToolCall, approved: Collection[str]) -> GateDecision:
                return GateDecision(call, "allow")

            async def settle(self, result: ToolResult, output: str, seconds: float) -> ResultRecord:
                heard.append(output)
                return ResultRecord()

        @tool
        async def give(ctx: Context) -> object:
            """Give it."""
            return value

        runtime = running(Script(C(give={})), give, gate=Hears())
        await runtime.next(CTX)
        assert results(recorded(runtime)) == [text]
        said = value.text if isinstance(value, ToolOutput) else value
        assert heard == [said if isinstance(said, str) else text]

    async def test_structured_answer(self) -> None:
        """P-98: an answer without tools is recorded too."""
        runtime = running(Script(T('{"answer": "42"}')))
        await to_end(runtime)
        assert recorded(runtime)[1] == AssistantMessage(text='{"answer": "42"}')

    @pytest.mark.parametrize("fence", ["```json\n{}\n```", "\n```\n{}```\n", "```JSON \n{}\n  ``` "])
    @pytest.mark.parametrize("tools", [True, False])
    async def test_fenced_answer(self, fence: str, tools: bool) -> None:
        """P-136: a code fence around an answer is ignored; the record keeps it."""
        text = fence.replace("{}", '{"answer": "42"}')
        runtime = running(Script(T(text)), *([echo] if tools else []))
        assert (await to_end(runtime))[1] == "42"
        assert recorded(runtime)[1] == AssistantMessage(text=text)

    async def test_agent_gets_only_its_own_messages(self) -> None:
        """P-98: an agent gets only its own messages since it started."""

        def again(a: Answer) -> X | Final:
            return X(topic="more") if a.answer == "again" else Final(text=a.answer)

        again.__annotations__ = {"a": Answer, "return": X | Final}
        script = Script(T('{"answer": "again"}'), T('{"answer": "over"}'))
        g = Flow.of(X, Final).agent(agent()).either(again)
        runtime = FlowRuntime(g, X(), factory=script)
        assert await runtime.run(CTX) == Done(Final(text="over"))
        assert script.said[1] == (UserMessage(text='{"topic":"more"}'),)
        assert runtime.history.sessions("X") == ["X#1", "X#2"]

    async def test_turns_are_limited(self) -> None:
        """Section 12: model calls can be limited, and the run can be continued afterwards."""
        script = Script(C(echo={"text": "1"}), C(echo={"text": "2"}), SUBMIT)
        runtime = running(script, echo)
        with pytest.raises(LimitExceeded, match="max_turns is 2"):
            await runtime.run(CTX, RunLimits(max_turns=2))
        assert len(script.said) == 2
        assert await runtime.run(CTX, RunLimits(max_turns=1)) == Done(Answer(answer="42"))

    def test_suspend_signal_is_no_tool_error(self) -> None:
        """P-80: the suspend signal is not a ToolError."""
        assert not isinstance(ToolError.suspend(1), ToolError)
