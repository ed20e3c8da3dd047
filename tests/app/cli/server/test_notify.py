"""Notifications about waiting requests: real commands, and real HTTP on loopback."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from interlock.app.cli.main import main
from interlock.app.config.loader import SettingsError
from interlock.app.config.notifications import NotifySettings, notify_settings
from interlock.app.demo.agent import TASK, open_demo
from interlock.app.hosting.notifications.delivery import SendError, host_of, post, run_command
from interlock.app.hosting.notifications.notifier import (
    Clocks,
    Notifier,
    as_bytes,
    notifications_of,
    payload_of,
    sample_request,
    send_notification,
    without_links,
)
from interlock.engine.core.approvers import Approvers, Escalation
from interlock.engine.history.model.events import ApprovalEscalated, ApprovalFused, ApprovalTakenBack
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import Hub
from tests.support.fake_hub import FakeHub

from ...support.scenes import NOW, deploy_request, release_bot


@dataclass
class Server:
    """A server that returns the given answers in turn and then repeats the last one."""

    port: int = 0
    answers: list[bytes] = field(default_factory=lambda: [b"HTTP/1.1 204 No Content\r\n\r\n"])
    heard: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook/s3cr3t"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.heard.append((head[0], headers, body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer:
            writer.write(answer)
            await writer.drain()
            writer.close()


@asynccontextmanager
async def served(*answers: bytes) -> AsyncIterator[Server]:
    server = Server()
    if answers:
        server.answers = list(answers)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


OK = b"HTTP/1.1 204 No Content\r\n\r\n"
FAILS = b"HTTP/1.1 500 Oh no\r\ncontent-length: 0\r\n\r\n"


def script(tmp_path: Path, text: str) -> tuple[str, ...]:
    """Return the command of a Python program with the given text."""
    path = tmp_path / "hook.py"
    path.write_text(text)
    return sys.executable, str(path)


def has_process_ended(pid: int) -> bool:
    """Tell whether a process has ended or is a zombie."""
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().split()[2] == "Z"


class TestPayload:
    def test_payload_has_exactly_these_fields(self) -> None:
        """The payload has exactly these fields, without the call's input."""
        request = deploy_request(risk="high", expires=NOW + timedelta(minutes=14))
        told = json.loads(as_bytes(payload_of(request, NOW, include_input=False)))
        assert told == {
            "version": 1,
            "event": "approval.waiting",
            "test": False,
            "approval_id": "ap1",
            "session": "release-bot-1f3a",
            "agent": "release-bot",
            "tool": "deploy",
            "rule": {
                "text": "require human-approval before deploy",
                "place": told["rule"]["place"],
            },
            "risk": "high",
            "since": told["since"],
            "expires": told["expires"],
            "summary": "deploy of release-bot has waited for 1 min for approval, risk high",
            "group": None,
            "digest": request.digest,
        }
        assert told["rule"]["place"].endswith("deploy.rules:5")
        assert datetime.fromisoformat(told["since"]) == request.since
        assert datetime.fromisoformat(told["expires"]) == request.expires

    def test_payload_names_the_called_group(self) -> None:
        """The payload names the approvers' group, and after an escalation the group that is called."""
        terms = Approvers("security", escalation=Escalation("oncall", 600))
        request = deploy_request(approvers=terms)
        told = payload_of(request, NOW, include_input=False)
        assert (told.event, told.group) == ("approval.waiting", "security")
        assert told.summary.endswith("for approval of security")
        told = payload_of(request.model_copy(update={"escalated": NOW}), NOW, include_input=False)
        assert (told.event, told.group) == ("approval.escalated", "oncall")
        assert told.summary.endswith("for approval, escalated to oncall")

    @pytest.mark.parametrize(
        ("minutes", "waited"), [(0.4, "less than a minute"), (14.9, "15 min"), (90, "1 h 30 min")]
    )
    def test_summary_has_waiting_time(self, minutes: float, waited: str) -> None:
        """The summary gives the waiting time in whole minutes, with hours if there are any."""
        request = deploy_request()
        now = request.since + timedelta(minutes=minutes)
        summary = payload_of(request, now, include_input=False).summary
        assert f"has waited for {waited} for approval" in summary

    def test_include_input_adds_the_input(self) -> None:
        """With `include_input` the payload has the input, as the hub shows it."""
        told = json.loads(as_bytes(payload_of(deploy_request(), NOW, include_input=True)))
        assert told["input"] == {"command": "./deploy --env prod --commit 9f31c02"}

    @pytest.mark.parametrize(
        "name",
        [
            "https://evil.example/x",
            "evil.example",
            "see www.evil now",
            "a@b.example",
            "javascript:alert(1)",
            "HTTPS://EVIL",
            "evil.example:80/y",
            "evil。example",
            "evil．example",
            "evil.пример",
            "evil.xn--p1ai",
            "evil@192.168.1.1/x",
        ],
    )
    def test_summary_links_to_nothing(self, name: str) -> None:
        """The summary masks a name that a chat would turn into a link; the field has it unchanged."""
        payload = payload_of(deploy_request(agent=name), NOW, include_input=False)
        assert payload.agent == name
        assert "[link]" in payload.summary
        assert "evil" not in payload.summary.lower()
        assert "@" not in payload.summary

    @pytest.mark.parametrize("name", ["deploy", "release-bot", "git push", "require-test-before-deploy"])
    def test_ordinary_name_is_unchanged(self, name: str) -> None:
        """An ordinary name is unchanged."""
        assert without_links(name) == name


