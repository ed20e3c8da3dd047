"""Streams to a web server for posts: a real one on loopback that fails in the usual ways."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
from pathlib import Path

import pytest
from aiohttp import web

from interlock.app.hosting.audit import posting
from interlock.app.hosting.audit.posting import PostingTarget
from interlock.app.hosting.audit.settings import AuditSettings, stream_address
from interlock.app.hosting.audit.streams import target_of
from interlock.engine.history.audit.stream import LineFormat
from interlock.engine.history.model.events import MessageAdded
from tests.engine.history.support.keeping import MASK, NOW, SECRET, recorded_at
from tests.engine.history.support.recording import opening
from tests.support.certificates import certified

from .receivers import Posts, checked, posts, sending, until

pytestmark = pytest.mark.sqlite("positions are kept beside a file")
KEY = bytes(range(32))


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "j.db"
    recorded_at(path, NOW, "s1")
    return path


def target(receiver: Posts, **options: object) -> PostingTarget:
    """The target of a stream to a receiver."""
    address = stream_address(f"http://127.0.0.1:{receiver.port}/in")
    return PostingTarget(address, **options)  # type: ignore[arg-type]


class TestPosts:
    async def test_signed_lines(self, journal: Path) -> None:
        """A body has lines of JSON. With the secret, a receiver can verify its signature."""
        async with posts(Posts()) as receiver:
            own = {"Authorization": "Bearer hush"}
            async with sending(journal, target(receiver, key=KEY, headers=own)):
                await until(lambda: len(receiver.lines) == 10)
        headers, body = receiver.taken[0]
        assert headers["Content-Type"] == "application/x-ndjson"
        assert headers["Authorization"] == "Bearer hush"
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{digest}"
        assert checked(receiver.lines).faults == ()

    async def test_activities(self, journal: Path) -> None:
        """With the OCSF format, events are masked OCSF activities."""
        form = LineFormat("ocsf", MASK)
        async with posts(Posts()) as receiver, sending(journal, target(receiver), form):
            await until(lambda: len(receiver.lines) == 10)
        assert all(b'"class_uid":6003' in line for line in receiver.lines)
        assert SECRET.encode() not in b"".join(receiver.lines)
        assert checked(receiver.lines).faults == ()

    async def test_over_tls(self, journal: Path, tmp_path: Path) -> None:
        """A receiver with a private certificate is trusted only if the settings name it."""
        certificate, key = certified(tmp_path)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        async with posts(Posts(), context) as receiver:
            address = f"https://127.0.0.1:{receiver.port}/in"
            for settings in (
                AuditSettings(stream=(address,)),
                AuditSettings(stream=(address,), ca=str(certificate)),
            ):
                trusted = settings.ca is not None
                made = target_of(stream_address(address), settings)
                async with sending(journal, made) as sent:
                    await until(lambda sent=sent: sent.heard or receiver.taken)
                assert bool(receiver.taken) == trusted
        assert checked(receiver.lines).faults == ()


class TestFailures:
    async def test_all_events_arrive_after_failures(self, journal: Path) -> None:
        """After errors and redirections all events arrive in order, and the problem is reported once."""
        failures: list[tuple[int, dict[str, str]]] = [(status, {}) for status in (500, 503, 400, 204)]
        failures[3:] = [(302, {"Location": "/elsewhere"}), (429, {"Retry-After": "0"})]
        async with posts(Posts(failures)) as receiver:
            async with sending(journal, target(receiver)) as sent:
                await until(lambda: len(receiver.lines) == 10 and len(sent.heard) == 2)
                assert sent.stream.state.failures == 5
            assert receiver.asked == 6
        assert "answered 500, expected 2xx" in sent.heard[0]
        found = checked(receiver.lines)
        assert (found.lines, found.faults) == (10, ())

    async def test_repeated_post_has_the_same_id(self, journal: Path) -> None:
        """A repeated post has the same id, so that a receiver recognises it."""
        seen: list[str] = []

        class Lossy(Posts):
            async def answer(self, request: web.Request) -> web.Response:
                seen.append(request.headers["Idempotency-Key"])
                return await super().answer(request)

        async with posts(Lossy([(502, {})])) as receiver, sending(journal, target(receiver)):
            await until(lambda: len(receiver.lines) == 10)
        assert len(seen) == 2
        assert len({*seen}) == 1

    async def test_requested_pause_is_observed(
        self, journal: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The stream waits as long as the receiver requests, up to a limit."""
        monkeypatch.setattr(posting, "LONGEST_WAIT", 0.05)
        failing = Posts([(503, {"Retry-After": "9" * 400})])
        async with posts(failing) as receiver, sending(journal, target(receiver)):
            await until(lambda: len(receiver.lines) == 10)
        assert receiver.asked == 2

    async def test_large_posts_are_split(self, journal: Path) -> None:
        """Posts are split until the receiver accepts them. A single line that is too large is cut."""
        recorded_at(journal, NOW, "s2", opening(), MessageAdded(role="user", text="x" * 50_000))
        recorded_at(journal, NOW, "s3", opening())
        async with posts(Posts(largest=5000)) as receiver, sending(journal, target(receiver)) as sent:
            await until(lambda: len(receiver.lines) == 13)
        # Splitting is not a failure, which would cause a pause.
        assert (sent.stream.state.failures, sent.heard) == (0, [])
        found = checked(receiver.lines)
        assert (found.lines, found.masked, found.faults) == (13, 1, ())

    async def test_full_rejection_is_retried_after_a_pause(self, journal: Path) -> None:
        """A receiver that rejects even the smallest post is tried again after a pause."""
        async with posts(Posts(largest=10)) as receiver, sending(journal, target(receiver)) as sent:
            await until(lambda: sent.stream.state.failures > 2)
        assert receiver.asked < 60
        assert "answered 413, expected 2xx" in sent.heard[0]

    @pytest.mark.slow
    async def test_waiting_events_are_not_kept_in_memory(self, journal: Path) -> None:
        """While the receiver is down, waiting events are counted but not kept in memory."""
        async with posts(Posts()) as receiver:
            port = receiver.port
        receiver = Posts(port=port)
        async with sending(journal, target(receiver)) as sent:
            await until(lambda: sent.stream.state.failures > 0)
            for number in range(30):
                recorded_at(journal, NOW, f"t{number}")
            await until(lambda: sent.stream.state.backlog.events == 310)
            assert sent.stream.state.backlog.oldest is not None
            async with posts(receiver):
                await until(lambda: sent.stream.state.sent == 310)
                await until(lambda: sent.stream.state.backlog.events == 0)
        found = checked(receiver.lines)
        assert (found.lines - found.repeated, found.sessions, found.faults) == (310, 31, ())
