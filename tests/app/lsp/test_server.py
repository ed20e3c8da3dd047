"""`interlock lsp` over its standard streams, driven by the client of pygls."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from interlock.app.cli.main import main
from tests.support.approvals import RULES as APPROVALS
from tests.support.approvals import tired

RULES = """\
let team = ["ada@x.org", "bob@x.org"]
map bash.command ./deploy as deploy
require lint befor deploy
require human-approval before send when every input.to in team
"""


class Client(LanguageClient):
    """A client that keeps its server's exit code."""

    code: int | None = None

    async def server_exit(self, server: asyncio.subprocess.Process) -> None:
        self.code = server.returncode


class Editor:
    """An editor with one document and the diagnostics that the server sent for it."""

    def __init__(self, client: LanguageClient, uri: str) -> None:
        self.client = client
        self.uri = uri
        self.document = types.TextDocumentIdentifier(uri)
        self.shown: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self._version = 0

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def show(params: types.PublishDiagnosticsParams) -> None:
            self.shown.put_nowait(params)

    def open(self, text: str) -> None:
        item = types.TextDocumentItem(self.uri, "interlock-rules", self._next(), text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def type(self, text: str) -> None:
        change = types.TextDocumentContentChangeWholeDocument(text)
        document = types.VersionedTextDocumentIdentifier(uri=self.uri, version=self._next())
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    async def problems(self) -> list[tuple[str, int, int, int]]:
        """First line of each problem of the latest text, with line, start and end."""
        while (shown := await self.shown.get()).version not in (None, self._version):
            pass
        return [
            (
                d.message.partition("\n")[0],
                d.range.start.line,
                d.range.start.character,
                d.range.end.character,
            )
            for d in shown.diagnostics
        ]

    def _next(self) -> int:
        self._version += 1
        return self._version


@asynccontextmanager
async def editor(
    folder: Path, name: str, *encodings: str, line: tuple[str, ...] = ()
) -> AsyncIterator[Editor]:
    """An editor of a file, connected to a server process that was started with these options."""
    client = Client("test", "1")
    connection = Editor(client, (folder / name).as_uri())
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "INTERLOCK_CONFIG_DIR": str(folder)}
    await client.start_io(sys.executable, "-m", "interlock.app.cli", "lsp", *line, env=env, cwd=folder)
    kinds = [types.PositionEncodingKind(each) for each in encodings] or None
    general = types.GeneralClientCapabilities(position_encodings=kinds)
    capabilities = types.ClientCapabilities(general=general)
    answer = await client.initialize_async(types.InitializeParams(capabilities, root_uri=folder.as_uri()))
    assert answer.capabilities.position_encoding == (encodings[0] if encodings else "utf-16")
    client.initialized(types.InitializedParams())
    try:
        yield connection
    finally:
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()
    assert client.code == 0


def at(line: int, character: int) -> types.Position:
    return types.Position(line, character)