class TestCommand:
    async def test_command_gets_one_json_object(self, tmp_path: Path) -> None:
        """The command gets one JSON object on standard input, and its arguments unchanged."""
        out = tmp_path / "out"
        command = script(
            tmp_path,
            "import json, sys\n"
            f"json.dump([sys.argv[1:], json.load(sys.stdin)], open({str(out)!r}, 'w'))\nprint('told')",
        )
        settings = NotifySettings(command=(*command, "$(id); a b"))
        assert await send_notification(settings, deploy_request(), NOW) == "told"
        words, told = json.loads(out.read_text())
        assert words == ["$(id); a b"]
        assert told["approval_id"] == "ap1"

    async def test_failing_command(self, tmp_path: Path) -> None:
        """An exit code other than 0 is a failure, reported with the last line of output."""
        command = script(
            tmp_path, "import sys\nprint('first')\nprint('no such\\x1b[2J room')\nsys.exit(3)"
        )
        with pytest.raises(SendError, match=r"ended with 3: no such\\x1b\[2J room"):
            await run_command(command, b"{}")

    async def test_missing_program_is_named(self) -> None:
        """The error names a program that does not exist."""
        with pytest.raises(SendError, match="'no-such-program-here' cannot be run: No such file"):
            await run_command(["no-such-program-here"], b"{}")

    @pytest.mark.slow
    async def test_hanging_command_is_ended_with_children(self, tmp_path: Path) -> None:
        """After its time limit the command is ended together with its child processes."""
        mark = tmp_path / "pid"
        command = script(
            tmp_path,
            "import os, subprocess, time\n"
            "child = subprocess.Popen(['sleep', '600'])\n"
            f"open({str(mark)!r}, 'w').write(str(child.pid))\ntime.sleep(600)",
        )
        sending = asyncio.create_task(run_command(command, b"{}", timeout=3.0))
        with pytest.raises(SendError, match="took longer than 3 s and was ended"):
            await sending
        pid = int(mark.read_text())
        for _ in range(500):
            if has_process_ended(pid):
                return
            await asyncio.sleep(0.01)
        raise AssertionError("its child goes on")

    async def test_unread_input_and_output_flood_do_not_block(self, tmp_path: Path) -> None:
        """Neither a large unread input nor a flood of output blocks the notification."""
        command = script(tmp_path, "print('x' * 5_000_000)")
        said = await run_command(command, b"y" * 5_000_000)
        assert said == "x" * 2000


