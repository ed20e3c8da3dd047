"""Language Server Protocol server for rules files and files of scenarios."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from ...engine.core.lazy_names import installed_version
from ...engine.history.database.location import Location
from ...rules.compiler import MAX_FILE_BYTES
from .analysis import Analysis, is_scenarios
from .checks import PAUSE, Checks
from .completion import proposals
from .hover import hover_text
from .journal import LatestHistory, answered_rules
from .messages import (
    code_action,
    completion_item,
    diagnostic,
    diagnostics,
    edits,
    lens_of,
    name_range,
    symbols,
)
from .navigation import (
    RenameError,
    definitions,
    outline,
    references,
    renamable,
    renamed,
    used_file,
)
from .positions import UTF_16, TextPositions
from .quick_fixes import fixes

UNNAMED = "<rules>"
"""File name of a text that has not been saved."""
MOST_CORRECTED = 20
"""Maximum problems for which fixes are offered at once, since each fix is tried first."""
TRIGGERS = (" ", ".", ",")


@dataclass(frozen=True, slots=True)
class _Document:
    """An open document: its file name and its text."""

    uri: str
    file: str
    text: str
    positions: TextPositions


def place(positions: TextPositions, position: types.Position) -> tuple[int, int]:
    """Return line and column, from 1, of an editor's position."""
    return positions.place(position.line, position.character)


class RulesServer(LanguageServer):
    """Open documents, their analyses, and data from a journal; `create_server` sets the attributes."""

    checks: Checks
    recorded: LatestHistory

    def change(self, uri: str) -> None:
        """Analyse a document that was opened or changed."""
        document = self.document(uri)
        if document is not None:
            self.checks.start(uri, document.file, document.text)
            self.recorded.refresh()

    def close(self, uri: str) -> None:
        """Discard the analysis of a closed document."""
        self.checks.stop(uri)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def publish(self, uri: str, analysis: Analysis) -> None:
        """Show the problems of a document, unless its text has changed in the meantime."""
        open_document = self.workspace.text_documents.get(uri)
        if open_document is None or open_document.source != analysis.text:
            return
        found = diagnostics(analysis, self.positions(analysis.text))
        version = open_document.version
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    def show_lenses(self) -> None:
        """Request that the editor reads the lenses above rules again, if the editor supports that."""
        workspace = self.client_capabilities.workspace
        lens = None if workspace is None else workspace.code_lens
        if lens is not None and lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    def document(self, uri: str) -> _Document | None:
        """Return an open document, or `None`. Other files are not read."""
        found = self.workspace.text_documents.get(uri)
        if found is None:
            return None
        file = to_fs_path(uri) or UNNAMED
        return _Document(uri, file, found.source, self.positions(found.source))

    def positions(self, text: str) -> TextPositions:
        """Return the positions of a text, in the encoding agreed with the editor."""
        encoding = self.workspace.position_encoding
        is_kind = isinstance(encoding, types.PositionEncodingKind)
        return TextPositions(text, encoding.value if is_kind else encoding or UTF_16)

    async def analysed(self, uri: str) -> tuple[Analysis, TextPositions] | None:
        """Return the analysis of a document's latest text; `None` if it is closed or too large."""
        found = await self.checks.latest(uri)
        if found is None or len(found.text) > MAX_FILE_BYTES:
            return None
        return found, self.positions(found.text)

    def readable(self, uri: str) -> _Document | None:
        """Return an open document that is small enough to be processed at once, or `None`."""
        found = self.document(uri)
        return None if found is None or len(found.text) > MAX_FILE_BYTES else found


async def hover(server: RulesServer, params: types.HoverParams) -> types.Hover | None:
    """Return the hover text for a position in a rules file."""
    found = await server.analysed(params.text_document.uri)
    if found is None or is_scenarios(found[0].file):
        return None
    text = hover_text(found[0], *place(found[1], params.position))
    plain = types.MarkupKind.PlainText
    return None if text is None else types.Hover(types.MarkupContent(plain, text))


def complete(server: RulesServer, params: types.CompletionParams) -> list[types.CompletionItem]:
    """Return the words that can be written at a position."""
    document = server.readable(params.text_document.uri)
    if document is None:
        return []
    line, column = place(document.positions, params.position)
    found = proposals(document.file, document.text, line, column, server.recorded.history.seen)
    return [
        completion_item(each, document.positions, line, column, rank) for rank, each in enumerate(found)
    ]


def define(server: RulesServer, params: types.DefinitionParams) -> list[types.Location]:
    """Return the lines that define a name, or the file that scenarios use."""
    document = server.readable(params.text_document.uri)
    if document is None:
        return []
    line, column = place(document.positions, params.position)
    path = used_file(document.file, document.text, line, column)
    uri = None if path is None else from_fs_path(str(Path(path).absolute()))
    if uri is not None:
        beginning = types.Position(0, 0)
        return [types.Location(uri, types.Range(beginning, beginning))]
    found = definitions(document.file, document.text, line, column)
    return [types.Location(document.uri, name_range(document.positions, each)) for each in found]


