"""Previews of a call's changes, made before an operator decides and kept with the request."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic import BaseModel

from interlock.engine import Agent, EditTool, LocalRuntime, ScriptedModel, ToolContext, define_tool
from interlock.engine.agents import C, Runtime, T, task_tool
from interlock.engine.agents.tools import diff
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.model.events import ApprovalRequested, JournalEvent
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules


@pytest.fixture(autouse=True)
def long_preview_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limit of previews, which none of these tests is about."""
    monkeypatch.setattr(diff, "PREVIEW_SECONDS", 9.0)


async def first_preview(hub: Hub, agent: Agent, rules: str) -> tuple[str, str | None]:
    """Run `agent` to its first request; return the session and the preview of the request."""
    events = hub.subscribe()
    session = await hub.open_session(agent, SessionConfig(compile_rules(rules).registry))
    await hub.send(session, "go")
    async with asyncio.timeout(10):
        async for event in events:
            if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                return session, event.body.preview
    raise AssertionError("nothing was asked")


class TestPreview:
    async def test_request_contains_the_diff(self, hub: Hub, tmp_path: Path) -> None:
        """The request contains the diff of the file, and a denied call leaves the file unchanged."""
        (tmp_path / "a.py").write_text("one\nold\n")
        edit = C(edit={"path": "a.py", "old_string": "old", "new_string": "new"})
        agent = Agent(ScriptedModel([edit, T("ok")]), tools=[EditTool], runtime=LocalRuntime(tmp_path))
        session, preview = await first_preview(hub, agent, "require human-approval before edit")
        assert preview is not None
        assert "-old" in preview.splitlines()
        assert "+new" in preview.splitlines()
        [request] = await hub.approvals()
        assert request.preview == preview
        assert fold(await hub.recorded(session)).approvals[request.id].preview == preview
        await hub.decide(request.id, approved=False, by="maria")
        await hub.wait(session)
        assert (tmp_path / "a.py").read_text() == "one\nold\n"

    async def test_failing_preview_does_not_prevent_the_request(self, hub: Hub) -> None:
        """If a tool's preview raises, the request is made without a preview."""

        class Nothing(BaseModel):
            pass

        async def preview(given: Nothing, runtime: Runtime) -> str:
            raise OSError("no such place")

        async def run(given: Nothing, ctx: ToolContext) -> str:
            return "ran"

        tool = define_tool("act", "Act.", Nothing, run, preview=preview)
        agent = Agent(ScriptedModel([C(act={}), T("ok")]), tools=[tool])
        session, said = await first_preview(hub, agent, "require human-approval before act")
        assert said is None
        [request] = await hub.approvals()
        assert (await hub.decide(request.id, approved=True, by="maria")).ok
        await hub.wait(session)
        assert (await hub.session(session)).calls[request.call_id].output == "ran"

    async def test_abort_during_preview_makes_no_request(self, hub: Hub) -> None:
        """Aborting during a slow preview ends the run without a request."""

        class Nothing(BaseModel):
            pass

        started = asyncio.Event()

        async def preview(given: Nothing, runtime: Runtime) -> str:
            started.set()
            await asyncio.sleep(60)
            return "late"

        async def run(given: Nothing, ctx: ToolContext) -> str:
            return "ran"

        tool = define_tool("act", "Act.", Nothing, run, preview=preview)
        agent = Agent(ScriptedModel([C(act={}), T("ok")]), tools=[tool])
        rules = compile_rules("require human-approval before act")
        session = await hub.open_session(agent, SessionConfig(rules.registry))
        await hub.send(session, "go")
        await started.wait()
        await hub.abort(session, "stop")
        await hub.wait(session)
        state = await hub.session(session)
        assert [c.status for c in state.calls.values()] != ["done"]
        assert state.approvals == {}
        kinds = [type(e.body) for e in await hub.recorded(session)]
        assert ApprovalRequested not in kinds


class Named(BaseModel):
    """A file path and the complete content of the file."""

    file_path: str
    content: str