class TestPost:
    async def test_sends_json(self) -> None:
        """The request is one POST with the object as the data of a CloudEvent."""
        async with served() as server:
            settings = NotifySettings(url=server.url, include_input=True)
            assert await send_notification(settings, deploy_request(), NOW) == "204 No Content"
        [(line, headers, body)] = server.heard
        assert line == "POST /hook/s3cr3t HTTP/1.1"
        assert headers["content-type"] == "application/cloudevents+json"
        event = json.loads(body)
        assert event["data"]["input"] == {"command": "./deploy --env prod --commit 9f31c02"}
        assert (event["specversion"], event["type"]) == ("1.0", "interlock.approval.waiting")
        assert event["subject"] == event["data"]["approval_id"]
        assert {"id", "source", "time", "datacontenttype"} <= event.keys()

    async def test_follows_no_redirection(self) -> None:
        """A notification is sent only to the configured address."""
        async with served() as other:
            moved = f"HTTP/1.1 307 Moved\r\nlocation: {other.url}\r\ncontent-length: 0\r\n\r\n"
            async with served(moved.encode()) as server:
                with pytest.raises(SendError, match="answered 307 Moved, expected 2xx"):
                    await post(server.url, b"{}")
        assert other.heard == []

    async def test_silent_server_is_a_failure(self) -> None:
        """A server that never answers is a failure, and the error omits the secret in its address."""
        async with served(b"") as server:
            with pytest.raises(SendError, match="did not answer within") as caught:
                await post(server.url, b"{}", timeout=0.2)
        assert "s3cr3t" not in str(caught.value)

    async def test_refused_connection_names_the_host(self) -> None:
        """The error about a refused connection names the host."""
        async with served() as server:
            url = server.url
        with pytest.raises(SendError, match=r"http://127\.0\.0\.1:\d+ cannot be reached"):
            await post(url, b"{}")

    def test_only_scheme_and_host_are_shown(self) -> None:
        """Only the scheme and the host of an address are shown."""
        assert host_of("https://user:pw@chat.example:8443/T0/B0?x=1") == "https://chat.example:8443"


class Waiting:
    """Sleeps that a test ends by hand."""

    def __init__(self) -> None:
        self.sleeps: list[tuple[float, asyncio.Future[None]]] = []

    def sleep(self, seconds: float) -> Awaitable[None]:
        passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sleeps.append((seconds, passed))
        return passed

    async def until(self, wanted: Callable[[], bool]) -> None:
        for _ in range(2000):
            if wanted():
                return
            await asyncio.sleep(0.005)
        raise AssertionError(self.sleeps)

    async def slept(self, number: int) -> float:
        """Wait for the sleep with this number; return its length."""
        await self.until(lambda: len(self.sleeps) >= number)
        return self.sleeps[number - 1][0]

    def wake(self, number: int) -> None:
        self.sleeps[number - 1][1].set_result(None)


@dataclass
class Desk:
    hub: FakeHub
    waiting: Waiting
    problems: list[str]
    notifier: Notifier


