"""The common base of all adapters: calls by the framework's ids, and the sources of decisions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from interlock.adapters.backends import Gates, GateSource
from interlock.adapters.gate import PROBE, Allow, Block, SessionGate, Wait
from interlock.engine import create_gate, create_gate_manager
from interlock.engine.gate import ApprovalAnswer, ApprovalRequest
from interlock.engine.gateway.client.sync import LoopThread
from interlock.rules import compile_rules

from ..engine.gateway.served import until
from .contract import NOTICE, PLACES, RULES, place

EMPTY: dict[str, object] = {}


def gate_of(rules: str = RULES, **how: Any) -> SessionGate:
    """Return the gate of one session in this process."""
    return Gates(create_gate(compile_rules(rules).registry, **how)).session("t1")


class TestSources:
    @pytest.mark.parametrize("kind", ["path", "text", "rules", "gate"])
    async def test_threads_have_separate_state_in_this_process(self, kind: str, tmp_path: Path) -> None:
        """With a rules file, rules or a gate, each thread has its own state."""
        path = tmp_path / "a.rules"
        path.write_text("limit publish to 1 per session\n")
        rules = compile_rules(path.read_text())
        sources: dict[str, GateSource] = {
            "path": path,
            "text": str(path),
            "rules": rules,
            "gate": create_gate(rules.registry),
        }
        gates = Gates(sources[kind])
        first = await gates.session("t1").ask("c1", "publish", EMPTY)
        second = await gates.session("t1").ask("c2", "publish", EMPTY)
        other = await gates.session("t2").ask("c1", "publish", EMPTY)
        assert [type(each) for each in (first, second, other)] == [Allow, Block, Allow]
        assert gates.session("t1") is gates.session("t1")

    @pytest.mark.parametrize("kind", ["path", "rules", "manager"])
    async def test_confirm_decides_about_approvals(
        self, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """`confirm` decides about approvals; without it the call is blocked, and the log says why."""
        path = tmp_path / "a.rules"
        path.write_text("require human-approval before deploy\n")
        rules = compile_rules(path.read_text())

        def source() -> GateSource:
            return {"path": path, "rules": rules, "manager": create_gate_manager(rules.nets)}[kind]

        asked: list[str] = []

        async def confirm(request: ApprovalRequest) -> ApprovalAnswer:
            asked.append(request.call.tool_name)
            return ApprovalAnswer(True)

        allowed = await Gates(source(), confirm=confirm).session("t1").ask("c1", "deploy", EMPTY)
        assert (type(allowed), asked) == (Allow, ["deploy"])
        blocked = await Gates(source()).session("t1").ask("c1", "deploy", EMPTY)
        assert blocked == Block("deploy requires human approval. Nobody can be asked here.")
        assert "pass confirm" in caplog.text

    @pytest.mark.parametrize("source", [create_gate(compile_rules(RULES).registry), "ws://127.0.0.1:1"])
    def test_second_confirm_is_refused(self, source: GateSource) -> None:
        """A second `confirm` is refused for a gate that has one and for a server with operators."""
        with pytest.raises(TypeError, match="confirm is "):
            Gates(source, token="t", confirm=lambda _: ApprovalAnswer(True))

    async def test_gate_manager_is_one_session(self) -> None:
        """All threads share the state of a `GateManager`."""
        gates = Gates(create_gate_manager(compile_rules("limit publish to 1 per session").registry))
        assert isinstance(await gates.session("t1").ask("c1", "publish", EMPTY), Allow)
        assert isinstance(await gates.session("t2").ask("c2", "publish", EMPTY), Block)

    def test_unsupported_source_is_an_error(self) -> None:
        """The error names the object and the expected ones."""
        with pytest.raises(TypeError, match=r"A gate is a rules file, .*, not 7"):
            Gates(7)  # type: ignore[arg-type]

    async def test_environment_names_the_server(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a source, the gate is the server of INTERLOCK_URL, for any thread name."""
        async with place("at a server", tmp_path) as where:
            assert where.server is not None
            monkeypatch.setenv("INTERLOCK_URL", where.server.url)
            monkeypatch.setenv("INTERLOCK_TOKEN", where.server.agent)
            gates = Gates()
            for key in ("a thread: ü", "a thread: ö", "x" * 300):
                assert isinstance(await gates.session(key).ask("c1", "lookup", EMPTY), Allow)
            ids = {each.id for each in await where.server.hub.sessions()}
            await asyncio.to_thread(gates.close)
        assert len(ids) == 3

    async def test_unreachable_server_blocks_calls(self) -> None:
        """Without a server, calls are blocked after the patience ends."""
        gates = Gates("ws://127.0.0.1:9", token="t" * 40, patience=0.0)
        answer = await gates.session("t1").ask("c1", "lookup", EMPTY)
        await asyncio.to_thread(gates.close)
        assert isinstance(answer, Block)
        assert "the gate did not answer" in answer.reason


