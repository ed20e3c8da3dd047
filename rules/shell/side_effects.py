"""Effects of a shell command besides running the programs that it names (G-74).

Names show which programs run, but not with which variables, on which files or through which other
program. A grant by names may cover a command only if it has no such effects.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import syntax_tree
from .command import text_of
from .command_reader import _CommandReader  # pyright: ignore[reportPrivateUsage]
from .programs.options import UnclearError
from .syntax_tree import Source, UnreadableError
from .words import unquoted

if TYPE_CHECKING:
    from tree_sitter import Node

UNREAD = "the command cannot be read to its end"

_GROUPED = "the command has a group, a loop or a condition"
_REASONS = {
    "variable_assignment": "the command sets a variable",
    "variable_assignments": "the command sets a variable",
    "declaration_command": "the command sets a variable",
    "unset_command": "the command sets a variable",
    "function_definition": "the command defines a function",
    "herestring_redirect": "the command redirects its input",
    "heredoc_redirect": "the command redirects its input",
    "command_substitution": "the command holds a substitution",
    "process_substitution": "the command holds a substitution",
    "expansion": "the command holds a substitution",
    "simple_expansion": "the command holds a substitution",
    "arithmetic_expansion": "the command holds a substitution",
    "&": "the command runs something in the background",
    "subshell": _GROUPED,
    "compound_statement": _GROUPED,
    "if_statement": _GROUPED,
    "while_statement": _GROUPED,
    "for_statement": _GROUPED,
    "c_style_for_statement": _GROUPED,
    "case_statement": _GROUPED,
    "test_command": _GROUPED,
    "negated_command": "the command negates its success",
}
_REDIRECTED = "the command redirects to or from a file"
_KEPT = re.compile(r"\{[A-Za-z_]\w*\}[<>]")
"""A redirection that stores its stream in a variable, which the grammar parses as two words."""
_LAUNCHED = "the command runs a program through another one"
_STREAM = re.compile(r"[<>]&([0-9]+|-)\Z")
_FILE = re.compile(r"(?:&>>?|[<>]+[|&]?)[ \t]*")


def not_plain(text: str) -> str | None:
    """Reason why a command does more than run the programs that it names; `None` if it does not.

    A plain command has no assignments, substitutions, functions, groups, loops, conditions, `!`,
    launchers or background parts. Its only redirections are between its own streams and to `/dev/null`.
    Raises nothing.
    """
    reader = _PlainReader(shell="bash")
    try:
        reader.script(text)
    except (UnreadableError, UnclearError):
        return UNREAD
    except Exception:  # whatever happens must not count as plain
        return UNREAD
    return reader.why or (None if reader.reason is None else UNREAD)


class _PlainReader(_CommandReader):
    """Parses a command, and what it runs in turn; `why` is the first reason why it is not plain."""

    why: str | None = None

    def _text(self, text: str) -> None:
        source = Source.of(text)
        self.why = self.why or _reason(syntax_tree.parse(source), source)
        if _KEPT.search(text):
            self.why = self.why or _REDIRECTED
        _CommandReader._text(self, text)

    def _deeper(self) -> None:
        self.why = self.why or _LAUNCHED
        _CommandReader._deeper(self)


def _reason(root: Node, source: Source) -> str | None:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        reason = _REASONS.get(node.type)
        if reason is None and node.type == "file_redirect" and not _is_harmless(text_of(node, source)):
            reason = _REDIRECTED
        if reason is not None:
            return reason
        waiting += reversed(node.children)
    return None


def _is_harmless(redirect: str) -> bool:
    """Return whether a redirection as written joins the command's own streams or is to `/dev/null`."""
    written = redirect.lstrip("0123456789")
    if _STREAM.fullmatch(written):
        return True
    operator = _FILE.match(written)
    return operator is not None and unquoted(written[operator.end() :]) == "/dev/null"
