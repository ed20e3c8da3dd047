"""The requirements for every adapter, tested through the real framework with a fake model.

The test file of a framework defines a `Driver` and a subclass of `AdapterContract`. It also tests what is
specific to the framework, such as tools that the gate cannot see.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from interlock.adapters.backends import Gates
from interlock.adapters.coverage import Coverage
from interlock.engine import ApprovalRequest, create_gate
from interlock.engine.gate import ApprovalAnswer, Gate
from interlock.engine.hub.hub import ApprovalPolicy
from interlock.rules import compile_rules, condition_of

from ..docs.blocks import ROOT, blocks_of
from ..engine.gateway.served import Served, served, until

RULES = """\
block rm
require human-approval before deploy
require human-approval before push
require test before release
limit publish to 1 per session
"""

RULED = create_gate(compile_rules(RULES).registry)
"""A gate of these rules without an operator."""

EDITED = {"env": "staging"}
NOTICE = 'A person changed env from "prod" to "staging" before it ran.'


def approving(rules: str, **edited: Any) -> Gate:
    """Return a gate of rules whose operator approves each call, with the input `edited` if given."""
    return create_gate(
        compile_rules(rules).registry,
        confirm=lambda _: ApprovalAnswer(True, input=edited or None),
        conditions=condition_of,
    )


@dataclass(frozen=True)
class Call:
    """A call that the fake model makes."""

    id: str
    tool: str
    input: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> str:
        return json.dumps(self.input)


@dataclass
class Tools:
    """Plain functions that record their calls; each framework makes its tools of them."""

    ran: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    fails: bool = True

    def note(self, name: str, **given: Any) -> None:
        self.ran.append((name, given))

    def names(self) -> list[str]:
        return sorted(name for name, _ in self.ran)

    def functions(self) -> list[Any]:
        def lookup(text: str) -> str:
            """Look something up."""
            self.note("lookup", text=text)
            return f"found {text}"

        def rm(path: str) -> str:
            """Remove a file."""
            self.note("rm", path=path)
            return "removed"

        def deploy(env: str) -> str:
            """Deploy."""
            self.note("deploy", env=env)
            return f"deployed to {env}"

        def push(branch: str) -> str:
            """Push a branch."""
            self.note("push", branch=branch)
            return f"pushed {branch}"

        def test() -> str:
            """Run the tests."""
            self.note("test")
            if self.fails:
                raise RuntimeError("3 tests failed")
            return "12 passed"

        def release() -> str:
            """Release."""
            self.note("release")
            return "released"

        def publish() -> str:
            """Publish."""
            self.note("publish")
            return "published"

        return [lookup, rm, deploy, push, test, release, publish]


@dataclass
class Run:
    """A run of an agent: the texts that the model read, by call, and the saved state of a paused run."""

    outputs: dict[str, str]
    paused: object = None


@dataclass(frozen=True)
class Setup:
    """The parts of a run; a fake model makes `calls` in one answer and then ends."""

    tools: Tools
    gate: Gates
    calls: Sequence[Call]
    thread: str = "t1"
    pause_after: float | None = None


class Driver(ABC):
    """One framework: its agent with a fake model."""

    pauses = False
    failure = "3 tests failed"
    """Text that the model reads about a tool that raised."""

    @abstractmethod
    async def run(self, setup: Setup) -> Run: ...

    async def resume(self, setup: Setup, paused: Any) -> Run:
        """Resume in a new process, which has only `paused` from the earlier run."""
        raise NotImplementedError

    @abstractmethod
    async def coverage(self, tools: Tools, gate: Gates) -> Coverage: ...


@dataclass
class Operator:
    """Answers approval requests by tool as soon as `answers` contains the tool."""

    answers: dict[str, ApprovalAnswer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def confirm(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Answer a gate in this process, in any event loop."""
        self.asked.append(request.tool)

        async def answer() -> ApprovalAnswer | None:
            return self.answers.get(request.tool)

        return await until(answer)

    async def decide(self, server: Served) -> None:
        """Answer a server's requests until cancelled."""
        seen: set[str] = set()
        while True:
            for request in await server.hub.approvals():
                if request.id not in seen:
                    seen.add(request.id)
                    self.asked.append(request.tool)
                answer = self.answers.get(request.tool)
                if answer is not None:
                    how = {} if answer.input is None else {"input": dict(answer.input)}
                    await server.hub.decide(
                        request.id, approved=answer.approved, by="ada", reason=answer.reason, **how
                    )
            await asyncio.sleep(0.005)


