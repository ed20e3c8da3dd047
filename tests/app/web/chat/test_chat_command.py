"""`interlock web` with a Slack app in the user's settings, as operators start it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiohttp import ClientSession

from interlock.app.cli.main import main
from interlock.app.hosting.notifications.slack import ChatTerms, button_value
from interlock.app.web.serving import Chat
from interlock.engine.history.model.state import ApprovalState

from ....engine.gateway.served import until
from ..test_web_command import Started, started
from .slack_app import MARIA, SECRET, payload, signed

SETTINGS = """\
[notify]
after = "1h"
include_input = true

[notify.chat.slack]
webhook = "https://hooks.slack.com/services/T012/B012/s3cr3t"
signing_secret_file = "slack.secret"

[operators.ada]

"""
NAMED = f'[operators.maria]\nrole = "decide"\nslack = "{MARIA}"\n'
NOWHERE = "https://nowhere.invalid/x"
"""An address that is not Slack's, so that the server sends no answer."""


def write(directory: Path, text: str) -> None:
    secret = directory / "slack.secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    (directory / "interlock.toml").write_text(text)
    (directory / "low.rules").write_text("require human-approval before lint risk low\n")


async def posted(web: Started, body: bytes, headers: Mapping[str, str]) -> int:
    async with (
        ClientSession() as session,
        session.post(f"{web.page}/chat/slack", data=body, headers=headers) as answer,
    ):
        return answer.status


async def clicked(web: Started, request: ApprovalState) -> int:
    value = button_value(SECRET, "approve", request.id, request.digest or "")
    return await posted(web, *signed(payload(value, response_url=NOWHERE)))


class TestCommand:
    async def test_click_decides_until_settings_are_removed(self, tmp_path: Path) -> None:
        """With Slack settings a click decides; after a SIGHUP without them, no click decides."""
        write(tmp_path, SETTINGS + NAMED)
        async with (
            started(tmp_path, rules="low.rules") as web,
            web.agent() as program,
            program.session("bot") as bot,
            web.console() as console,
        ):
            first = asyncio.ensure_future(bot.call("lint", {"text": "a.py"}))
            [request] = await until(console.approvals)
            assert await clicked(web, request) == 200
            assert (await first).outcome == "allow"
            assert web.decided_by() == ["maria"]
            write(tmp_path, "")
            web.process.send_signal(signal.SIGHUP)
            second = asyncio.ensure_future(bot.call("lint", {"text": "b.py"}))
            [request] = await until(console.approvals)

            async def is_gone() -> bool:
                body, headers = signed(None, secret="another")
                return await posted(web, body, headers) == 404

            await until(is_gone)
            assert await clicked(web, request) == 404
            assert [each.id for each in await console.approvals()] == [request.id]
            assert not second.done()
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)

    async def test_without_settings(self, tmp_path: Path) -> None:
        """Without Slack settings there is no route for clicks."""
        write(tmp_path, "")
        async with (
            started(tmp_path, rules="low.rules") as web,
            ClientSession() as session,
            session.post(f"{web.page}/chat/slack", data=b"x") as answer,
            session.post(f"{web.page}/nothing", data=b"x") as other,
        ):
            assert answer.status == other.status == 403

    def test_without_the_secret(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Without the secret's file the command does not start; the error names the missing file."""
        write(tmp_path, SETTINGS + NAMED)
        (tmp_path / "slack.secret").unlink()
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        assert main(["web", "--listen", "127.0.0.1:0", "--rules", "low.rules"]) == 2
        assert "there is no file" in capsys.readouterr().err

    def test_connected_command_accepts_no_clicks(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """With `--connect` the command accepts no clicks and reports this."""
        write(tmp_path, SETTINGS + NAMED)
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        monkeypatch.delenv("INTERLOCK_TOKEN", raising=False)
        monkeypatch.chdir(tmp_path)
        assert main(["web", "--connect", "ws://127.0.0.1:1", "--listen", "127.0.0.1:0"]) == 2
        assert "clicks in Slack are not taken with --connect" in capsys.readouterr().err


class TestReadAgain:
    def test_changed_settings_take_effect(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Valid settings take effect, invalid ones change nothing, removed ones end clicks."""
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        before = ChatTerms("x", {}, shows_input=False)
        chat = Chat(before)
        assert chat.current() is before
        write(tmp_path, SETTINGS + '[operators.maria]\nslack = "maria"\n')
        assert "stay as they are" in chat.read_again()
        assert chat.current() is before
        twice = "[operators.Maria]\n"
        write(tmp_path, SETTINGS + NAMED + twice)
        assert "'maria' and 'Maria' are one person's" in chat.read_again()
        assert chat.current() is before
        write(tmp_path, SETTINGS + NAMED)
        assert chat.read_again() == f"SIGHUP: decisions from Slack are those of maria ({MARIA})"
        assert chat.current() == ChatTerms(SECRET, {MARIA: "maria"}, shows_input=True)
        write(tmp_path, "")
        assert chat.read_again() == "SIGHUP: nobody decides from Slack any more"
        assert chat.current() is None