class TestRulesFile:
    @pytest.mark.slow
    async def test_is_served_from_open_to_close(self, tmp_path: Path) -> None:
        """A file is opened, corrected by a proposed fix, queried, renamed in, and closed."""
        async with editor(tmp_path, "a.rules") as my:
            my.open(RULES)
            assert await my.problems() == [("expected 'before' at position 3, got 'befor'", 2, 13, 18)]

            whole = types.Range(at(2, 0), at(2, 5))
            context = types.CodeActionContext([])
            actions = await my.client.text_document_code_action_async(
                types.CodeActionParams(my.document, whole, context)
            )
            assert actions is not None
            [action] = actions
            assert isinstance(action, types.CodeAction)
            assert action.edit is not None
            assert action.edit.changes is not None
            [edit] = action.edit.changes[my.uri]
            assert (edit.new_text, edit.range) == ("before", types.Range(at(2, 13), at(2, 18)))

            my.type("blok a\n" * 30)
            assert len(await my.problems()) == 30
            whole = types.Range(at(0, 0), at(29, 0))
            many = await my.client.text_document_code_action_async(
                types.CodeActionParams(my.document, whole, context)
            )
            assert many is not None
            assert len(many) == 20

            my.type(RULES.replace("befor ", "before "))
            assert await my.problems() == []
            hover = await my.client.text_document_hover_async(types.HoverParams(my.document, at(2, 22)))
            assert hover is not None
            assert isinstance(hover.contents, types.MarkupContent)
            assert "a successful lint unlocks one deploy" in hover.contents.value
            assert "  lint → deploy" in hover.contents.value

            found = await my.client.text_document_definition_async(
                types.DefinitionParams(my.document, at(2, 22))
            )
            assert isinstance(found, list)
            assert [each.range for each in found if isinstance(each, types.Location)] == [
                types.Range(at(1, 29), at(1, 35))
            ]
            used = await my.client.text_document_references_async(
                types.ReferenceParams(types.ReferenceContext(False), my.document, at(0, 5))
            )
            assert used is not None
            assert [each.range for each in used] == [types.Range(at(3, 58), at(3, 62))]
            listed = await my.client.text_document_document_symbol_async(
                types.DocumentSymbolParams(my.document)
            )
            assert listed is not None
            assert [each.name for each in listed][2] == "require lint before deploy"

            place = types.PrepareRenameParams(my.document, at(0, 5))
            ready = await my.client.text_document_prepare_rename_async(place)
            assert ready == types.PrepareRenamePlaceholder(types.Range(at(0, 4), at(0, 8)), "team")
            change = await my.client.text_document_rename_async(
                types.RenameParams(my.document, at(0, 5), "crew")
            )
            assert change is not None
            assert change.changes is not None
            assert [each.range.start for each in change.changes[my.uri]] == [at(0, 4), at(3, 58)]
            with pytest.raises(JsonRpcException, match="input"):
                await my.client.text_document_rename_async(
                    types.RenameParams(my.document, at(0, 5), "input")
                )

            my.client.text_document_did_close(types.DidCloseTextDocumentParams(my.document))
            assert await my.problems() == []

    @pytest.mark.slow
    async def test_completion_uses_changed_value_files(self, tmp_path: Path) -> None:
        """Words are proposed in an unfinished line. A file of values is read again after it changes."""
        text = 'let payees = lines "payees.txt"\nblock pay when not input.to in payees\nrequire pa'
        async with editor(tmp_path, "a.rules") as my:
            my.open(text)
            [missing, _] = await my.problems()
            assert missing == ("'payees.txt': no such file of values", 0, 19, 31)
            items = await my.client.text_document_completion_async(
                types.CompletionParams(my.document, at(2, 10))
            )
            assert isinstance(items, list)
            assert {"human-approval", "pay"} <= {each.label for each in items}
            [pay] = [each for each in items if each.label == "pay"]
            assert isinstance(pay.text_edit, types.TextEdit)
            assert pay.text_edit.range == types.Range(at(2, 8), at(2, 10))

            (tmp_path / "payees.txt").write_text("ada\nbob\n")
            my.type(text.rpartition("\n")[0])
            assert await my.problems() == []
            (tmp_path / "payees.txt").unlink()
            my.client.text_document_did_save(types.DidSaveTextDocumentParams(my.document))
            assert [each[0] for each in await my.problems()] == [missing[0]]

    @pytest.mark.slow
    async def test_uses_the_editors_position_encoding(self, tmp_path: Path) -> None:
        """If the editor counts bytes, the server counts bytes, too."""
        async with editor(tmp_path, "a.rules", "utf-8") as my:
            my.open('block rm when input.a = "é😀" an input.b = 1\n')
            [(_, line, first, last)] = await my.problems()
            assert (line, last - first) == (0, 2)
            assert first == len('block rm when input.a = "é😀" '.encode())


@pytest.mark.slow
class TestJournal:
    async def test_adds_answers_and_names(self, tmp_path: Path) -> None:
        """A rule shows how often it asked, and fields of recorded calls are proposed."""
        journal = tired(tmp_path / "my.db")
        async with editor(tmp_path, "deploy.rules", line=("--db", str(journal))) as my:
            my.open(f"{APPROVALS}block ")
            lenses = await my.client.text_document_code_lens_async(types.CodeLensParams(my.document))
            assert lenses is not None
            assert lenses[0].command is not None
            assert lenses[0].command.title == "asked 30 times, approved 30"
            assert [each.range.start for each in lenses] == [at(0, 0), at(1, 0), at(2, 0)]
            my.type("require human-approval before x when ")
            items = await my.client.text_document_completion_async(
                types.CompletionParams(my.document, at(0, 37))
            )
            assert isinstance(items, list)
            assert {"input.env", "input.commit"} <= {each.label for each in items}


class TestCommand:
    def test_missing_library_names_the_extra(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The message names the extra, and no server starts."""
        monkeypatch.setattr("interlock.app.cli.rules.lsp.find_spec", lambda _name: None)
        assert main(["lsp"]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "pip install 'interlock[lsp]'" in printed.err


@pytest.mark.slow
class TestScenarios:
    async def test_are_checked_with_their_rules(self, tmp_path: Path) -> None:
        """Errors in scenarios are shown first, then those of the used rules, at the `use` line."""
        good = 'use a.rules\nscenario "x"\n  call deploy\n  expect block\n'
        async with editor(tmp_path, "a_test.rules") as my:
            my.open(good.replace("block", "blok"))
            [(message, line, *_)] = await my.problems()
            assert (message.split(" ")[0], line) == ("expected", 3)
            my.type(good)
            [(message, line, *_)] = await my.problems()
            assert (message, line) == (f"no such rules file: {tmp_path}/a.rules", 0)
            (tmp_path / "a.rules").write_text("blok deploy\n")
            my.type(good)
            [(message, line, *_)] = await my.problems()
            assert message.startswith(f"{tmp_path}/a.rules:1:1: unknown keyword 'blok'")
            (tmp_path / "a.rules").write_text("block deploy\n")
            my.type(good)
            assert await my.problems() == []