async def put_file(given: Named, ctx: ToolContext) -> str:
    """Write the file in the session's runtime."""
    await ctx.runtime.write_file(given.file_path, given.content)
    return "put"


def writing_agent(
    folder: Path, path: str, content: str, *, name: str = "write", agent: str = "agent"
) -> Agent:
    """An agent with one tool that writes files in `folder` and has no preview."""
    tool = define_tool(name, "Put a file.", Named, put_file)
    call = C(c1=(name, {"file_path": path, "content": content}))
    model = ScriptedModel([call, T("ok")])
    return Agent(model, name=agent, tools=[tool], runtime=LocalRuntime(folder))


class TestWrittenContent:
    """A tool without a preview that takes a path and complete content."""

    @pytest.mark.variants
    @pytest.mark.parametrize("name", ["write", "mcp__files__saveDocument"])
    async def test_compared_with_the_current_file(self, hub: Hub, tmp_path: Path, name: str) -> None:
        """The new content is compared with the current file in the session's working directory."""
        (tmp_path / "a.py").write_text("one\ntwo\n")
        agent = writing_agent(tmp_path, "a.py", "one\n2\n", name=name)
        _, preview = await first_preview(hub, agent, f"require human-approval before {name}")
        assert preview is not None
        assert preview.splitlines()[0] == "Compared with what a.py holds now:"
        assert preview.splitlines()[-3:] == [" one", "-two", "+2"]

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (None, "There is no file a.py yet:"),
            (b"a\0b", "is a binary file"),
            (b"\xff\xfe", "is not UTF-8 text"),
            (b"x" * 800_000, "has more than"),
        ],
    )
    async def test_uncomparable_file_shows_added_lines_only(
        self, hub: Hub, tmp_path: Path, content: bytes | None, said: str
    ) -> None:
        """A new, non-text or too large file is shown as added lines only, with the reason."""
        if content is not None:
            (tmp_path / "a.py").write_bytes(content)
        agent = writing_agent(tmp_path, "a.py", "one\ntwo\n")
        _, preview = await first_preview(hub, agent, "require human-approval before write")
        assert preview is not None
        assert said in preview.splitlines()[0]
        assert preview.splitlines()[-2:] == ["+one", "+two"]

    @pytest.mark.slow
    async def test_path_that_is_a_directory(self, hub: Hub, tmp_path: Path) -> None:
        """The preview reports that the path is a directory and not a file."""
        _, preview = await first_preview(
            hub, writing_agent(tmp_path, ".", "one\n"), "require human-approval before write"
        )
        assert preview is not None
        assert ". is a directory, not a file." in preview

    async def test_appending_tool_gets_no_full_diff(self, hub: Hub, tmp_path: Path) -> None:
        """A tool whose name says that it appends gets no diff of the complete file."""
        (tmp_path / "a.py").write_text("one\n")
        agent = writing_agent(tmp_path, "a.py", "two\n", name="append_file")
        _, preview = await first_preview(hub, agent, "require human-approval before append_file")
        assert preview is None

    @pytest.mark.slow
    async def test_line_breaks_in_path_add_no_lines(self, hub: Hub, tmp_path: Path) -> None:
        """Line breaks in a path do not create lines in the diff."""
        agent = writing_agent(tmp_path, "a\n@@ -1 +1 @@\n+harmless", "evil\n")
        _, preview = await first_preview(hub, agent, "require human-approval before write")
        assert preview is not None
        assert [line for line in preview.splitlines() if line[:2] in ("@@", "+h", "+e")] == [
            "@@ -0,0 +1 @@",
            "+evil",
        ]

    async def test_secret_in_existing_file_is_masked(self, hub: Hub, tmp_path: Path) -> None:
        """A secret in the existing file is masked."""
        (tmp_path / "a.env").write_text("API_TOKEN=hunter2hunter2\n")
        agent = writing_agent(tmp_path, "a.env", "EMPTY=1\n")
        await first_preview(hub, agent, "require human-approval before write")
        [request] = await hub.approvals()
        assert request.preview is not None
        assert "-API_TOKEN=" in request.preview
        assert "hunter2" not in request.preview

    @pytest.mark.slow
    async def test_a_subagents_file(self, hub: Hub, tmp_path: Path) -> None:
        """A subagent's file is compared in the runtime of its parent, where it will be written."""
        (tmp_path / "here").mkdir()
        (tmp_path / "there").mkdir()
        (tmp_path / "here" / "a.py").write_text("here\n")
        (tmp_path / "there" / "a.py").write_text("there\n")
        child = writing_agent(tmp_path / "there", "a.py", "new\n", agent="helper")
        model = ScriptedModel([C(task_helper={"prompt": "go"}), T("ok")])
        parent = Agent(model, tools=[task_tool(child)], runtime=LocalRuntime(tmp_path / "here"))
        _, preview = await first_preview(hub, parent, "require human-approval before write")
        assert preview is not None
        assert "-here" in preview
        [request] = await hub.approvals()
        await hub.decide(request.id, approved=True, by="maria")
        await hub.wait(request.session)
        assert (tmp_path / "here" / "a.py").read_text() == "new\n"