@asynccontextmanager
async def running(
    settings: NotifySettings, *, now: datetime = NOW, clock: Callable[[], datetime] | None = None
) -> AsyncIterator[Desk]:
    hub, waiting, problems = FakeHub(release_bot(waiting=False), now=NOW), Waiting(), []
    notifier = Notifier(hub, settings, problems.append, Clocks(clock or (lambda: now), waiting.sleep))
    task = asyncio.create_task(notifier.run())
    await waiting.until(lambda: bool(hub._subscriptions))
    try:
        yield Desk(hub, waiting, problems, notifier)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class TestWhen:
    async def test_notified_once_after_configured_time(self) -> None:
        """A request is notified once, after the configured time since it was made."""
        async with served() as server:
            settings = NotifySettings.model_validate({"url": server.url, "after": "2m"})
            async with running(settings, now=NOW + timedelta(seconds=5)) as on:
                on.hub.request(deploy_request())
                assert await on.waiting.slept(1) == 115.0
                assert server.heard == []
                on.waiting.wake(1)
                await on.waiting.until(lambda: len(server.heard) == 1)
                await asyncio.sleep(0)
                assert len(on.waiting.sleeps) == 1
            assert on.problems == []

    async def test_escalation_is_notified_at_once(self) -> None:
        """An escalation is notified at once, as the group that is called now was not notified before."""
        async with served() as server, running(NotifySettings(url=server.url)) as on:
            on.hub.request(deploy_request(approvers=Approvers("a", escalation=Escalation("oncall", 60))))
            await on.waiting.slept(1)
            request = on.hub._change("ap1", escalated=NOW)
            on.hub.publish(
                request.session,
                ApprovalEscalated(approval_id="ap1", call_id=request.call_id, group="oncall"),
            )
            assert await on.waiting.slept(2) == 0.0
            on.waiting.wake(2)
            await on.waiting.until(lambda: len(server.heard) == 1)
            assert json.loads(server.heard[0][2])["data"]["group"] == "oncall"

    async def test_fused_approval_stops_notification(self) -> None:
        """A fused approval stops the notification; taking the approval back starts it again."""
        async with served() as server, running(NotifySettings(url=server.url)) as on:
            on.hub.request(deploy_request())
            await on.waiting.slept(1)
            about = {"approval_id": "ap1", "call_id": deploy_request().call_id, "by": "jo"}
            on.hub.publish("release-bot-1f3a", ApprovalFused(until=NOW, **about))
            await on.waiting.until(on.waiting.sleeps[0][1].cancelled)
            on.hub.publish("release-bot-1f3a", ApprovalTakenBack(**about))
            await on.waiting.slept(2)
            on.waiting.wake(2)
            await on.waiting.until(lambda: len(server.heard) == 1)

    @pytest.mark.parametrize("how", ["decided", "withdrawn"])
    async def test_decided_request_is_not_notified(self, how: str) -> None:
        """A request that is decided or withdrawn in time is not notified."""
        async with served() as server, running(NotifySettings(url=server.url)) as on:
            on.hub.request(deploy_request())
            await on.waiting.slept(1)
            if how == "decided":
                on.hub.decided_elsewhere("ap1", approved=True, by="jo")
            else:
                on.hub.withdraw("ap1", "interrupted")
            await on.waiting.until(on.waiting.sleeps[0][1].cancelled)
            assert server.heard == []

    async def test_failure_is_retried_and_reported_once(self) -> None:
        """A failure is followed by up to three attempts after longer pauses, and is reported once."""
        async with (
            served(FAILS, FAILS, FAILS, OK) as server,
            running(NotifySettings(url=server.url)) as on,
        ):
            on.hub.request(deploy_request())
            pauses = []
            for number in range(1, 5):
                pauses.append(await on.waiting.slept(number))
                on.waiting.wake(number)
            await on.waiting.until(lambda: len(server.heard) == 4)
            assert pauses[1:] == [2.0, 8.0, 30.0]
            [problem] = on.problems
            assert "answered 500 Oh no" in problem
            assert "interlock notify --test" in problem

    @pytest.mark.slow
    async def test_retries_stop_after_the_third(self) -> None:
        """The attempts stop after the third repetition, and later failures are not reported again."""
        async with served(FAILS) as server, running(NotifySettings(url=server.url)) as on:
            on.hub.request(deploy_request())
            for number in range(1, 5):
                await on.waiting.slept(number)
                on.waiting.wake(number)
            await on.waiting.until(lambda: len(server.heard) == 4)
            on.hub.request(deploy_request(id="ap2"))
            await on.waiting.slept(5)
            on.waiting.wake(5)
            await on.waiting.until(lambda: len(server.heard) == 5)
            assert on.waiting.sleeps[4][0] == 120.0
            assert len(on.problems) == 1

    async def test_decided_request_is_not_retried(self) -> None:
        """A request that is decided between two attempts is not sent again."""
        async with served(FAILS) as server, running(NotifySettings(url=server.url)) as on:
            on.hub.request(deploy_request())
            await on.waiting.slept(1)
            on.waiting.wake(1)
            await on.waiting.slept(2)
            on.hub.decided_elsewhere("ap1", approved=False, by="jo")
            await on.waiting.until(on.waiting.sleeps[1][1].cancelled)
            assert len(server.heard) == 1

    async def test_hanging_notification_does_not_delay_decision(self) -> None:
        """A request can be decided while its notification hangs."""
        async with served(b"") as server, running(NotifySettings(url=server.url)) as on:
            on.hub.request(deploy_request())
            await on.waiting.slept(1)
            on.waiting.wake(1)
            await on.waiting.until(lambda: len(server.heard) == 1)
            outcome = await on.hub.decide("ap1", approved=True, by="maria")
            assert outcome.ok
            await on.waiting.until(lambda: not on.hub.states["release-bot-1f3a"].approvals)

    async def test_no_subscription_without_settings(self) -> None:
        """Without settings the hub has no subscription."""
        hub = FakeHub(now=NOW)
        async with notifications_of(hub, None, print):
            assert hub._subscriptions == []


@pytest.mark.slow
async def test_real_request_is_notified_once_without_input(tmp_path: Path) -> None:
    """With a real hub, agent and command, a request is notified once and without its input."""
    out = tmp_path / "out"
    command = script(tmp_path, f"import sys\nopen({str(out)!r}, 'a').write(sys.stdin.read() + '\\n')")
    problems: list[str] = []
    hub = Hub.open(tmp_path / "deploy.db")
    try:
        async with notifications_of(
            hub, NotifySettings(after=timedelta(0), command=command), problems.append
        ):
            session = await open_demo(hub, by="maria")
            await hub.send(session, TASK, by="maria")
            await Waiting().until(lambda: number_of_notifications(out) == 1)
            [request] = await hub.approvals()
            assert (await hub.decide(request.id, approved=True, by="maria")).ok
            await hub.wait(session)
    finally:
        await hub.close()
    assert problems == []
    [line] = out.read_text().splitlines()
    assert json.loads(line)["approval_id"] == request.id
    assert "./deploy" not in line


