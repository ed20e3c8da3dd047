"""A directory with flows, and the flow command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import EventBody

from ...support.command import command

MODULE = '''
from pathlib import Path

from pydantic import BaseModel

from interlock.engine.agents import C, ScriptedModel, ToolContext, tool
from interlock.engine.flows import (
    AgentConfig, AgentNode, Context, Flow, FlowBuilder, HumanAnswer, HumanInput, ToolError,
)


class Commit(BaseModel):
    sha: str
    tries: int = 1

class Draft(BaseModel):
    sha: str

class Notes(BaseModel):
    text: str

class Signed(BaseModel):
    by: str
    severity: int = 1

class Shipped(BaseModel):
    text: str


@tool
async def deploy(ctx: ToolContext, env: str) -> str:
    """Deploy."""
    (ctx.working_dir / "deployed").write_text(env)
    return f"deployed to {env}"

@tool(needs_approval=True)
async def erase(ctx: ToolContext) -> str:
    """Remove everything."""
    (ctx.working_dir / "erased").touch()
    return "gone"

@tool
async def consult(ctx: ToolContext) -> str:
    """Ask somebody."""
    raise ToolError.suspend({"prompt": "which one?"})


def moves(messages):
    return C(submit={"text": "notes"}) if len(messages) > 2 else C(deploy={"env": "staging"})

def asks(messages):
    return C(submit={"text": messages[-1].text}) if len(messages) > 2 else C(consult={})


def erases(messages):
    return C(submit={"text": "notes"}) if len(messages) > 2 else C(erase={})


class Erase(AgentNode[Draft, Notes]):
    config = AgentConfig("Write.", ScriptedModel(erases), [erase])

class Write(AgentNode[Draft, Notes]):
    config = AgentConfig("Write.", ScriptedModel(moves), [deploy])

class Ask(AgentNode[Draft, Notes]):
    config = AgentConfig("Write.", ScriptedModel(asks), [consult])

class Far(AgentNode[Draft, Notes]):
    config = AgentConfig("Write.", "openai://gpt-4o", [deploy])

class Nowhere(AgentNode[Draft, Notes]):
    config = AgentConfig("Write.", "nobody://m", [deploy])


def collect(commit: Commit, ctx: Context) -> Draft:
    with open(ctx.working_dir / "collected", "a") as ran:
        ran.write("once ")
    return Draft(sha=commit.sha)

def publish(signed: Signed) -> Shipped:
    return Shipped(text=f"signed by {signed.by}")

def question(notes: Notes) -> HumanInput:
    return HumanInput(prompt="Ship it?", choices=("yes", "later"))

def chosen(notes: Notes, answer: HumanAnswer) -> Shipped:
    return Shipped(text=answer.text)

def noted(draft: Draft) -> Notes:
    return Notes(text=draft.sha)

def spawn(commit: Commit, ctx: Context) -> Draft:
    ctx.check_command("git")
    return Draft(sha=commit.sha)


class Ship(Flow[Commit, Shipped]):
    @classmethod
    def build(cls, g):
        return g.work(collect).agent(Write).suspend(Notes, Signed).work(publish)

class Short(Flow[Commit, Notes]):
    @classmethod
    def build(cls, g):
        return g.work(collect).work(noted)

class Choose(Flow[Commit, Shipped]):
    @classmethod
    def build(cls, g):
        return g.work(collect).work(noted).human(question, chosen)

class Consults(Flow[Commit, Notes]):
    @classmethod
    def build(cls, g):
        return g.work(collect).agent(Ask)

class Erases(Flow[Commit, Notes]):
    @classmethod
    def build(cls, g):
        return g.work(collect).agent(Erase)

class Remote(Flow[Commit, Notes]):
    @classmethod
    def build(cls, g):
        return g.work(collect).agent(Far)

class Lost(Flow[Commit, Notes]):
    @classmethod
    def build(cls, g):
        return g.work(collect).agent(Nowhere)

class Commands(Flow[Commit, Draft]):
    @classmethod
    def build(cls, g):
        return g.work(spawn)

class Wrong(Flow[Commit, Shipped]):
    @classmethod
    def build(cls, g):
        return g.work(collect).work(collect).suspend(Signed, Shipped)

class Breaks(Flow[Commit, Shipped]):
    @classmethod
    def build(cls, g):
        return g.work(1 / 0)


class Stamps:
    def __init__(self, text: str) -> None:
        self.text = text

def stamp(commit: Commit, ctx: Context) -> Notes:
    return Notes(text=f"stamped with {len(ctx.require(Stamps).text)} letters")

class Undated(Flow[Commit, Notes]):
    @classmethod
    def build(cls, g):
        return g.work(stamp)

class Dated(Undated):
    @classmethod
    def deps(cls):
        return {Stamps: Stamps(Path("stamp").read_text())}

class BadDeps(Undated):
    @classmethod
    def deps(cls):
        return {"Stamps": Stamps("")}

class NoDeps(Undated):
    @classmethod
    def deps(cls):
        return [Stamps("")]


class Left(BaseModel):
    sha: str

class Right(BaseModel):
    sha: str

def parted(commit: Commit) -> tuple[Left, Right]:
    return Left(sha=""), Right(sha="")

def turned(left: Left) -> Draft | Notes:
    return Notes(text="")

def met(draft: Draft, right: Right) -> Notes:
    return Notes(text="")

class Stuck(Flow[Commit, Notes]):
    @classmethod
    def build(cls, g):
        return g.fork(parted).either(turned).join(met)


def back(left: Left) -> Draft | Right:
    return Draft(sha="")

class Overwrites(Flow[Commit, Notes]):
    @classmethod
    def build(cls, g):
        return g.fork(parted).either(back).join(met)
'''
RULES = "require human-approval before deploy\n"
INPUT = '{"sha": "abc"}'


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with `ship.py` and `a.rules`."""
    (tmp_path / "ship.py").write_text(MODULE)
    (tmp_path / "a.rules").write_text(RULES)
    return tmp_path


def flow(here: Path, part: str, *line: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `interlock flow PART …` in this directory, on the journal `flow.db`."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(here), "INTERLOCK_CONFIG_DIR": str(here / "config")}
    return command(here, "flow", part, *line, env={**env, "INTERLOCK_DB": "flow.db", **environ})


def run(here: Path, name: str, *line: str, said: str = INPUT) -> subprocess.CompletedProcess[str]:
    """Run a flow of `ship.py` headless, with all calls approved."""
    options = ("--headless", "--answer", "approve", "--input", said)
    return flow(here, "run", f"ship:{name}", *options, *line)


def only_run(here: Path) -> str:
    """Return the id of the only run."""
    [session] = open_reader(here / "flow.db").sessions()
    return session.id


def bodies(here: Path, kind: type[EventBody]) -> list[EventBody]:
    """Return the events of a type in the only run."""
    events = open_reader(here / "flow.db").events(only_run(here))
    return [event.body for event in events if isinstance(event.body, kind)]