def refer(server: RulesServer, params: types.ReferenceParams) -> list[types.Location]:
    """Return the occurrences of a name."""
    document = server.readable(params.text_document.uri)
    if document is None:
        return []
    found = references(document.file, document.text, *place(document.positions, params.position))
    return [
        types.Location(document.uri, name_range(document.positions, each))
        for each in found
        if params.context.include_declaration or not each.defines
    ]


def list_symbols(server: RulesServer, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    """Return the statements of a file."""
    document = server.readable(params.text_document.uri)
    if document is None:
        return []
    return [*symbols([*outline(document.file, document.text)], document.positions)]


async def prepare_rename(
    server: RulesServer, params: types.PrepareRenameParams
) -> types.PrepareRenamePlaceholder | None:
    """Return the name that can be renamed at a position."""
    found = await server.analysed(params.text_document.uri)
    if found is None:
        return None
    analysis, positions = found
    try:
        name = renamable(analysis, *place(positions, params.position))
    except RenameError as error:
        raise JsonRpcInvalidParams(str(error)) from error
    return types.PrepareRenamePlaceholder(name_range(positions, name), name.name)


async def rename(server: RulesServer, params: types.RenameParams) -> types.WorkspaceEdit | None:
    """Return the edit that renames a name in its whole file."""
    found = await server.analysed(params.text_document.uri)
    if found is None:
        return None
    analysis, positions = found
    try:
        names = renamed(analysis, *place(positions, params.position), params.new_name)
    except RenameError as error:
        raise JsonRpcInvalidParams(str(error)) from error
    return edits(params.text_document.uri, names, positions, params.new_name)


async def correct(server: RulesServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    """Return the replacements that correct the problems of a range."""
    uri = params.text_document.uri
    analysed = await server.analysed(uri)
    if analysed is None:
        return []
    analysis, positions = analysed
    severity = types.DiagnosticSeverity
    problems = [(severity.Error, each) for each in analysis.errors]
    problems += [(severity.Warning, each) for each in analysis.warnings]
    shown = [(problem, diagnostic(problem, positions, level)) for level, problem in problems]
    first, last = params.range.start.line, params.range.end.line
    inside = [(problem, about) for problem, about in shown if first <= about.range.start.line <= last]
    return [
        code_action(uri, fix, positions, about)
        for problem, about in inside[:MOST_CORRECTED]
        for fix in fixes(analysis.text, problem)
    ]


async def list_answers(server: RulesServer, params: types.CodeLensParams) -> list[types.CodeLens]:
    """Return the answers to requests of rules, each above its rule."""
    history = await server.recorded.latest()
    document = server.readable(params.text_document.uri)
    if document is None or is_scenarios(document.file):
        return []
    found = answered_rules(document.file, document.text, history)
    return [lens_of(rule, document.positions) for rule in found]


async def check_document(
    server: RulesServer,
    params: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams,
) -> None:
    """Analyse a document that was opened or changed."""
    server.change(params.text_document.uri)


async def check_all(
    server: RulesServer, _params: types.DidSaveTextDocumentParams | types.DidChangeWatchedFilesParams
) -> None:
    """Analyse all documents again, since a file that they name may have changed."""
    for uri in [*server.workspace.text_documents]:
        server.change(uri)


async def close(server: RulesServer, params: types.DidCloseTextDocumentParams) -> None:
    """Discard a closed document."""
    server.close(params.text_document.uri)


def create_server(journal: Location, pause: float = PAUSE) -> RulesServer:
    """Create a server with all features; `journal` provides names and approval counts."""
    # Full texts are sent, because editors and Python disagree on line breaks and partial changes could be
    # misapplied.
    whole = types.TextDocumentSyncKind.Full
    server = RulesServer("interlock", installed_version(), text_document_sync_kind=whole)
    server.checks = Checks(server.publish, pause)
    server.recorded = LatestHistory(journal, server.show_lenses)
    completion = types.CompletionOptions(trigger_characters=[*TRIGGERS])
    fixing = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    server.feature(types.TEXT_DOCUMENT_DID_OPEN)(check_document)
    server.feature(types.TEXT_DOCUMENT_DID_CHANGE)(check_document)
    server.feature(types.TEXT_DOCUMENT_DID_SAVE)(check_all)
    server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)(check_all)
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(close)
    server.feature(types.TEXT_DOCUMENT_HOVER)(hover)
    server.feature(types.TEXT_DOCUMENT_COMPLETION, completion)(complete)
    server.feature(types.TEXT_DOCUMENT_DEFINITION)(define)
    server.feature(types.TEXT_DOCUMENT_REFERENCES)(refer)
    server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)(list_symbols)
    server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)(prepare_rename)
    server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))(rename)
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, fixing)(correct)
    server.feature(types.TEXT_DOCUMENT_CODE_LENS)(list_answers)
    return server


def serve(journal: Location) -> None:
    """Serve an editor over the standard streams until the editor ends the connection.

    All other output is redirected to the error stream, because the editor parses standard output as the
    protocol.
    """
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output, redirect_stdout(sys.stderr):
        server = create_server(journal)
        try:
            server.start_io(stdout=output)
        finally:
            server.recorded.close()