@dataclass
class Place:
    """A place of the gate. `gates` returns fresh ones, as in a new process."""

    operator: Operator
    server: Served | None
    _opened: list[Gates] = field(default_factory=list)

    def gates(self, *, rules: str = RULES) -> Gates:
        """Return gates without any state in memory; without a server they have no state at all."""
        if self.server is None:
            registry = compile_rules(rules).registry
            made = Gates(create_gate(registry, confirm=self.operator.confirm))
        else:
            made = Gates(self.server.url, agent="bot", token=self.server.agent, patience=5.0)
        self._opened.append(made)
        return made

    async def close(self) -> None:
        for gates in self._opened:
            await asyncio.to_thread(gates.close)


@asynccontextmanager
async def place(
    kind: str, directory: Path, policy: ApprovalPolicy | None = None
) -> AsyncGenerator[Place]:
    """Yield a gate `here` or `at a server`."""
    operator = Operator()
    if kind == "here":
        where = Place(operator, None)
        yield where
        await where.close()
        return
    async with served(directory, rules=RULES, policy=policy) as server:
        deciding = asyncio.create_task(operator.decide(server))
        where = Place(operator, server)
        try:
            yield where
        finally:
            await where.close()
            deciding.cancel()


async def until_decided(where: Place, call_id: str, session: str = "bot:t1") -> None:
    """Wait until a call at a server is approved."""
    server = where.server
    assert server is not None

    async def is_decided() -> bool:
        return (await server.hub.session(session)).calls[call_id].status == "running"

    await until(is_decided)


def page_program(
    page: str, directory: Path, monkeypatch: pytest.MonkeyPatch, model: object
) -> dict[str, Any]:
    """Run the programs of an adapter's page with a fake model, and return their variables.

    It is for frameworks that the environment of `test_blocks.py`, which runs the other pages, lacks.
    """
    names: dict[str, Any] = {"__name__": "page", "model": model}
    blocks = blocks_of(ROOT / "docs" / "how-to" / "adapters" / f"{page}.md")
    for block in blocks:
        if block.title is not None:
            (directory / block.title).write_text(block.text)
    monkeypatch.chdir(directory)
    for block in blocks:
        if block.language == "python":
            exec(compile(block.text, block.where, "exec"), names)
    return names


PLACES = pytest.mark.parametrize("kind", ["here", "at a server"])


