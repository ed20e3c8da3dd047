"""Probes: a server is healthy while it answers, and ready while its journal takes writes."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from interlock.engine.history.database.location import Location, PostgresLocation
from interlock.engine.history.journal.journal import Journal
from interlock.engine.hub import health_api
from interlock.engine.hub.hub import Hub

from .watched import watched


class TestHealth:
    async def test_health_probe_answers_with_a_fixed_text(self, tmp_path: Path) -> None:
        """The health probe answers with a fixed text."""
        async with watched(tmp_path) as watch:
            answer = await watch.get("/healthz")
            assert (answer.status_code, answer.text) == (200, "ok\n")


class TestReadiness:
    async def test_idle_server_is_ready(self, tmp_path: Path) -> None:
        """An idle server proves that its journal can be written, without a change to the record."""
        async with watched(tmp_path) as watch:
            before = watch.server.hub._journal.reader().last_cursor()
            answer = await watch.get("/readyz")
            assert (answer.status_code, answer.text) == (200, "ready\n")
            assert watch.server.hub._journal.reader().last_cursor() == before

    async def test_failing_journal_is_not_ready(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A failing journal makes the server not ready until it recovers. The reason names no file."""
        async with watched(tmp_path) as watch:
            journal = watch.server.hub._journal
            monkeypatch.setattr(journal, "_written", None)

            def fail() -> None:
                raise OSError(f"{tmp_path} is full")

            with monkeypatch.context() as patch:
                patch.setattr(journal._writer, "prove", fail)
                answer = await watch.get("/readyz")
                assert answer.status_code == 503
                assert answer.text == f"not ready: {health_api.NOT_WRITTEN}\n"
            assert (await watch.get("/readyz")).status_code == 200

    @pytest.mark.slow
    async def test_hanging_journal_is_not_ready(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A hanging disk makes the server not ready in time. Concurrent probes share one proof."""
        monkeypatch.setattr(health_api, "PROOF_SECONDS", 0.2)
        release, proofs = threading.Event(), list[int]()
        async with watched(tmp_path) as watch:
            journal = watch.server.hub._journal
            monkeypatch.setattr(journal, "_written", None)

            def hang() -> None:
                proofs.append(1)
                release.wait(30)

            monkeypatch.setattr(journal._writer, "prove", hang)
            try:
                answers = await asyncio.gather(*(watch.get("/readyz") for _ in range(5)))
                assert {each.status_code for each in answers} == {503}
                assert len(proofs) == 1
            finally:
                release.set()

    async def test_replaced_journal_is_not_ready(self, tmp_path: Path) -> None:
        """A journal whose file was replaced makes the server not ready."""
        async with watched(tmp_path) as watch:
            (tmp_path / "interlock.db").rename(tmp_path / "moved.db")
            watch.server.hub._journal._written = None
            answer = await watch.get("/readyz")
            assert answer.status_code == 503


class TestProof:
    def test_reaches_the_disk(self, tmp_path: Path) -> None:
        """Each proof adds a page to the write-ahead log, as a commit does."""
        journal = Journal.open(tmp_path / "a.db")
        try:
            sizes: list[int] = []
            for _ in range(3):
                journal.prove().result(30)
                sizes.append((tmp_path / "a.db-wal").stat().st_size)
            assert sizes[0] < sizes[1] < sizes[2]
        finally:
            journal.close()

    @pytest.mark.slow
    @pytest.mark.sqlite("its log")
    def test_many_proofs_do_not_grow_the_file(self, tmp_path: Path) -> None:
        """After thousands of proofs, file and log have not grown beyond a few megabytes."""
        journal = Journal.open(tmp_path / "a.db")
        try:
            before = (tmp_path / "a.db").stat().st_size
            for _ in range(3000):
                journal.prove().result(30)
            assert (tmp_path / "a.db").stat().st_size == before
            assert (tmp_path / "a.db-wal").stat().st_size < 8 << 20
        finally:
            journal.close()

    def test_closed_journal_gives_no_proof(self, tmp_path: Path) -> None:
        """A closed journal gives no proof."""
        journal = Journal.open(tmp_path / "a.db")
        journal.close()
        with pytest.raises(Exception, match="is closed"):
            journal.prove().result(30)

    async def test_postgresql_journal_gives_a_proof(self, postgresql: PostgresLocation) -> None:
        """A journal in PostgreSQL gives a proof, too."""
        location: Location = postgresql
        hub = await asyncio.to_thread(Hub.open, location)
        try:
            assert await hub.obstacle(5.0) is None
        finally:
            await hub.close()
