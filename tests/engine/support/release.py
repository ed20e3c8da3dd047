"""A flow of a release: an agent that tests and deploys, a tool that asks, a step that a person takes."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from interlock.engine.agents import Reply, ScriptedModel, ToolContext, tool
from interlock.engine.flows import (
    AgentConfig,
    AgentNode,
    ClientOptions,
    Context,
    Flow,
    FlowBuilder,
    ModelClient,
    ToolError,
)

URL = "openai://gpt-4o"

ran: list[str] = []
"""What tools and functions really did."""


class Commit(BaseModel):
    sha: str


class Draft(BaseModel):
    sha: str
    files: int = 1


class Notes(BaseModel):
    text: str


class Signed(BaseModel):
    by: str
    severity: int = 1


class Released(BaseModel):
    text: str


class Pace(BaseModel):
    slow: bool


@tool
async def deploy(ctx: ToolContext, env: str = "staging") -> str:
    """Deploy."""
    ran.append(f"deploy {env}")
    return f"deployed to {env}"


@tool(name="test")
async def run_tests(ctx: ToolContext) -> str:
    """Run the tests."""
    ran.append("test")
    return "all pass"


@tool
async def consult(ctx: ToolContext, about: str) -> str:
    """Ask somebody."""
    ran.append("consult")
    raise ToolError.suspend({"prompt": about})


class Write(AgentNode[Draft, Notes]):
    """Writes the notes, and deploys where it may."""

    config = AgentConfig("Write the notes.", URL, (run_tests, deploy, consult))


async def collect(commit: Commit, ctx: Context) -> Draft:
    ran.append("collect")
    return Draft(sha=commit.sha, files=2)


async def publish(signed: Signed, ctx: Context) -> Released:
    ran.append("publish")
    return Released(text=f"released, signed by {signed.by}")


class Release(Flow[Commit, Released]):
    """Collect, write, sign, publish."""

    @classmethod
    def build(cls, g: FlowBuilder) -> FlowBuilder:
        return g.work(collect).agent(Write).suspend(Notes, Signed).work(publish)


class Short(Flow[Commit, Notes]):
    """Collect and write."""

    @classmethod
    def build(cls, g: FlowBuilder) -> FlowBuilder:
        return g.work(collect).agent(Write)


class Script:
    """A factory whose clients answer from one script."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.model = ScriptedModel(list(replies))

    def create(self, model_url: str, options: ClientOptions) -> ModelClient:
        return ModelClient(self.model, options, describe_output=False)
