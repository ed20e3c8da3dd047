"""Conversations in files of JSON lines: branches, order, damage, and durability after a crash."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.agents import (
    Agent,
    AssistantMessage,
    C,
    EntryNotFoundError,
    InMemorySessionStore,
    JsonlSessionStore,
    Message,
    ProposedCall,
    ScriptedModel,
    SessionIdError,
    SessionNotFoundError,
    SummaryMessage,
    T,
    ToolMessage,
    UserMessage,
    task_tool,
)
from interlock.engine.agents.stores.base import StoredSession
from interlock.engine.agents.stores.jsonl import path_to
from tests.support.laws import examples

from ..script import noted, transcript

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ARGS = st.dictionaries(TEXTS, JSON, max_size=3)
CALLS = st.builds(ProposedCall, call_id=TEXTS, name=TEXTS, args=ARGS, malformed=st.none() | TEXTS)
MESSAGE = st.one_of(
    st.builds(UserMessage, text=TEXTS, by=st.none() | TEXTS),
    st.builds(AssistantMessage, text=TEXTS, tool_calls=st.lists(CALLS, max_size=3).map(tuple)),
    st.builds(
        ToolMessage,
        call_id=TEXTS,
        name=TEXTS,
        text=TEXTS,
        is_error=st.booleans(),
        ran=st.none() | ARGS,
    ),
    st.builds(SummaryMessage, text=TEXTS, kept=st.integers(0, 5), by=st.none() | TEXTS),
)


def user(text: str) -> UserMessage:
    return UserMessage(text=text)


async def store_with_messages(folder: Path, *texts: str, session: str = "s") -> JsonlSessionStore:
    """Return a store with user messages of these `texts`."""
    store = JsonlSessionStore(folder)
    for text in texts:
        await store.append(session, user(text))
    return store


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def files(folder: Path) -> list[Path]:
    """Return all files below `folder`."""
    return [path for path in folder.rglob("*") if path.is_file()]


def writer(folder: Path, loop: str) -> subprocess.Popen[str]:
    """Start another process that runs `loop` with `store`."""
    code = (
        "import asyncio\n"
        "from interlock.engine.agents import JsonlSessionStore, UserMessage\n"
        "async def main():\n"
        f"    store = JsonlSessionStore({str(folder)!r})\n"
        f"    {loop}\n"
        "asyncio.run(main())"
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


class TestRoundTrip:
    @pytest.mark.slow
    @settings(max_examples=examples(60), deadline=None)
    @given(st.lists(MESSAGE, max_size=8))
    def test_any_conversation(self, messages: list[Message]) -> None:
        """A-9: any conversation is loaded as appended, by this store and by a new one."""

        async def both(folder: Path) -> None:
            store = JsonlSessionStore(folder)
            for message in messages:
                await store.append("s", message)
            for each in (store, JsonlSessionStore(folder)):
                assert await each.load("s") == messages
                assert await each.exists("s") == bool(messages)

        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(both(Path(folder)))

    async def test_resumed_session_has_the_live_prompt(self, tmp_path: Path) -> None:
        """A-7, A-77: a session resumed from its file has the prompt that the live one would have had."""
        ran: list[str] = []
        model = ScriptedModel([C(note={"text": "a"}), T("one"), T("two")])
        agent = Agent(model, tools=[noted(ran)], store=JsonlSessionStore(tmp_path))
        live = await agent.create_session("s")
        await live.prompt("start", by="maria")
        again = await agent.replace(store=JsonlSessionStore(tmp_path)).resume_session("s")
        await again.prompt("more")
        assert list(model.requests[-1].messages) == [*live.messages, user("more")]

    async def test_subagent_has_its_own_file(self, tmp_path: Path) -> None:
        """Section 9: a subagent's conversation is a separate session with its own file."""
        helper = Agent(ScriptedModel([T("done")]), name="helper")
        store = JsonlSessionStore(tmp_path)
        model = ScriptedModel([C(task_helper={"prompt": "Do it"}), T("fine")])
        boss = Agent(model, tools=[task_tool(helper)], store=store)
        await (await boss.create_session("s")).prompt("go")
        [child] = [s.id for s in await store.list() if s.id != "s"]
        assert child.startswith("s/helper-")
        assert transcript(await store.load(child)) == ['user "Do it"', 'assistant "done"']

    async def test_arguments_that_json_cannot_hold_are_refused(self, tmp_path: Path) -> None:
        """A-9: arguments that could not be read back are refused, and nothing of them is written."""
        store = await store_with_messages(tmp_path, "before")
        call = ProposedCall(call_id="c", name="n", args={"x": float("nan")})
        with pytest.raises(ValueError, match="not JSON compliant"):
            await store.append("s", AssistantMessage(tool_calls=(call,)))
        assert texts(await store.load("s")) == ["before"]