class TestFileThatChanges:
    """A file that changes between the preview and the approval."""

    @pytest.mark.variants
    @pytest.mark.parametrize("change", ["written", "removed"])
    async def test_approval_is_refused_and_requested_again(
        self, hub: Hub, tmp_path: Path, change: str
    ) -> None:
        """The approval is refused, and the call gets a new request with the new diff."""
        (tmp_path / "a.py").write_text("one\n")
        agent = writing_agent(tmp_path, "a.py", "new\n")
        session, _ = await first_preview(hub, agent, "require human-approval before write")
        [first] = await hub.approvals()
        events = hub.subscribe()
        if change == "written":
            (tmp_path / "a.py").write_text("two\n")
        else:
            (tmp_path / "a.py").unlink()
        outcome = await hub.decide(first.id, approved=True, by="maria")
        assert not outcome.ok
        assert "has changed since it was shown" in outcome.message
        async with asyncio.timeout(10):
            async for event in events:
                if isinstance(event, JournalEvent) and isinstance(event.body, ApprovalRequested):
                    break
        [again] = await hub.approvals()
        assert again.preview is not None
        assert ("-two" in again.preview) == (change == "written")
        assert "-one" not in again.preview
        assert (await hub.decide(again.id, approved=True, by="maria")).ok
        await hub.wait(session)
        assert (tmp_path / "a.py").read_text() == "new\n"

    @pytest.mark.slow
    async def test_changed_context_lines_invalidate_approval(self, hub: Hub, tmp_path: Path) -> None:
        """A change in the context lines of an edit also invalidates the approval."""
        (tmp_path / "a.py").write_text("one\nold\n")
        edit = C(edit={"path": "a.py", "old_string": "old", "new_string": "new"})
        agent = Agent(ScriptedModel([edit, T("ok")]), tools=[EditTool], runtime=LocalRuntime(tmp_path))
        await first_preview(hub, agent, "require human-approval before edit")
        [request] = await hub.approvals()
        (tmp_path / "a.py").write_text("if False:\nold\n")
        assert not (await hub.decide(request.id, approved=True, by="maria")).ok

    @pytest.mark.slow
    async def test_denial_counts_although_file_changed(self, hub: Hub, tmp_path: Path) -> None:
        """A denial counts even if the file has changed."""
        (tmp_path / "a.py").write_text("one\n")
        session, _ = await first_preview(
            hub, writing_agent(tmp_path, "a.py", "new\n"), "require human-approval before write"
        )
        [request] = await hub.approvals()
        (tmp_path / "a.py").write_text("two\n")
        assert (await hub.decide(request.id, approved=False, by="maria")).ok
        await hub.wait(session)
        assert (tmp_path / "a.py").read_text() == "two\n"
