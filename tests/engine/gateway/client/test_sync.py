"""The client without an event loop: the same answers from any thread, and a clean end."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from interlock.engine import Blocked, SyncAgentClient
from interlock.engine.gateway import GatewayError, RequestFailedError

from ..served import Served, served, until

T = TypeVar("T")
ASKS = "require human-approval before deploy"


def client(server: Served) -> SyncAgentClient:
    return SyncAgentClient(server.url, server.agent, patience=5.0)


async def approve(server: Served, **options: object) -> None:
    request = (await until(server.hub.approvals))[0]
    outcome = await server.hub.decide(request.id, approved=True, by="ada", **options)  # type: ignore[arg-type]
    assert outcome.ok, outcome.message


def square(number: int) -> int:
    return number * number


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread beside the server's loop and return its result."""
    return await asyncio.to_thread(work)


class TestPlan:
    async def test_approved(self, tmp_path: Path) -> None:
        """A plan is submitted and answered like a call."""
        async with served(tmp_path, rules=f"require human-approval before plan\n{ASKS}") as server:

            def work() -> tuple[str, str]:
                with client(server) as interlock, interlock.session("bot") as gate:
                    planned = gate.plan([{"tool": "deploy"}], title="Release 1.4")
                    return planned.outcome, gate.call("deploy", {}).outcome

            going = asyncio.ensure_future(in_thread(work))
            await approve(server)
            assert await going == ("allow", "allow")


class TestGating:
    @pytest.mark.slow
    async def test_runs_in_the_thread_that_calls(self, tmp_path: Path) -> None:
        """The deploy is blocked until a test passed; the function runs in the caller's thread."""
        threads: list[threading.Thread] = []

        def deploy(env: str) -> str:
            threads.append(threading.current_thread())
            return f"deployed to {env}"

        def work() -> str:
            with client(server) as interlock, interlock.session("bot") as session:
                gated = session.gate(deploy)
                with pytest.raises(Blocked, match="requires a successful call to test"):
                    gated("prod")
                session(lambda: "Error: 1 failed", name="test")()
                assert session.call("deploy", {}).outcome == "block"
                session(lambda: "12 passed", name="test")()
                threads.append(threading.current_thread())
                return gated(env="prod")

        async with served(tmp_path) as server:
            running = asyncio.create_task(in_thread(work))
            await approve(server, input={"env": "staging"})
            assert await running == "deployed to staging"
            assert await server.hub.sessions() == []
        assert threads[0] is threads[1]

    async def test_openai_tool_calls_get_same_answers(self, tmp_path: Path) -> None:
        """Entries of an OpenAI answer get the same answers as from the async client."""
        entry = {"id": "1", "function": {"name": "test", "arguments": "{}"}}
        blocked = {"id": "2", "function": {"name": "rm", "arguments": "{}"}}

        def work() -> list[object]:
            with client(server) as interlock, interlock.session("bot") as session:
                assert "deploy" in session.prompt()
                assert session.explain("rm", {}).outcome == "block"
                session.report_message("user", "Ship it")
                tools = {"test": lambda: 1 / 0, "rm": lambda: None}
                return [session.run(each, tools)["content"] for each in (entry, blocked)]

        async with served(tmp_path) as server:
            failed, refused = await in_thread(work)
        assert failed == "Error: test failed: ZeroDivisionError: division by zero"
        assert str(refused).startswith("Error: rm was not run: ")

    async def test_threads_share_a_session(self, tmp_path: Path) -> None:
        """Threads share a session, and one that waits for an operator does not block the others."""

        def work() -> list[object]:
            with (
                client(server) as interlock,
                interlock.session("bot") as session,
                ThreadPoolExecutor(9) as threads,
            ):
                slow = threads.submit(session.gate(lambda: "deployed", name="deploy"))
                fast = list(threads.map(session.gate(square), range(40)))
                assert not slow.done()
                finished.set()
                return [slow.result(), *fast]

        async with served(tmp_path, rules=ASKS) as server:
            finished = threading.Event()
            running = asyncio.create_task(in_thread(work))
            await asyncio.to_thread(finished.wait, 60)
            await approve(server)
            assert await running == ["deployed", *map(square, range(40))]

    async def test_async_functions_need_the_other_client(self, tmp_path: Path) -> None:
        """A gated async function raises an error, because its coroutine would count as a success."""

        async def deploy() -> None: ...

        def work() -> None:
            with client(server) as interlock, interlock.session("bot") as session:
                with pytest.raises(TypeError, match="deploy is async"):
                    session.gate(deploy)
                with pytest.raises(TypeError, match="test is async"):
                    session.gate(lambda now=True: deploy() if now else None, name="test")()
                assert session.call("deploy", {}).outcome == "block"

        async with served(tmp_path) as server:
            await in_thread(work)


