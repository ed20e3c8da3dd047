"""Protocol messages for analyses, proposals and names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lsprotocol import types

from ...engine.core.sanitize import visible
from ...rules import Problem
from ...rules.editing.occurrences import Occurrence
from .analysis import Analysis
from .completion import Proposal, ProposalKind
from .journal import AnsweredRule
from .navigation import LineKind, OutlineLine
from .positions import TextPositions
from .quick_fixes import Fix

SOURCE = "interlock"
_PROPOSAL_KINDS: Mapping[ProposalKind, types.CompletionItemKind] = {
    "keyword": types.CompletionItemKind.Keyword,
    "tool": types.CompletionItemKind.Function,
    "field": types.CompletionItemKind.Field,
    "value": types.CompletionItemKind.Constant,
    "file": types.CompletionItemKind.File,
}
_LINE_KINDS: Mapping[LineKind, types.SymbolKind] = {
    "rule": types.SymbolKind.Event,
    "map": types.SymbolKind.Function,
    "let": types.SymbolKind.Constant,
    "use": types.SymbolKind.File,
    "scenario": types.SymbolKind.Method,
}


def range_of(positions: TextPositions, line: int, column: int, length: int) -> types.Range:
    """Return the range of `length` characters in a line; line and column count from 1."""
    first = positions.position(line, column)
    last = positions.position(line, column + length)
    return types.Range(types.Position(*first), types.Position(*last))


def name_range(positions: TextPositions, name: Occurrence) -> types.Range:
    """Return the range of a name."""
    return range_of(positions, name.line, name.column, len(name.name))


def problem_range(positions: TextPositions, problem: Problem) -> types.Range:
    """Return the range of a problem; for one of the whole file, the beginning of the text."""
    if not problem.line:
        return types.Range(types.Position(0, 0), types.Position(0, 0))
    length = min(problem.length, len(problem.text) - problem.column + 1)
    return range_of(positions, problem.line, problem.column, max(length, 0))


def diagnostics(analysis: Analysis, positions: TextPositions) -> list[types.Diagnostic]:
    """Return the problems of a text with their remedies, errors first."""
    error, warning = types.DiagnosticSeverity.Error, types.DiagnosticSeverity.Warning
    return [
        diagnostic(problem, positions, severity)
        for severity, problems in ((error, analysis.errors), (warning, analysis.warnings))
        for problem in problems
    ]


def diagnostic(
    problem: Problem, positions: TextPositions, severity: types.DiagnosticSeverity
) -> types.Diagnostic:
    """Return a problem with its remedy on a separate line."""
    lines = (problem.message, problem.remedy) if problem.remedy else (problem.message,)
    message = "\n".join(map(visible, lines))
    return types.Diagnostic(problem_range(positions, problem), message, severity, source=SOURCE)


def completion_item(
    proposal: Proposal, positions: TextPositions, line: int, column: int, rank: int
) -> types.CompletionItem:
    """Return an item that replaces the word before a position; the lowest `rank` is listed first."""
    length = column - proposal.start
    edit = types.TextEdit(range_of(positions, line, proposal.start, length), proposal.word)
    kind = _PROPOSAL_KINDS[proposal.kind]
    return types.CompletionItem(
        visible(proposal.word),
        kind=kind,
        text_edit=edit,
        filter_text=proposal.word,
        sort_text=f"{rank:06}",
    )


def symbols(lines: Sequence[OutlineLine], positions: TextPositions) -> Iterator[types.DocumentSymbol]:
    """Yield the outline of a file."""
    for each in lines:
        place = range_of(positions, each.line, each.column, 0)
        yield types.DocumentSymbol(each.text, _LINE_KINDS[each.kind], place, place)


def code_action(
    uri: str, fix: Fix, positions: TextPositions, about: types.Diagnostic
) -> types.CodeAction:
    """Return a replacement that corrects a problem."""
    edit = types.TextEdit(range_of(positions, fix.line, fix.column, fix.length), fix.text)
    return types.CodeAction(
        visible(fix.title),
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[about],
        edit=types.WorkspaceEdit(changes={uri: [edit]}),
    )


def edits(
    uri: str, names: Sequence[Occurrence], positions: TextPositions, name: str
) -> types.WorkspaceEdit:
    """Return the edit that changes all these names to another."""
    changes = [types.TextEdit(name_range(positions, each), name) for each in names]
    return types.WorkspaceEdit(changes={uri: changes})


def lens_of(rule: AnsweredRule, positions: TextPositions) -> types.CodeLens:
    """Return the answers to a rule's requests as a lens without an action."""
    place = range_of(positions, rule.line, 1, 0)
    return types.CodeLens(place, types.Command(rule.text, ""))
