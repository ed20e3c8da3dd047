"""Shared work for all consoles: one frame, one write, one check of the tokens."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import pytest

from interlock.engine.gateway.protocol.tokens import Identity, TokenFile
from interlock.engine.gateway.server import event_feed as feeding
from interlock.engine.gateway.server.connection import InForce
from interlock.engine.gateway.server.event_feed import Frames
from interlock.engine.history.model.events import JournalEvent, MessageAdded
from interlock.engine.hub.hub import Streaming

from ..served import served


def event(cursor: int, text: str = "hello") -> JournalEvent:
    return JournalEvent(
        cursor=cursor,
        session="s",
        seq=cursor,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        body=MessageAdded(role="assistant", text=text),
    )


class TestFrames:
    def test_is_written_once(self) -> None:
        """Every console gets the same bytes object."""
        frames, told = Frames(), event(1)
        first = frames.of(told)
        assert first is not None
        assert b'"hello"' in first
        assert frames.of(told) is first

    def test_two_events_never_share_a_frame(self) -> None:
        """Two events never share a frame, even if they reuse a memory address."""
        frames = Frames()
        for number in range(3 * feeding.FRAMES):
            found = frames.of(event(number, f"text {number}."))
            assert found is not None
            assert f'"text {number}."'.encode() in found

    def test_cache_is_bounded(self) -> None:
        """The cache is bounded in frames and bytes, and a larger frame is sent without it."""
        frames = Frames()
        with patch.object(feeding, "FRAMES_BYTES", 1000):
            large = event(1, "x" * 2000)
            first = frames.of(large)
            assert first is not None
            assert len(first) > 2000
            assert frames.of(large) is not first
            kept = [event(number) for number in range(2, 20)]
            found = [frames.of(each) for each in kept]
            again = [frames.of(each) for each in reversed(kept)]
            assert again[0] is found[-1]
            assert again[-1] is not found[0]
            assert again[-1] == found[0]

    def test_streamed_lone_surrogate_is_skipped(self) -> None:
        """Streamed text with a lone surrogate is skipped; in a record it is an error."""
        frames = Frames()
        assert frames.of(Streaming(session="s", kind="text", text="\ud83d")) is None
        with pytest.raises(ValueError, match="surrogates"):
            frames.of(event(1, "x").model_copy(update={"session": "\ud83d"}))


class TestInForce:
    async def test_revocation_takes_effect_in_next_turn(self, tmp_path: Path) -> None:
        """A revoked token is refused from the next turn of the loop."""
        tokens = TokenFile(tmp_path / "tokens.json")
        found = tokens.find(tokens.issue("agent", "bot"))
        assert found is not None
        in_force, looks = InForce(tokens), 0

        def current(token: str) -> Identity | None:
            nonlocal looks
            looks += 1
            return TokenFile.current(tokens, token)

        with patch.object(tokens, "current", current):
            assert [in_force.identity(found.token) for _ in range(3)] == [found] * 3
            assert looks == 1
            tokens.revoke("bot")
            await asyncio.sleep(0)
            assert in_force.identity(found.token) is None
            assert looks == 2

    async def test_tokens_have_separate_states(self, tmp_path: Path) -> None:
        """Each token has its own state."""
        tokens = TokenFile(tmp_path / "tokens.json")
        bot = tokens.find(tokens.issue("agent", "bot"))
        ada = tokens.find(tokens.issue("operator", "ada"))
        assert bot is not None
        assert ada is not None
        tokens.revoke("ada")
        in_force = InForce(tokens)
        assert in_force.identity(bot.token) == bot
        assert in_force.identity(ada.token) is None


class TestAnswersTogether:
    @pytest.mark.slow
    async def test_simultaneous_calls_get_their_own_answers(self, tmp_path: Path) -> None:
        """Simultaneous calls get their own answers, although these exceed one write."""
        async with served(tmp_path) as server, server.agent_client() as client:
            gate = await client.open("bot")
            text = "x" * 4000
            answers = await asyncio.gather(
                *(gate.call("ls", {"path": f"{number} {text}"}) for number in range(100))
            )
            assert [each.input["path"] for each in answers] == [f"{n} {text}" for n in range(100)]
            assert {each.outcome for each in answers} == {"allow"}
