"""Agents for tests: a factory with scripted answers, and the shortest flow around an agent."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from interlock.engine.agents import Message, Model, Reply, ScriptedModel, Tool, ToolMessage, tool
from interlock.engine.flows import (
    AgentConfig,
    AgentNode,
    ClientOptions,
    Context,
    Flow,
    FlowRuntime,
    ModelClient,
    ToolError,
)

URL = "openai://gpt-4o"
CTX = Context()


class X(BaseModel):
    topic: str = "t"


class Answer(BaseModel):
    answer: str


class Final(BaseModel):
    text: str


class Script:
    """A factory whose clients share one script; `options` are the requested ones."""

    def __init__(self, *replies: Reply) -> None:
        self.model = ScriptedModel(replies)
        self.options: list[ClientOptions] = []
        self.urls: list[str] = []

    def create(self, model_url: str, options: ClientOptions) -> ModelClient:
        self.urls.append(model_url)
        self.options.append(options)
        return ModelClient(self.model, options, describe_output=False)

    @property
    def said(self) -> list[tuple[Message, ...]]:
        """Return the messages of each model call."""
        return [request.messages for request in self.model.requests]


@tool
async def echo(ctx: Context, text: str) -> str:
    """Say it again."""
    return text


@tool
async def ask(ctx: Context, question: str = "?") -> str:
    """Ask somebody."""
    raise ToolError.suspend({"question": question})


@tool
async def ask2(ctx: Context) -> str:
    """Ask somebody else."""
    raise ToolError.suspend("second")


def agent(*tools: Tool, model: str | Model = URL, **settings: object) -> type[AgentNode]:
    """Return an agent from X to Answer."""
    made = AgentConfig("Be brief.", model, tools, **settings)

    class Made(AgentNode[X, Answer]):
        config = made

    return Made


def flow_of(node: type[AgentNode]) -> Flow:
    return Flow.of(X, Answer).agent(node)


def running(script: Script, *tools: Tool, gate: object = None, **settings: object) -> FlowRuntime:
    """Return a run of the one agent."""
    return FlowRuntime(flow_of(agent(*tools, **settings)), X(), factory=script, gate=gate)


def results(messages: Sequence[Message]) -> list[str]:
    """Return the results of tools, as the model reads them."""
    return [message.text for message in messages if isinstance(message, ToolMessage)]


def recorded(runtime: FlowRuntime) -> list[Message]:
    return [entry.message for entry in runtime.history.entries]
