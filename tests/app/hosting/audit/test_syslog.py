"""Streams to real syslog receivers on loopback: no event is missing, whatever happens to them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from interlock.app.hosting.audit.settings import AuditSettings, stream_address
from interlock.app.hosting.audit.streams import target_of
from interlock.app.hosting.audit.syslog import ConnectionTarget, DatagramTarget
from interlock.engine.history.audit.stream import LineFormat
from interlock.engine.history.model.events import MessageAdded
from tests.engine.history.support.keeping import MASK, NOW, SECRET, recorded_at
from tests.engine.history.support.recording import opening
from tests.support.certificates import certified

from .receivers import MESSAGE, Syslog, checked, datagrams, sending, tcp, until

pytestmark = pytest.mark.sqlite("positions are kept beside a file")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "j.db"
    recorded_at(path, NOW, "s1")
    return path


class TestMessages:
    async def test_over_udp(self, journal: Path) -> None:
        """Each event is a datagram with an RFC 5424 header and its line as the message."""
        async with datagrams() as syslog:
            target = DatagramTarget(stream_address(f"syslog:udp://127.0.0.1:{syslog.port}"), 8192)
            async with sending(journal, target, LineFormat("events", MASK)):
                await until(lambda: len(syslog.messages) == 10)
        heading = MESSAGE.fullmatch(syslog.messages[7])
        assert heading is not None
        assert heading[1] == b"110"  # log audit, informational
        assert heading[2].endswith(b"Z")
        assert heading[5] == b"call.decided"
        assert SECRET.encode() not in b"".join(syslog.messages)
        assert checked(syslog.messages).faults == ()

    async def test_over_a_local_socket(self, journal: Path, tmp_path: Path) -> None:
        """The local syslog socket gets the same messages."""
        async with datagrams(tmp_path / "log") as syslog:
            target = DatagramTarget(stream_address(f"syslog:{tmp_path / 'log'}"), 8192)
            async with sending(journal, target):
                await until(lambda: len(syslog.messages) == 10)
        assert checked(syslog.messages).faults == ()

    async def test_in_frames_over_tcp(self, journal: Path) -> None:
        """Each message follows its length in bytes, so that line breaks do not divide it."""
        recorded_at(
            journal, NOW, "s2", opening(), MessageAdded(role="user", text="größer\n→ zwei Zeilen")
        )
        async with tcp(Syslog()) as syslog:
            target = ConnectionTarget(stream_address(f"syslog:tcp://127.0.0.1:{syslog.port}"), 8192)
            async with sending(journal, target):
                await until(lambda: len(syslog.messages) == 12)
        assert all(MESSAGE.fullmatch(each) for each in syslog.messages)
        assert checked(syslog.messages).faults == ()

    async def test_over_tls(self, journal: Path, tmp_path: Path) -> None:
        """A receiver with a certificate that the settings trust gets the messages."""
        certificate, key = certified(tmp_path)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        async with tcp(Syslog(), context) as syslog:
            address = f"syslog:tls://127.0.0.1:{syslog.port}"
            settings = AuditSettings(stream=(address,), ca=str(certificate))
            async with sending(journal, target_of(stream_address(address), settings)):
                await until(lambda: len(syslog.messages) == 10)
        assert checked(syslog.messages).faults == ()

    async def test_untrusted_certificate_gets_nothing(self, journal: Path, tmp_path: Path) -> None:
        """A receiver with an untrusted certificate gets nothing, and the problem is reported."""
        certificate, key = certified(tmp_path)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        async with tcp(Syslog(), context) as syslog:
            address = f"syslog:tls://127.0.0.1:{syslog.port}"
            target = target_of(stream_address(address), AuditSettings(stream=(address,)))
            async with sending(journal, target) as sent:
                await until(lambda: sent.heard)
        assert "certificate verify failed" in sent.heard[0]
        assert syslog.messages == []

    async def test_oversized_message_is_cut(self, journal: Path) -> None:
        """No message with its header exceeds the configured size. Its content is cut."""
        recorded_at(journal, NOW, "s2", opening(), MessageAdded(role="user", text="x" * 20_000))
        async with datagrams() as syslog:
            target = DatagramTarget(stream_address(f"syslog:udp://127.0.0.1:{syslog.port}"), 2048)
            async with sending(journal, target):
                await until(lambda: len(syslog.messages) == 12)
        assert max(map(len, syslog.messages)) <= 2048
        found = checked(syslog.messages)
        assert (found.lines, found.masked, found.faults) == (12, 1, ())


class TestBrokenConnections:
    async def test_receiver_that_starts_late(self, journal: Path) -> None:
        """The stream starts when the receiver is up. The problem and its end are each reported once."""
        async with tcp(Syslog()) as syslog:
            port = syslog.port
        syslog = Syslog(port=port)
        target = ConnectionTarget(stream_address(f"syslog:tcp://127.0.0.1:{port}"), 8192)
        async with sending(journal, target) as sent:
            await until(lambda: sent.stream.state.failures > 2)
            await until(lambda: sent.stream.state.backlog.events == 10)
            async with tcp(syslog):
                await until(lambda: len(syslog.messages) >= 10 and len(sent.heard) > 1)
            assert sent.stream.state.problem is None
        assert len(sent.heard) == 2
        assert "cannot be reached" in sent.heard[0]
        assert sent.heard[1].endswith("works again.")
        assert checked(syslog.messages).faults == ()

    async def test_latest_events_are_sent_again(self, journal: Path) -> None:
        """After a broken connection, the latest events are sent again before new ones."""
        async with tcp(Syslog()) as syslog:
            target = ConnectionTarget(stream_address(f"syslog:tcp://127.0.0.1:{syslog.port}"), 8192)
            async with sending(journal, target):
                await until(lambda: len(syslog.messages) == 10)
                syslog.cut()
                recorded_at(journal, NOW, "s2")
                await until(lambda: len(syslog.messages) >= 30)
        found = checked(syslog.messages)
        assert (found.lines - found.repeated, found.faults) == (20, ())
        assert found.repeated >= 10
        assert syslog.connections >= 2

    @pytest.mark.slow
    async def test_unread_lines_are_sent_again(
        self, journal: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Lines for a receiver that accepts a connection but reads nothing are sent again."""
        monkeypatch.setattr("interlock.app.hosting.audit.syslog.PATIENCE", 0.3)
        big = MessageAdded(role="user", text="x" * 400_000)
        recorded_at(journal, NOW, "s2", opening(), *[big] * 30)
        stuck = Syslog(reads=False)
        async with tcp(stuck) as syslog:
            address = stream_address(f"syslog:tcp://127.0.0.1:{syslog.port}")
            target = ConnectionTarget(address, 1 << 20, again=600.0)
            async with sending(journal, target) as sent:
                await until(lambda: sent.stream.state.failures > 1)
                syslog.reads = True
                await until(lambda: sent.stream.state.problem is None)
                await until(lambda: len({*syslog.messages}) >= 41)
        assert checked(syslog.messages).faults == ()