class TestIds:
    @PLACES
    async def test_repeated_call_has_the_same_answer(self, kind: str, tmp_path: Path) -> None:
        """A repeated call has the same answer until its end is reported; then it is another call."""
        async with place(kind, tmp_path) as where:
            gate = where.gates().session("t1")
            assert isinstance(await gate.ask("c1", "publish", EMPTY), Allow)
            assert isinstance(await gate.ask("c1", "publish", EMPTY), Allow)
            await gate.done("c1", "published")
            assert isinstance(await gate.ask("c1", "publish", EMPTY), Block)

    @pytest.mark.variants
    @PLACES
    async def test_reused_id_of_a_running_call_is_blocked(self, kind: str, tmp_path: Path) -> None:
        """Another call under a running call's id is blocked; after a block or an end it is judged."""
        async with place(kind, tmp_path) as where:
            gate = where.gates().session("t1")
            assert isinstance(await gate.ask("1", "rm", {"path": "a"}), Block)
            assert isinstance(await gate.ask("1", "lookup", {"text": "a"}), Allow)
            assert isinstance(await gate.ask("1", "lookup", {"text": "b"}), Block)
            await gate.done("1", "found")
            assert isinstance(await gate.ask("1", "lookup", {"text": "b"}), Allow)
            await gate.done("1", "found")

    @pytest.mark.parametrize("call", [("", EMPTY), ("c1", {"x": object()})])
    async def test_invalid_call_is_blocked(self, call: tuple[str, dict[str, object]]) -> None:
        """A call without an id, or with an unreadable input, is blocked."""
        assert isinstance(await gate_of().ask(call[0], "lookup", call[1]), Block)

    async def test_result_of_a_blocked_call_unlocks_nothing(self) -> None:
        """The result of a call that was not allowed unlocks nothing."""
        gate = gate_of("block test\nrequire test before release\n")
        await gate.ask("c1", "test", EMPTY)
        await gate.done("c1", "12 passed")
        await gate.done("c9", "12 passed")
        assert isinstance(await gate.ask("c2", "release", EMPTY), Block)

    @pytest.mark.parametrize("outcome", ["failed", "unknown"])
    async def test_unsuccessful_outcome_unlocks_nothing(self, outcome: Any) -> None:
        """A failed or unknown outcome unlocks nothing."""
        gate = gate_of()
        await gate.ask("c1", "test", EMPTY)
        await gate.done("c1", "?", outcome)
        assert isinstance(await gate.ask("c2", "release", EMPTY), Block)


class Reports:
    """A decider that allows every call and records the outcomes."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, str]] = []

    def ask_at_once(self, call_id: str, tool: str, given: object) -> Allow:
        return Allow({})

    async def done(self, call_id: str, tool: str, output: str, outcome: str) -> None:
        self.ends.append((outcome, output))


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "outcome"),
        [
            (ValueError("no"), "failed"),
            (asyncio.CancelledError(), "unknown"),
            (GeneratorExit(), "unknown"),
            (KeyboardInterrupt(), "unknown"),
            (SystemExit(1), "unknown"),
        ],
    )
    async def test_errors_of_a_running_tool(self, error: BaseException, outcome: str) -> None:
        """A call whose tool raised has failed; a cut-off call has an unknown outcome."""
        reports = Reports()
        gate = SessionGate("t1", reports, LoopThread)  # type: ignore[arg-type]
        await gate.ask("c1", "test", EMPTY)
        with pytest.raises(type(error)):
            async with gate.reporting_errors("c1"):
                raise error
        [(found, output)] = reports.ends
        assert found == outcome
        assert output.startswith("ValueError" if outcome == "failed" else "Outcome unknown")


class TestWaits:
    async def test_abandoned_request_stays_open(self) -> None:
        """A request stays open while nobody waits for it, and its answer is available later."""
        answered = asyncio.Event()

        async def confirm(_: object) -> ApprovalAnswer:
            await answered.wait()
            return ApprovalAnswer(True, input={"env": "staging"})

        gate = gate_of(confirm=confirm)
        given = {"env": "prod"}
        assert isinstance(await gate.ask("c1", "deploy", given, wait=0.0), Wait)
        assert isinstance(await gate.ask("c1", "deploy", given, wait=0.0), Wait)
        answered.set()
        answer = await gate.ask("c1", "deploy", given)
        assert answer == Allow({"env": "staging"}, NOTICE)

    async def test_cancelled_call_withdraws_its_request(self, tmp_path: Path) -> None:
        """Cancelling a waiting call withdraws its request."""
        async with place("at a server", tmp_path) as where:
            assert where.server is not None
            gate = where.gates().session("t1")
            asking = asyncio.create_task(gate.ask("c1", "deploy", {"env": "prod"}))
            await until(where.server.hub.approvals)
            asking.cancel()

            async def is_empty() -> bool:
                assert where.server is not None
                return not await where.server.hub.approvals()

            await until(is_empty)

    @PLACES
    async def test_thread_without_an_event_loop_waits(self, kind: str, tmp_path: Path) -> None:
        """A thread without an event loop waits for the operator in the same way."""
        async with place(kind, tmp_path) as where:
            where.operator.answers["deploy"] = ApprovalAnswer(True, input={"env": "staging"})
            gate = where.gates().session("t1")
            given = {"env": "prod"}
            assert await asyncio.to_thread(gate.ask_now, "c1", "deploy", given) == Allow(
                {"env": "staging"}, NOTICE
            )
            await asyncio.to_thread(gate.done_now, "c1", "deployed")
            assert isinstance(await asyncio.to_thread(gate.ask_now, "c2", "rm", EMPTY), Block)

    @PLACES
    async def test_every_gate_blocks_the_probe(self, kind: str, tmp_path: Path) -> None:
        """Every gate blocks the probe, although no rule names it."""
        async with place(kind, tmp_path) as where:
            gate = where.gates().session("t1")
            assert isinstance(await gate.ask("p1", PROBE, EMPTY), Block)
            assert isinstance(await asyncio.to_thread(gate.ask_now, "p2", PROBE, EMPTY), Block)
