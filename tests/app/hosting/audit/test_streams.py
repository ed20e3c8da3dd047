"""Streams of commands: a server and a headless run send their record, including its last events."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from interlock.app.config.loader import SettingsError
from interlock.app.hosting.audit import streams
from interlock.app.hosting.audit.settings import AuditSettings
from interlock.app.hosting.audit.streams import AuditStreams
from interlock.app.hosting.monitoring.metrics import Metrics
from interlock.engine.gateway.cluster.shared_hub import open_hub
from interlock.engine.history.audit.stream_check import StreamCheck, check_stream
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.postgres.pool import reading
from interlock.engine.sessions.config import SessionConfig
from tests.app.cli.server.test_serve import serving
from tests.app.hosting.test_certificate import line_with
from tests.engine.gateway.served import served
from tests.engine.support.external_agent import AGENT
from tests.support.command import command

from .receivers import Posts, checked, posts, until


def check(*files: Path) -> StreamCheck:
    return check_stream((each.name, each.read_bytes().splitlines(keepends=True)) for each in files)


def settings_in(folder: Path, text: str) -> None:
    """Write the user's settings for commands that run in a folder."""
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "interlock.toml").write_text(text)


class TestCommands:
    @pytest.mark.slow
    @pytest.mark.sqlite("one file is read by its path")
    def test_headless_run_sends_its_complete_record(self, tmp_path: Path) -> None:
        """Each run sends its complete record, and verify-stream confirms it."""
        settings_in(tmp_path, '[audit]\nstream = "file:audit.jsonl"\n')
        env = {"INTERLOCK_CONFIG_DIR": str(tmp_path / "config"), "HOME": str(tmp_path)}
        line = ("demo", "--headless", "--answer", "approve", "--db", "j.db")
        for _ in range(2):
            assert command(tmp_path, *line, env=env).returncode == 0
        found = check(tmp_path / "config" / "audit.jsonl")
        reader = open_reader(tmp_path / "j.db")
        assert found.lines == sum(each.events for each in reader.sessions(None))
        assert (found.sessions, found.faults) == (2, ())
        done = command(tmp_path, "history", "verify-stream", "config/audit.jsonl", env=env)
        assert done.returncode == 0
        assert "✓" in done.stdout

    @pytest.mark.slow
    async def test_server_sends_its_events_until_its_end(self, tmp_path: Path) -> None:
        """`serve` sends its agents' events, and the rest when it ends."""
        async with posts(Posts()) as receiver:
            url = f"http://127.0.0.1:{receiver.port}/in"
            settings_in(tmp_path, f'[audit]\nstream = "{url}"\n')
            options = ("--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
            async with serving(
                tmp_path, *options, INTERLOCK_CONFIG_DIR=str(tmp_path / "config")
            ) as server:
                gate = await server.agent().open("bot")
                await gate.call("test", {}, call_id="t1")
                await until(lambda: any(b"call.decided" in line for line in receiver.lines))
                code, _ = await server.ended()
                assert code == 0
        assert b'"status":"' in receiver.lines[-1]
        assert checked(receiver.lines).faults == ()

    @pytest.mark.slow
    async def test_metrics_show_a_failing_receiver(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Metrics show a failing receiver by its backlog and failures, under a name without secrets."""
        monkeypatch.setattr(streams, "WATCHED_EVERY", 0.02)
        async with served(tmp_path) as server:
            settings = AuditSettings(stream=("http://127.0.0.1:9/SECRET",))
            found = AuditStreams(server.hub, settings, print)
            await found.start()
            metrics = Metrics(server.hub, server.gateway, found)
            await server.agent_client().open("bot")
            await until(lambda: found.states[0].failures)
            await until(lambda: found.states[0].backlog.events)
            text = metrics.text().decode()
            await found.finish()
        label = '{stream="http://127.0.0.1:9"}'
        assert f"interlock_audit_stream_sending{label} 1.0" in text
        assert f"interlock_audit_stream_sent_events_total{label} 0.0" in text
        assert f"interlock_audit_stream_failures_total{label} " in text
        assert f"interlock_audit_stream_backlog_events{label} 0.0" not in text
        assert f"interlock_audit_stream_oldest_seconds{label} " in text
        assert "SECRET" not in text

    @pytest.mark.slow
    async def test_no_call_waits_for_a_receiver(self, tmp_path: Path) -> None:
        """While a receiver does not answer, calls are still judged and recorded."""
        silent = await asyncio.start_server(lambda *_: asyncio.sleep(3600), "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        async with served(tmp_path) as server:
            found = AuditStreams(
                server.hub, AuditSettings(stream=(f"syslog:tcp://127.0.0.1:{port}",)), print
            )
            other = AuditStreams(server.hub, AuditSettings(stream=(f"http://127.0.0.1:{port}/",)), print)
            await found.start()
            await other.start()
            async with server.agent_client() as client:
                gate = await client.open("bot")
                for number in range(50):
                    call = f"c{number}"
                    assert (await gate.call("test", {}, call_id=call)).outcome == "allow"
                    await gate.result(call, "ok")
            assert other.states[0].sent == 0
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(streams, "LAST_SECONDS", 0.1)
                await found.finish()
                await other.finish()
        silent.close()


class TestChange:
    """Settings that are read again while a server runs."""

    async def test_new_secret_applies_to_later_posts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """New settings apply to later posts. No event is missing, and the counts continue."""
        monkeypatch.setattr(streams, "EVERY", 0.02)
        async with posts(Posts()) as receiver, served(tmp_path) as server:
            url = f"http://127.0.0.1:{receiver.port}/in"
            found = AuditStreams(
                server.hub, AuditSettings(stream=(url,), headers={"X-Key": "old"}), print
            )
            await found.start()
            await server.agent_client().open("one")
            await until(lambda: found.states[0].sent)
            sent = found.states[0].sent
            await found.change(AuditSettings(stream=(url,), headers={"X-Key": "new"}))
            assert found.states[0].sent >= sent
            posted = len(receiver.taken)
            await server.agent_client(server.other).open("two")
            await until(lambda: checked(receiver.lines).sessions == 2)
            await found.finish()
        assert {headers["X-Key"] for headers, _ in receiver.taken[:posted]} == {"old"}
        assert {headers["X-Key"] for headers, _ in receiver.taken[posted:]} == {"new"}
        assert checked(receiver.lines).faults == ()

    async def test_file_gets_a_new_format(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The same file gets a new format. A path that cannot be written changes nothing."""
        monkeypatch.setattr(streams, "EVERY", 0.02)
        file = tmp_path / "audit.jsonl"
        before = AuditSettings(stream=(f"file:{file}",))
        async with served(tmp_path) as server:
            found = AuditStreams(server.hub, before, print)
            await found.start()
            await server.agent_client().open("one")
            await until(file.read_bytes)
            with pytest.raises(SettingsError, match="cannot be opened"):
                await found.change(AuditSettings(stream=(f"file:{file}", f"file:{tmp_path}/no/a.jsonl")))
            assert [each.name for each in found.states] == [f"file:{file}"]
            await server.agent_client(server.other).open("two")
            await until(lambda: check(file).sessions == 2)
            await found.change(AuditSettings(stream=(f"file:{file}",), format="ocsf"))
            await server.agent_client().open("three")
            await until(lambda: b'"activity_id"' in file.read_bytes())
            assert check(file).faults == ()
            await found.change(None)
            assert found.states == []
            size = file.stat().st_size
            await server.agent_client().open("four")
            await found.finish()
        assert file.stat().st_size == size

    async def test_equal_public_names_get_separate_metrics(self, tmp_path: Path) -> None:
        """Receivers whose addresses have the same public name get separate metrics."""
        urls = tuple(f"http://127.0.0.1:9/{each}" for each in "ab")
        async with served(tmp_path) as server:
            found = AuditStreams(server.hub, AuditSettings(stream=urls), print)
            await found.start()
            names = [each.name for each in found.states]
            await found.finish()
        assert names == ["http://127.0.0.1:9", "http://127.0.0.1:9 (2)"]

    @pytest.mark.slow
    async def test_server_reads_the_table_on_sighup(self, tmp_path: Path) -> None:
        """On SIGHUP a server reads the table again, even a new one. An error changes nothing."""
        file = tmp_path / "config" / "audit.jsonl"
        settings_in(tmp_path, "")
        env = {"INTERLOCK_CONFIG_DIR": str(tmp_path / "config")}
        async with serving(tmp_path, "--listen", "127.0.0.1:0", **env) as server:

            async def hang_up(answer: str) -> None:
                server.process.send_signal(signal.SIGHUP)
                await line_with(server.process.stderr, answer)

            settings_in(tmp_path, '[audit]\nstream = "file:audit.jsonl"\n')
            await hang_up(f"[audit] was read again: file:{file}")
            settings_in(tmp_path, "[audit]\nstream = 7\n")
            await hang_up("audit streams stay as they are")
            await server.agent().open("bot")
            await until(lambda: file.exists() and file.read_bytes())
            settings_in(tmp_path, "")
            await hang_up("[audit] was read again: there is none")
        assert check(file).faults == ()


class TestServers:
    async def test_other_server_continues_the_stream(
        self, postgresql: PostgresLocation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two servers send each event; when the sending server ends, the other one continues."""
        monkeypatch.setattr(streams, "EVERY", 0.02)
        hubs = [await asyncio.to_thread(open_hub, postgresql) for _ in range(2)]
        async with posts(Posts()) as receiver:
            url = f"http://127.0.0.1:{receiver.port}/in"
            found = [AuditStreams(hub, AuditSettings(stream=(url,)), print) for hub in hubs]
            for hub in hubs:
                await hub.share()
            for each in found:
                await each.start()
            for hub, session in zip(hubs, ("here", "there"), strict=True):
                await hub.open_external(AGENT, SessionConfig({}, by="ada"), session_id=session)
            await until(lambda: checked(receiver.lines).sessions == 2)
            assert sorted(each.states[0].sending for each in found) == [False, True]
            sender = next(n for n, each in enumerate(found) if each.states[0].sending)
            await hubs[sender].close()
            await found[sender].finish()
            other = 1 - sender
            await until(lambda: found[other].states[0].sending)
            await hubs[other].open_external(AGENT, SessionConfig({}, by="ada"), session_id="later")
            await until(lambda: checked(receiver.lines).sessions == 3)
            await hubs[other].close()
            await found[other].finish()
        with reading(postgresql) as connection:
            [(events,)] = connection.execute("SELECT count(*) FROM event").fetchall()
        result = checked(receiver.lines)
        assert (result.lines - result.repeated, result.faults) == (events, ())