def number_of_notifications(out: Path) -> int:
    return out.read_text().count("\n") if out.exists() else 0


class TestSettings:
    def read(self, tmp_path: Path, text: str) -> NotifySettings | None:
        (tmp_path / "interlock.toml").write_text(text)
        return notify_settings(environ={"INTERLOCK_CONFIG_DIR": str(tmp_path)}, directory=tmp_path)

    def test_settings_give_target_time_and_input(self, tmp_path: Path) -> None:
        """The settings give a command or a URL, the waiting time, and whether to include the input."""
        assert self.read(tmp_path, "") is None
        found = self.read(tmp_path, '[notify]\nafter = "90s"\ncommand = ["tell", "me"]')
        assert found == NotifySettings(after=timedelta(seconds=90), command=("tell", "me"))
        found = self.read(tmp_path, '[notify]\nurl = "https://chat.example/x"\ninclude_input = true')
        assert found == NotifySettings(url="https://chat.example/x", include_input=True)
        assert found.after == timedelta(minutes=2)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('after = "2m"', "needs command, url or to"),
            ('command = ["x"]\nurl = "https://a.example"', "has command and url"),
            ('command = "rm -rf /"', "command: expected a program and its arguments"),
            ("command = []", "command: expected a program and its arguments"),
            ('command = [""]', "command: expected the name of a program"),
            ('url = "file:///etc/passwd"', "url: expected an address that begins with https://"),
            ('url = "https://"', "url: expected an address"),
            ('url = "https://x.example:99999/"', "url: expected an address"),
            ('url = "https://a.example"\nafter = "soon"', "after: expected a length of time"),
            ('url = "https://a.example"\ninclude_input = 1', "include_input: "),
            ('urls = "https://a.example"', "unknown setting 'urls'; known: after, command, url"),
        ],
    )
    def test_faults_name_the_place(self, tmp_path: Path, text: str, message: str) -> None:
        """The error about an unusable setting names its file."""
        with pytest.raises(SettingsError, match=r"interlock\.toml: \[notify\]") as caught:
            self.read(tmp_path, f"[notify]\n{text}")
        assert message in str(caught.value)


class TestCommandLine:
    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path / "config"))

    def test_missing_table_is_explained(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Without a `[notify]` table the command says how to add one."""
        assert main(["notify", "--test"]) == 2
        assert "Put a table [notify] into interlock.toml" in capsys.readouterr().err

    def test_test_option_sends_a_sample(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A sample marked as a test is sent, and its result is printed."""
        command = script(tmp_path, "import json, sys\nprint('got', json.load(sys.stdin)['test'])")
        (tmp_path / "config").mkdir()
        (tmp_path / "config/interlock.toml").write_text(f"[notify]\ncommand = {json.dumps(command)}")
        assert main(["notify", "--test"]) == 0
        out = capsys.readouterr().out
        assert "For a request that has waited 120 s: run" in out
        assert '"test": true' in out
        assert "It worked: got True" in out

    def test_failure_has_exit_code_1(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """If the notification fails, the exit code is 1."""
        command = script(tmp_path, "raise SystemExit(9)")
        (tmp_path / "config").mkdir()
        (tmp_path / "config/interlock.toml").write_text(f"[notify]\ncommand = {json.dumps(command)}")
        assert main(["notify", "--test"]) == 1
        assert "it failed: " in capsys.readouterr().err

    def test_command_in_directory_settings_is_refused(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A command in the working directory's settings is refused with the places that allow it."""
        (tmp_path / "interlock.toml").write_text('[notify]\ncommand = ["true"]')
        assert main(["notify", "--test"]) == 2
        assert "command: is allowed in" in capsys.readouterr().err

    def test_settings_are_shown_without_test_option(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Without `--test` the command only shows the settings, and only scheme and host of a URL."""
        (tmp_path / "config").mkdir()
        (tmp_path / "config/interlock.toml").write_text('[notify]\nurl = "https://chat.example/s3cr3t"')
        assert main(["notify"]) == 0
        out = capsys.readouterr().out
        assert "POST to https://chat.example\n" in out
        assert "s3cr3t" not in out

    def test_sample_has_type_of_a_real_request(self) -> None:
        """The sample has the type of a real request."""
        assert isinstance(sample_request(NOW), ApprovalState)
