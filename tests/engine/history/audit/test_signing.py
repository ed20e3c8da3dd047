"""The key of a journal: made once, even if two processes need it at the same time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.engine.history.audit.signing import Signer
from interlock.engine.history.errors import JournalError

Write = Callable[[bytes], object]


class TestTwoProcesses:
    @pytest.fixture
    def first(self, tmp_path: Path) -> bytes:
        """A key file as the faster process writes it."""
        Signer.open(tmp_path / "first.pem")
        return (tmp_path / "first.pem").read_bytes()

    def write_before_key_is_made(
        self, monkeypatch: pytest.MonkeyPatch, path: Path, write: Write, text: bytes
    ) -> None:
        """Let the other process write after this one found no key and before it makes one."""
        make = os.open

        def late(name: Path, *args: int) -> int:
            if name == path:
                write(text)
            return make(name, *args)

        monkeypatch.setattr(os, "open", late)

    def test_both_processes_use_one_key(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes
    ) -> None:
        """Both processes sign with the same key, so each can verify the other's signatures."""
        path = tmp_path / "key.pem"
        self.write_before_key_is_made(monkeypatch, path, path.write_bytes, first)
        assert Signer.open(path).public == Signer.open(tmp_path / "first.pem").public
        assert path.read_bytes() == first

    def test_incomplete_key_file_is_awaited(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes
    ) -> None:
        """A key file that is still incomplete is read once its writer has finished."""
        path = tmp_path / "key.pem"

        def write(text: bytes) -> None:
            path.write_bytes(text[:20])
            threading.Timer(0.1, path.write_bytes, [text]).start()

        self.write_before_key_is_made(monkeypatch, path, write, first)
        assert Signer.open(path).public == Signer.open(tmp_path / "first.pem").public

    def test_permanently_incomplete_key_file_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes
    ) -> None:
        """The file stays unchanged, and the error names it."""
        path = tmp_path / "key.pem"
        monkeypatch.setattr("interlock.engine.history.audit.signing.WRITTEN_WITHIN", 0.05)
        self.write_before_key_is_made(monkeypatch, path, path.write_bytes, first[:20])
        with pytest.raises(JournalError, match=r"key\.pem"):
            Signer.open(path)
        assert path.read_bytes() == first[:20]
