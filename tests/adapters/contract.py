"""Everything that an adapter has to do, tested through the real framework with a fake model.

A framework's test file gives a `Driver` and subclasses `AdapterContract`; what is its own, such as the
tools that cannot be seen, it tests beside that.
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
"""A gate of these rules that nobody answers."""

EDITED = {"env": "staging"}
NOTICE = 'A person changed env from "prod" to "staging" before it ran.'


def approving(rules: str, **edited: Any) -> Gate:
    """A gate of rules whose operator approves each call, with the input `edited` where there is one."""
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
    """Plain functions that note what they ran with; each framework makes its tools of them."""

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
    """A run of an agent: texts that the model read, by call, and what is kept where it has paused."""

    outputs: dict[str, str]
    paused: object = None


@dataclass(frozen=True)
class Setup:
    """Parts of a run: a fake model makes `calls` in one answer, and then ends."""

    tools: Tools
    gate: Gates
    calls: Sequence[Call]
    thread: str = "t1"
    pause_after: float | None = None


class Driver(ABC):
    """One framework: its agent with a fake model."""

    pauses = False
    failure = "3 tests failed"
    """Text that the model reads of a tool that raised."""

    @abstractmethod
    async def run(self, setup: Setup) -> Run: ...

    async def resume(self, setup: Setup, paused: Any) -> Run:
        """Go on in a new process: all that is left of the earlier run is `paused`."""
        raise NotImplementedError

    @abstractmethod
    async def coverage(self, tools: Tools, gate: Gates) -> Coverage: ...


@dataclass
class Operator:
    """Answers approval requests by tool, once `answers` has one."""

    answers: dict[str, ApprovalAnswer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def confirm(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Answer a gate in this process, in whatever event loop it asks."""
        self.asked.append(request.tool)

        async def answer() -> ApprovalAnswer | None:
            return self.answers.get(request.tool)

        return await until(answer)

    async def decide(self, server: Served) -> None:
        """Answer a server's requests as long as this runs."""
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
    """A place of the gate. `gates` are fresh ones, as a new process has them."""

    operator: Operator
    server: Served | None
    _opened: list[Gates] = field(default_factory=list)

    def gates(self, *, rules: str = RULES) -> Gates:
        """Gates with nothing in memory; in this process, with nothing at all."""
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
    """A gate `here`, or `at a server`."""
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
    """Wait until a call at a server has been approved, and may run."""
    server = where.server
    assert server is not None

    async def is_decided() -> bool:
        return (await server.hub.session(session)).calls[call_id].status == "running"

    await until(is_decided)


def page_program(
    page: str, directory: Path, monkeypatch: pytest.MonkeyPatch, model: object
) -> dict[str, Any]:
    """Run the programs of an adapter's page with a fake model, and return what they have named.

    For frameworks that the environment of `test_blocks.py`, which runs the other pages, does not have.
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
        """Of calls made at once one runs, one is blocked, one runs as edited, and one fails."""
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
        """The operator's reason is the call's result."""
        tools = Tools()
        async with place(kind, tmp_path) as where:
            where.operator.answers["deploy"] = ApprovalAnswer(False, reason="not on a Friday")
            calls = [Call("c1", "deploy", {"env": "prod"})]
            run = await self.driver.run(Setup(tools, where.gates(), calls))
        assert tools.ran == []
        assert "not on a Friday" in run.outputs["c1"]

    @PLACES
    async def test_a_thread_keeps_its_nets(self, kind: str, tmp_path: Path) -> None:
        """A later run of the thread goes on with its state; another thread has its own."""
        tools = Tools(fails=False)
        async with place(kind, tmp_path) as where:
            gates = where.gates()
            await self.driver.run(Setup(tools, gates, [Call("c1", "test")]))
            other = await self.driver.run(Setup(tools, gates, [Call("c2", "release")], thread="t2"))
            same = await self.driver.run(Setup(tools, gates, [Call("c3", "release")]))
        assert "blocked" in other.outputs["c2"]
        assert "released" in same.outputs["c3"]
        assert tools.names() == ["release", "test"]

    async def test_a_restarted_program_finds_its_nets(self, tmp_path: Path) -> None:
        """A thread whose session is at a server goes on with its state in another process."""
        tools = Tools(fails=False)
        async with place("at a server", tmp_path) as where:
            await self.driver.run(Setup(tools, where.gates(), [Call("c1", "test")]))
            same = await self.driver.run(Setup(tools, where.gates(), [Call("c2", "release")]))
        assert "released" in same.outputs["c2"]

    @PLACES
    async def test_a_failure_opens_nothing(self, kind: str, tmp_path: Path) -> None:
        """The nets hear of a failed call as failed, though the framework has made a text of its error."""
        tools = Tools()
        async with place(kind, tmp_path) as where:
            gates = where.gates()
            await self.driver.run(Setup(tools, gates, [Call("c1", "test")]))
            run = await self.driver.run(Setup(tools, gates, [Call("c2", "release")]))
        assert "blocked" in run.outputs["c2"]
        assert tools.names() == ["test"]

    async def test_results_are_of_allowed_calls(self, tmp_path: Path) -> None:
        """The record has a result of each call that ran, with how it ended, and none of a blocked one."""
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

    async def test_no_server(self, tmp_path: Path) -> None:
        """Nothing runs while the gate does not answer, and the model reads why."""
        async with served(tmp_path) as server:
            url, token = server.url, server.agent
        gates, tools = Gates(url, token=token, patience=0.0), Tools()
        run = await self.driver.run(Setup(tools, gates, [Call("c1", "lookup", {"text": "a"})]))
        await asyncio.to_thread(gates.close)
        assert tools.ran == []
        assert "blocked" in run.outputs["c1"]

    async def test_a_gate_that_raises(self) -> None:
        """An exception of the gate itself blocks."""
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
        """A run stops while its call waits; gone on with elsewhere, it gets the answer given meanwhile.

        The server was started again by then. Nothing runs twice, and the operator is asked once at each.
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
        """The probe is blocked, and the report names the tools that the gate sees."""
        async with place(kind, tmp_path) as where:
            found = await self.driver.coverage(Tools(), where.gates())
        assert {"lookup", "rm", "deploy"} <= set(found.gated)