class TestFormat:
    async def test_content_of_each_line(self, tmp_path: Path) -> None:
        """Section 9: each line has its entry's id, the parent's id, the time and the message."""
        noon = datetime(2026, 3, 14, 12, tzinfo=UTC)
        store = JsonlSessionStore(tmp_path, clock=lambda: noon)
        await store.append("s", user("één"))
        await store.append("s", AssistantMessage(text="two"))
        text = (tmp_path / "s.jsonl").read_text(encoding="utf-8")
        one, two = [json.loads(line) for line in text.splitlines()]
        assert one == {
            "id": one["id"],
            "parentId": None,
            "timestamp": "2026-03-14T12:00:00+00:00",
            "message": {"role": "user", "text": "één", "by": None},
        }
        assert two["parentId"] == one["id"] != two["id"]
        assert "één" in text

    async def test_only_owner_can_read_files(self, tmp_path: Path) -> None:
        """Only the owner can read files and folder, because conversations can have secrets."""
        mask = os.umask(0)
        try:
            await store_with_messages(tmp_path / "new" / "folder", "x")
        finally:
            os.umask(mask)
        modes = [
            stat.S_IMODE((tmp_path / "new" / name).stat().st_mode)
            for name in ("folder", "folder/s.jsonl")
        ]
        assert modes == [0o700, 0o600]


class TestBranches:
    async def test_continues_after_an_earlier_message(self, tmp_path: Path) -> None:
        """Section 9: a session resumed at a leaf has the messages up to it and continues from there."""
        store = JsonlSessionStore(tmp_path)
        model = ScriptedModel([T("A"), T("B"), T("C"), T("D")])
        agent = Agent(model, store=store)
        first = await agent.create_session("s")
        await first.prompt("1")
        await first.prompt("2")
        leaf = (await store.entries("s"))[1]
        branch = await agent.resume_session("s", leaf_id=leaf.id)
        await branch.prompt("2, differently")
        assert transcript(model.requests[-1].messages) == [
            'user "1"',
            'assistant "A"',
            'user "2, differently"',
        ]
        assert [e.parent_id for e in await store.entries("s")].count(leaf.id) == 2
        assert texts(await JsonlSessionStore(tmp_path).load("s")) == ["1", "A", "2, differently", "C"]

    async def test_store_and_branch_continue_independently(self, tmp_path: Path) -> None:
        """Section 9: a store and its branch continue independently in one file."""
        store = await store_with_messages(tmp_path, "1", "2")
        one = (await store.entries("s"))[0]
        branch = await store.branch("s", one.id)
        for text in ("a", "b"):
            await branch.append("s", user(text))
            await store.append("s", user(f"2{text}"))
        assert texts(await store.load("s")) == ["1", "2", "2a", "2b"]
        assert texts(await branch.load("s")) == ["1", "a", "b"]
        assert await branch.exists("s")

    async def test_unknown_session_or_entry_is_an_error(self, tmp_path: Path) -> None:
        """Section 9: an unknown session or entry is an error that names it."""
        store = await store_with_messages(tmp_path, "1")
        agent = Agent(ScriptedModel([]), store=store)
        with pytest.raises(SessionNotFoundError, match=r"^Session not found: nobody$"):
            await agent.resume_session("nobody", leaf_id="x")
        with pytest.raises(EntryNotFoundError, match=r"Session 's' has no entry 'x'; entries\(\) gives"):
            await agent.resume_session("s", leaf_id="x")

    async def test_a_store_without_branches(self) -> None:
        """Section 9: a store without branches refuses a leaf instead of ignoring it."""
        store = InMemorySessionStore()
        await store.append("s", user("1"))
        with pytest.raises(TypeError, match="InMemorySessionStore keeps no branches"):
            await Agent(ScriptedModel([]), store=store).resume_session("s", leaf_id="x")

    @settings(max_examples=examples(40), deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=12))
    def test_each_branch_has_its_messages(self, moves: list[tuple[int, int]]) -> None:
        """Section 9: for any branches, each has the messages before it and those appended to it."""

        async def play(folder: Path) -> None:
            stores, told = [await store_with_messages(folder, "0")], [["0"]]
            for number, (who, at) in enumerate(moves, 1):
                if who == 0:
                    entries = await stores[0].entries("s")
                    leaf = entries[at % len(entries)]
                    stores.append(await stores[0].branch("s", leaf.id))
                    told.append(texts([e.message for e in path_to(entries, leaf.id)]))
                else:
                    which = at % len(stores)
                    await stores[which].append("s", user(str(number)))
                    told[which].append(str(number))
            for store, expected in zip(stores, told, strict=True):
                assert texts(await store.load("s")) == expected

        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(play(Path(folder)))