class AdapterContract:
    """Tests of one adapter; a subclass names its driver."""

    driver: ClassVar[Driver]

    @PLACES
    async def test_parallel_calls(self, kind: str, tmp_path: Path) -> None:
        """Of four simultaneous calls, one runs, one is blocked, one runs as edited, and one fails."""
        tools = Tools()
        async with place(kind, tmp_path) as where:
            where.operator.answers["deploy"] = ApprovalAnswer(True, input=EDITED)
            calls = [
                Call("c1", "lookup", {"text": "a"}),
                Call("c2", "rm", {"path": "/"}),
                Call("c3", "deploy", {"env": "prod"}),
                Call("c4", "test"),
            ]
            run = await self.driver.run(Setup(tools, where.gates(), calls))
        assert tools.names() == ["deploy", "lookup", "test"]
        assert ("deploy", EDITED) in tools.ran
        assert "found a" in run.outputs["c1"]
        assert "blocked" in run.outputs["c2"]
        assert "deployed to staging" in run.outputs["c3"]
        assert NOTICE in run.outputs["c3"]
        assert self.driver.failure in run.outputs["c4"]
        assert NOTICE not in run.outputs["c1"]

    @PLACES
    async def test_a_denial_reaches_the_model(self, kind: str, tmp_path: Path) -> None:
        """The result of a denied call contains the operator's reason."""
        tools = Tools()
        async with place(kind, tmp_path) as where:
            where.operator.answers["deploy"] = ApprovalAnswer(False, reason="not on a Friday")
            calls = [Call("c1", "deploy", {"env": "prod"})]
            run = await self.driver.run(Setup(tools, where.gates(), calls))
        assert tools.ran == []
        assert "not on a Friday" in run.outputs["c1"]

    @PLACES
    async def test_thread_keeps_its_nets(self, kind: str, tmp_path: Path) -> None:
        """A later run of the thread continues with its state; another thread has its own state."""
        tools = Tools(fails=False)
        async with place(kind, tmp_path) as where:
            gates = where.gates()
            await self.driver.run(Setup(tools, gates, [Call("c1", "test")]))
            other = await self.driver.run(Setup(tools, gates, [Call("c2", "release")], thread="t2"))
            same = await self.driver.run(Setup(tools, gates, [Call("c3", "release")]))
        assert "blocked" in other.outputs["c2"]
        assert "released" in same.outputs["c3"]
        assert tools.names() == ["release", "test"]

    async def test_restarted_program_continues_its_nets(self, tmp_path: Path) -> None:
        """A thread with a session at a server continues with its state in another process."""
        tools = Tools(fails=False)
        async with place("at a server", tmp_path) as where:
            await self.driver.run(Setup(tools, where.gates(), [Call("c1", "test")]))
            same = await self.driver.run(Setup(tools, where.gates(), [Call("c2", "release")]))
        assert "released" in same.outputs["c2"]

    @PLACES
    async def test_failure_unlocks_nothing(self, kind: str, tmp_path: Path) -> None:
        """A failed call counts as failed although the framework turns its error into a text."""
        tools = Tools()
        async with place(kind, tmp_path) as where:
            gates = where.gates()
            await self.driver.run(Setup(tools, gates, [Call("c1", "test")]))
            run = await self.driver.run(Setup(tools, gates, [Call("c2", "release")]))
        assert "blocked" in run.outputs["c2"]
        assert tools.names() == ["test"]

    async def test_only_allowed_calls_have_results(self, tmp_path: Path) -> None:
        """The record has a result with the outcome for each call that ran, and for no other."""
        async with place("at a server", tmp_path) as where:
            assert where.server is not None
            calls = [
                Call("c1", "lookup", {"text": "a"}),
                Call("c2", "rm", {"path": "/"}),
                Call("c3", "test"),
            ]
            await self.driver.run(Setup(Tools(), where.gates(), calls))
            state = await where.server.hub.session("bot:t1")
        assert {call.call_id: call.status for call in state.calls.values()} == {
            "c1": "done",
            "c2": "blocked",
            "c3": "failed",
        }
        assert "3 tests failed" in (state.calls["c3"].output or "")

    async def test_missing_server_blocks_every_call(self, tmp_path: Path) -> None:
        """Without a server no tool runs, and the model reads the reason."""
        async with served(tmp_path) as server:
            url, token = server.url, server.agent
        gates, tools = Gates(url, token=token, patience=0.0), Tools()
        run = await self.driver.run(Setup(tools, gates, [Call("c1", "lookup", {"text": "a"})]))
        await asyncio.to_thread(gates.close)
        assert tools.ran == []
        assert "blocked" in run.outputs["c1"]

    async def test_exception_in_the_gate_blocks_the_call(self) -> None:
        """An exception in the gate blocks the call."""
        tools = Tools()
        gate = create_gate(compile_rules(RULES).registry)

        def broken() -> Any:
            manager = gate._new_manager()
            manager.pass_at_once = manager.handle_tool_call = lambda *_: 1 / 0  # type: ignore[assignment]
            return manager

        gate.new_manager = broken  # type: ignore[method-assign]
        run = await self.driver.run(Setup(tools, Gates(gate), [Call("c1", "lookup", {"text": "a"})]))
        assert tools.ran == []
        assert "blocked" in run.outputs["c1"]

    async def test_a_call_waits_across_a_restart(self, tmp_path: Path) -> None:
        """A run pauses while its call waits; resumed elsewhere, it gets the approval given in between.

        The server has restarted by then. The call runs once, and each server asks the operator once.
        """
        if not self.driver.pauses:
            pytest.skip("this framework cannot pause")
        tools = Tools()
        calls = [Call("c1", "lookup", {"text": "a"}), Call("c2", "push", {"branch": "main"})]
        async with place("at a server", tmp_path) as where:
            run = await self.driver.run(Setup(tools, where.gates(), calls, pause_after=0.0))
            assert where.operator.asked == ["push"]
        assert run.paused is not None
        assert "push" not in tools.names()
        async with place("at a server", tmp_path) as where:
            assert where.server is not None
            gates = where.gates()
            again = await self.driver.resume(Setup(tools, gates, calls), run.paused)
            assert again.paused is not None
            assert "push" not in tools.names()
            [request] = await until(where.server.hub.approvals)
            await where.server.hub.decide(request.id, approved=True, by="ben")
            await until_decided(where, "c2")
            await asyncio.to_thread(gates.close)
            last = await self.driver.resume(Setup(tools, where.gates(), calls), again.paused)
            assert where.operator.asked == ["push"]
        assert last.paused is None
        assert "pushed main" in last.outputs["c2"]
        assert tools.names() == ["lookup", "push"]

    @PLACES
    async def test_coverage(self, kind: str, tmp_path: Path) -> None:
        """The probe is blocked, and the report names the gated tools."""
        async with place(kind, tmp_path) as where:
            found = await self.driver.coverage(Tools(), where.gates())
        assert {"lookup", "rm", "deploy"} <= set(found.gated)