class TestEnd:
    async def test_leaves_no_thread(self, tmp_path: Path) -> None:
        """Closing a client ends its loop and thread, and a later call raises an error."""

        def work() -> None:
            with client(server) as interlock:
                session = interlock.open("bot")
            assert threads_of_clients() == []
            interlock.close()
            with pytest.raises(RuntimeError, match="closed: open another"):
                session.call("list", {})
            with client(server) as interlock:
                resumed = interlock.resume(session.id)
                assert resumed.call("list", {}).outcome == "allow"
                resumed.close()
                with pytest.raises(RequestFailedError, match="it was closed"):
                    resumed.call("list", {})

        async with served(tmp_path) as server:
            await in_thread(work)

    async def test_closing_ends_a_waiting_thread(self, tmp_path: Path) -> None:
        """A thread that waits for an operator gets an error when another thread closes the client."""

        def work() -> None:
            interlock = client(server)
            with ThreadPoolExecutor(1) as threads:
                waits = threads.submit(interlock.open("bot").call, "deploy", {})
                waiting.set()
                asked.wait(60)
                interlock.close()
                with pytest.raises(Exception, match=r"lost|closed"):
                    waits.result()

        async with served(tmp_path, rules=ASKS) as server:
            waiting, asked = threading.Event(), threading.Event()
            running = asyncio.create_task(in_thread(work))
            await until(server.hub.approvals)
            asked.set()
            await running

    @pytest.mark.slow
    async def test_closing_raises_in_calling_threads(self, tmp_path: Path) -> None:
        """Threads that use a client while it closes get an error and do not wait forever."""

        def work() -> None:
            interlock = client(server)
            session = interlock.open("bot")
            started = threading.Event()

            def calls() -> None:
                while True:
                    started.set()
                    session.prompt()

            with ThreadPoolExecutor(4) as threads:
                running = [threads.submit(calls) for _ in range(4)]
                started.wait()
                interlock.close()
                for each in running:
                    assert isinstance(each.exception(60), RuntimeError | GatewayError)

        async with served(tmp_path) as server:
            for _ in range(5):
                await in_thread(work)

    async def test_unreachable_server_ends_the_thread_with_error(self, tmp_path: Path) -> None:
        """A client that cannot connect ends its thread with the error."""
        with pytest.raises(Exception, match="No Interlock server answers"):
            await in_thread(SyncAgentClient("ws://127.0.0.1:9", "x" * 43, patience=0.0).__enter__)
        assert threads_of_clients() == []

    @pytest.mark.slow
    async def test_forked_child_gets_an_error(self, tmp_path: Path) -> None:
        """A forked child gets an error that it needs its own client, instead of waiting forever."""

        def work() -> str:
            with client(server) as interlock, interlock.session("bot") as session:
                context = multiprocessing.get_context("fork")
                answers = context.SimpleQueue()
                child = context.Process(target=lambda: answers.put(problem(session.prompt)))
                child.start()
                found: str = answers.get()
                child.join()
                return found

        async with served(tmp_path) as server:
            assert "after the fork" in await in_thread(work)


def threads_of_clients() -> list[str]:
    """Return the names of the clients' threads."""
    return [each.name for each in threading.enumerate() if each.name.startswith("interlock")]


def problem(work: Callable[[], object]) -> str:
    """Return the text of the error that `work` raises."""
    try:
        work()
    except RuntimeError as error:
        return str(error)
    return ""