class TestIds:
    @pytest.mark.parametrize(
        "session_id",
        [
            "",
            ".",
            "..",
            "../s",
            "a/../../s",
            "/etc/s",
            "a//b",
            "a/",
            "a\\b",
            "a\0b",
            "a\nb",
            "\ud800",
            "x" * 256,
        ],
    )
    async def test_path_like_ids_are_refused(self, tmp_path: Path, session_id: str) -> None:
        """Section 9: an id that would be a path elsewhere is refused by all methods."""
        store = JsonlSessionStore(tmp_path / "sessions")
        for work in (
            store.load(session_id),
            store.exists(session_id),
            store.append(session_id, user("x")),
            store.branch(session_id, "x"),
        ):
            with pytest.raises(SessionIdError, match=r"cannot name a file: .*; choose another id"):
                await work
        assert files(tmp_path) == []

    @settings(max_examples=examples(100), deadline=None)
    @given(st.lists(st.text(max_size=12), min_size=1, max_size=6, unique=True))
    def test_every_id_is_refused_or_has_its_own_file(self, ids: list[str]) -> None:
        """Section 9: every id is refused, or has its own file directly in the folder."""

        async def play(folder: Path) -> None:
            store = JsonlSessionStore(folder / "in")
            kept: list[str] = []
            for session_id in ids:
                try:
                    await store.append(session_id, user(session_id))
                except SessionIdError:
                    continue
                kept.append(session_id)
            for session_id in kept:
                assert texts(await store.load(session_id)) == [user(session_id).text]
            assert sorted(s.id for s in await store.list()) == sorted(kept)
            assert {path.parent for path in files(folder)} <= {folder / "in"}
            assert len(files(folder)) == len(kept)

        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(play(Path(folder)))

    async def test_link_does_not_lead_out_of_the_folder(self, tmp_path: Path) -> None:
        """Section 9: a link in the folder does not lead out of it either."""
        elsewhere = tmp_path / "elsewhere"
        elsewhere.write_text("secret\n")
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "s.jsonl").symlink_to(elsewhere)
        store = JsonlSessionStore(tmp_path / "in")
        for work in (store.load("s"), store.append("s", user("x"))):
            with pytest.raises(OSError, match=r"s\.jsonl"):
                await work
        assert elsewhere.read_text() == "secret\n"


class TestOrder:
    async def test_concurrent_appends_keep_their_order(self, tmp_path: Path) -> None:
        """Section 9: concurrent appends are written in the order of the calls."""
        store = JsonlSessionStore(tmp_path)
        await asyncio.gather(
            *(store.append(each, user(str(n))) for n in range(30) for each in ("s", "other"))
        )
        for each in ("s", "other"):
            assert texts(await store.load(each)) == [str(n) for n in range(30)]

    async def test_cancelled_write_is_completed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Section 9: a cancelled write is completed, and the next one follows it."""
        store = await store_with_messages(tmp_path, "1")
        loop, begun, go_on = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        real = os.fsync

        def slow(handle: int) -> None:
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(10)
            real(handle)

        monkeypatch.setattr(os, "fsync", slow)
        writing = asyncio.ensure_future(store.append("s", user("2")))
        await begun.wait()
        following = asyncio.ensure_future(store.append("s", user("3")))
        writing.cancel()
        await asyncio.sleep(0)
        assert not writing.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await writing
        await following
        assert texts(await store.load("s")) == ["1", "2", "3"]

    @pytest.mark.slow
    def test_lines_of_two_processes_are_not_mixed(self, tmp_path: Path) -> None:
        """Section 9: lines of two processes are not mixed."""
        loop = "for _ in range(20): await store.append('s', UserMessage(text='{}' + 'x' * 9000))"
        both = [writer(tmp_path, loop.format(who)) for who in "ab"]
        assert [(each.communicate(), each.returncode)[1] for each in both] == [0, 0]
        entries = asyncio.run(JsonlSessionStore(tmp_path).entries("s"))
        assert sorted(e.message.text[0] for e in entries) == ["a"] * 20 + ["b"] * 20


class TestDamage:
    async def test_lines_that_are_no_entries(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Section 9: invalid lines are skipped and logged; the rest can be used."""
        store = await store_with_messages(tmp_path, "1", "2", "3")
        path = tmp_path / "s.jsonl"
        one, two, three = path.read_bytes().splitlines()
        odd = [b"hunter2", b"[]", b'{"id": "x"}', b"\xff", b"[" * 100_000, two[:-9], one, b"  "]
        path.write_bytes(b"\n".join([one, *odd, three]) + b"\n")
        again = JsonlSessionStore(tmp_path)
        with caplog.at_level(logging.WARNING):
            assert texts(await again.load("s")) == ["1", "3"]
        said = [record.getMessage() for record in caplog.records]
        for number in range(2, 9):
            assert sum(f"s.jsonl:{number} is skipped" in line for line in said) == 1
        assert sum("s.jsonl:10 follows" in line for line in said) == 1
        assert "hunter2" not in caplog.text
        [listed] = await again.list()
        assert (listed.id, listed.messages) == ("s", 2)
        await again.append("s", user("4"))
        assert texts(await again.load("s")) == ["1", "3", "4"]
        assert texts(await store.load("s")) == ["1", "3"]

    @pytest.mark.parametrize("left", [1, 40, -2, -1])
    async def test_torn_last_line(self, tmp_path: Path, left: int) -> None:
        """Section 9: an incomplete last line after a crash does not damage the next line."""
        await store_with_messages(tmp_path, "1", "2")
        path = tmp_path / "s.jsonl"
        one, two = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(one + two[:left])
        store = await store_with_messages(tmp_path, "3")
        whole = ["2"] if left == -1 else []  # complete but for the line end
        assert texts(await store.load("s")) == ["1", *whole, "3"]
        assert texts(await JsonlSessionStore(tmp_path).load("s")) == ["1", *whole, "3"]

    async def test_full_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A-11: a message that could not be made durable is not in the file, but the next one is."""
        store = await store_with_messages(tmp_path, "1")
        before = (tmp_path / "s.jsonl").read_bytes()

        def full(handle: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space left"):
                await store.append("s", user("2"))
        assert (tmp_path / "s.jsonl").read_bytes() == before
        await store.append("s", user("3"))
        assert texts(await store.load("s")) == ["1", "3"]

    @pytest.mark.slow
    def test_appended_messages_survive_a_kill(self, tmp_path: Path) -> None:
        """A-11: messages for which `append` returned exist after the process was killed."""
        loop = (
            "for n in range(10**6): "
            "await store.append('s', UserMessage(text=str(n))); print(n, flush=True)"
        )
        with writer(tmp_path, loop) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line == "20\n":
                    break
            process.kill()
            last = max([20, *(int(line) for line in process.stdout if line.endswith("\n"))])
        store = JsonlSessionStore(tmp_path)
        kept = texts(asyncio.run(store.load("s")))
        assert kept[: last + 1] == [str(n) for n in range(last + 1)]
        asyncio.run(store.append("s", user("after")))
        assert texts(asyncio.run(store.load("s"))) == [*kept, "after"]

    async def test_store_continues_after_a_removed_message(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Section 9: a store whose last message was removed continues after the remaining ones."""
        store = await store_with_messages(tmp_path, "1", "2")
        path = tmp_path / "s.jsonl"
        path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
        assert texts(await store.load("s")) == ["1"]
        assert "Session 's' has lost its last message" in caplog.text


class TestList:
    async def test_latest_first(self, tmp_path: Path) -> None:
        """Section 9: the list has id, first words, number of messages and time, as in other stores."""
        noon = datetime(2026, 3, 14, 12, tzinfo=UTC)
        times = iter(noon + timedelta(minutes=n) for n in range(9))
        store = JsonlSessionStore(tmp_path, clock=lambda: next(times))
        assert await store.list() == []
        await store.append("a", user("first"))
        await store.append("b/c d", AssistantMessage(text="nobody spoke"))
        await store.append("a", AssistantMessage(text="hello"))
        assert await JsonlSessionStore(tmp_path).list() == [
            StoredSession("a", "first", 2, noon + timedelta(minutes=2)),
            StoredSession("b/c d", "", 1, noon + timedelta(minutes=1)),
        ]

    async def test_other_files(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Section 9: foreign, empty or unreadable files do not affect the rest of the list."""
        store = await store_with_messages(tmp_path, "1")
        (tmp_path / "notes.txt").write_text("x")
        (tmp_path / "empty.jsonl").touch()
        (tmp_path / "%2e%2e.jsonl").write_text("x")
        (tmp_path / "folder.jsonl").mkdir()
        assert [s.id for s in await store.list()] == ["s"]
        assert "%2e%2e.jsonl is skipped in the list" in caplog.text
        assert "folder.jsonl is skipped in the list" in caplog.text
        assert not await store.exists("empty")
