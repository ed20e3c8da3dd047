"""Parser of shell commands that finds the simple commands in a text (G-51).

The tree of the whole text is walked, so a command is found wherever it is: in lists, pipes, loops,
functions, substitutions, here-documents. Commands that a command runs in turn (`programs`) are parsed the
same way.

The text is uninspectable if the grammar and a shell might parse it differently, or if something is known
only when it runs. Script files are not read: `sh deploy.sh` is that command.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from ...engine.core.condition import Shell
from ...engine.core.frozen import frozen
from . import syntax_tree
from .command import CommandLine, as_written, document_of, literal_words, redirection, text_of
from .dialects import (
    arithmetic_in_dash,
    quote_in_dash,
    redirection_in_dash,
    shell_of,
    test_in_dash,
    word_in_zsh,
)
from .environment import assigned, matters
from .files import PATCHES, WRITERS, Files
from .invocations import (
    AssumedVariables,
    CommandWords,
    Input,
    Run,
    SameCommand,
    Script,
    ScriptFile,
    WrittenFile,
)
from .programs.builtins import hides_substitution
from .programs.nested import program, runs, runs_no_other, runs_others
from .programs.options import UnclearError, names
from .programs.shells import SHELLS
from .syntax_tree import MAX_BYTES, MAX_MARKS, MAX_TEXT, Source, UnreadableError
from .values import holds, prints, variables
from .words import Word, bares, in_text, plain, texts, unquoted, word_of

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_COMMANDS = 1_000
MAX_DEPTH = 12
MAX_NESTING = 200
_SHOWN = 60


_SURROGATE = re.compile("[\ud800-\udfff]")
_MISREAD = re.compile("[\0\v\f\r]")
_CONTINUED = re.compile(r"(?<![ \t\n])\\\n(?![ \t\n])")
_LINE_END = re.compile(r"(?<!\\)((?:\\\\)*)\\\n")
_PLAIN = re.compile(rb"[\w./:,+@%^=\- \t]+")
_NAME = re.compile(r"[\w.+@%,:][\w.+@%,:-]*\Z", re.ASCII)
_TO_FILE = re.compile(rb"(\d*)(&>>|&>|>>|>\||>&|<&|<>|<|>)[ \t]*([\w./:,+@%=-]+)")
_LITERAL = re.compile(rb"""(?:[\w./:,+@%^=-]++|'[^']*+'|"[^"$`\\]*+"|[ \t]++(?!$))++""")
"""Words and quoted texts without expansions; possessive, so that matching takes linear time."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_BEFORE_COMMENT = re.compile(rb"(?:\A|(?<!\\)[ \t\n]|[;&|(])\Z")
_PATH = re.compile(
    r"\b(?:read|for|mapfile|getopts|printf|declare|local|unset)\b[^;|&\n]*\bPATH\b|\bPATH\+?=|\bpath\+?=\("
)
_CALCULATES = re.compile(
    r"\(\(|\[\[|\$\{[^}]*[\[:]|\$\[|\blet\b|\btest\b|\[ |\b(?:declare|typeset|local) -\w*[in]"
)
_SUBSCRIPT = re.compile(r"\w\[[^\]\n]*(?:\$\(|`)|=\$?['\"][A-Za-z_]\w*\[")
_NUMBERS = re.compile(r"[^\s;|&(]<\d*-\d*>|<\d*-\d*>[^\s;|&)]")
_GIVEN = re.compile(r"\$\{(\w+):?=(.*)\}$", re.DOTALL)
_DOLLAR_QUOTED = re.compile(r"\$['\"]")
_MOVES = re.compile(
    r"\b(?:cd|pushd|chdir)\b[^;&|\n]*?(?:bin\b|/usr|/lib|[^\w./;&|\n -]|\s-\s*(?:[;&|\n]|$))"
)
_DEEPER = re.compile(rb"[(`{]|<<|\$'")
_OUTPUTS = frozenset((">", ">&", ">>", ">|", "&>", "&>>", "<>"))
_MARK_IN_IT = re.compile(rb"(?s)^`(?:[^`\\]|\\.)*`.")
_SUBSTITUTED = re.compile(r"(\\*)([$<>])\(")
_BACKQUOTED = re.compile(r"\\.|`((?:[^`\\]|\\.)*)(`?)", re.DOTALL)
_BIN = re.compile(r"(?:(?:.*/)?s?bin/|/usr/.*/|/lib\w*/.*/)([^/]+)")
_RESERVED = names("{ } ! [[ ]] if then elif else fi while until for select in do done case esac function")
_STATEMENTS = names(
    "declaration_command unset_command test_command variable_assignment variable_assignments"
)
_REDIRECTS = names("file_redirect herestring_redirect heredoc_redirect")
_LOOKED_AT = _STATEMENTS | names(
    """
    command redirected_statement comment heredoc_redirect expansion compound_statement ansi_c_string
    regex for_statement function_definition select_statement command_substitution
    """
)
"""Kinds of nodes that `_CommandReader` handles itself, instead of only visiting their children."""


@frozen
class SimpleCommand:
    """One command as written, and the `texts` in which patterns are searched: as written, without quotes,
    and without what surrounds the program and its words.

    `unclear` is the reason why not all words after its program are known (`git $x`), `None` if they are.
    `start` is then the known part: the program and the words before the first unknown one, for
    `Pattern.begins_with`.
    """

    source: str
    texts: tuple[str, ...]
    unclear: str | None = None
    start: str = ""


@dataclass(frozen=True, slots=True)
class CommandReading:
    """Simple commands of a text in the order found, and the reason why there may be others."""

    commands: tuple[SimpleCommand, ...]
    uninspectable: str | None = None


@lru_cache(maxsize=64)
def _read_short(text: str, shell: Shell | None) -> CommandReading:
    return _read(text, shell)


def read(text: str, shell: Shell | None = None) -> CommandReading:
    """Every simple command in a shell command. Raises nothing: a failure makes the text uninspectable.

    `shell` is the shell that will run the text, `None` if unknown: text that it parses differently from
    bash is uninspectable.
    """
    return _read_short(text, shell) if len(text) <= MAX_BYTES else _read(text, shell)


def views(text: str) -> tuple[str, ...]:
    """Readings of an uninspectable text: as written, and without any quotes."""
    return tuple(dict.fromkeys((text, unquoted(text), text.replace("\\\n", "").replace("\0", " "))))


def _read(text: str, shell: Shell | None) -> CommandReading:
    reader = _CommandReader(shell)
    try:
        reader.script(text)
        reader.finish(text)
    except (UnreadableError, UnclearError) as reason:
        reader.unclear(str(reason))
    except Exception as error:  # whatever happens must not open the gate
        reader.unclear(f"reading it failed: {type(error).__name__}")
    return CommandReading(tuple(reader.found.values()), reader.reason)


class _CommandReader:
    """Parse state of one text: what was found, and the first reason why that may be incomplete.

    `files` are those that it writes and runs. `subscripts` says that a text in it could run a command in
    arithmetic, `calculates` that it contains arithmetic.
    """

    def __init__(self, shell: Shell | None) -> None:
        self.shell: Shell | None = shell
        self.found: dict[tuple[str, ...], SimpleCommand] = {}
        self.files = Files()
        self.relied: list[tuple[str, str]] = []
        self.subscripts = False
        self.calculates = False
        self.path = False
        self.moves = False
        self.shell_file = False
        self.reason: str | None = None
        self.bytes = 2 * MAX_BYTES
        self.marks = MAX_MARKS
        self.documents: set[int] = set()
        self.depth = 0
        self.nested = 0

    def unclear(self, reason: str | None) -> None:
        """Record the first reason."""
        self.reason = self.reason or reason

    def finish(self, text: str) -> None:
        """Check what only the whole text shows."""
        self.unclear(
            self.files.reason(
                text, self.path, (found.texts for found in self.found.values()), runs_others
            )
        )
        for name, kind in self.relied:
            if not holds(name, kind, text):
                self.unclear(f"what '${name}' holds is known only when it runs")
        if self.calculates and self.subscripts:
            self.unclear("arithmetic in it may run what a variable holds")

    def script(self, text: str) -> None:
        """Parse a text that a shell runs."""
        if not text.strip():
            return
        if "PATH" in text or "=" in text:
            self.path = self.path or _PATH.search(unquoted(text)) is not None
        if "cd" in text or "dir" in text or "pushd" in text:
            self.moves = self.moves or _MOVES.search(text) is not None
        if ">" in text and "<" in text and self.shell in {None, "zsh"} and _NUMBERS.search(text):
            self.unclear("'<->' in it is a glob to other shells")
        if "[" in text:
            self.calculates = self.calculates or _CALCULATES.search(text) is not None
            self.subscripts = self.subscripts or _SUBSCRIPT.search(text) is not None
        if self.shell in {None, "sh"} and (reason := redirection_in_dash(text)):
            self.unclear(reason)
        if len(text) > MAX_TEXT:
            raise UnreadableError(f"it is longer than {MAX_TEXT:,} characters")
        if not text.isprintable() and _MISREAD.search(text):
            self.unclear("it holds a control character that shells read in their own ways")
        if not text.isascii():
            text = _SURROGATE.sub("\ufffd", text)
        self._text(text)
        if "\\\n" in text and _CONTINUED.search(text):
            # The grammar parses a backslash at the end of such a line as a blank, a shell removes it.
            self._text(_LINE_END.sub(r"\1", text))
            if "#" in text:
                self.unclear("a line in it may continue, or may be a comment")

    def _text(self, text: str) -> None:
        source = Source.of(text)
        self.bytes -= len(source)
        self.marks -= source.marks
        if self.bytes < 0 or self.marks < 0:
            raise UnreadableError("there is too much in it")
        root = syntax_tree.parse(source)
        if root.has_error:
            self.unclear("it is not a complete shell command")
        self._walk(root, source)
        if source.documents and source.documents.keys() - self.documents:
            self.unclear("what looks like a here-document in it may not be one")

    def _walk(self, root: Node, source: Source) -> None:
        self.documents = set()
        waiting = [(root, 0)]
        while waiting:
            node, nesting = waiting.pop()
            if nesting > MAX_NESTING:
                raise UnreadableError("it is nested too deeply")
            if node.type not in _LOOKED_AT:
                children = node.named_children
            elif not (children := self._visit(node, source)):
                continue
            nesting += 1
            waiting += [(child, nesting) for child in reversed(children)]

    def _visit(self, node: Node, source: Source) -> Sequence[Node]:
        """Handle one node; return its children that must still be visited."""
        kind = node.type
        if kind == "command":
            return self._simple(node, (), source)
        if kind == "redirected_statement":
            return self._redirected(node, source)
        if kind in _STATEMENTS:
            self._statement(node, (), source)
        elif kind == "comment":
            if not _BEFORE_COMMENT.search(source[max(0, node.start_byte - 2) : node.start_byte]):
                self.unclear("what looks like a comment in it may not be one")
        elif kind == "heredoc_redirect":
            self._document(node, source)
        elif kind == "function_definition":
            self._written(node.children_by_field_name("redirect"), source, self.files.runs)
        elif kind == "expansion":
            inner = _slice(node, source)
            if b"(" in inner or b"`" in inner:
                self._substitutions(inner.decode()[2:-1], processes=True)
            if b"@P" in inner:
                self.unclear("an expansion in it runs what a variable holds")
            if b"=" in inner and (assignment := _GIVEN.match(inner.decode())):
                self._assigned(assignment[1], plain(assignment[2]))
        elif kind == "compound_statement" and self.shell in {None, "sh"}:
            text = _slice(node, source)
            if text.startswith(b"((") and (inside := arithmetic_in_dash(text.decode())):
                self._nested(inside)
        elif kind == "ansi_c_string" and self.shell in {None, "sh"}:
            if reason := quote_in_dash(text_of(node, source)):
                self.unclear(reason)
        elif kind == "regex":
            self._substitutions(text_of(node, source), processes=True)
        elif kind in {"for_statement", "select_statement"}:
            name = node.child_by_field_name("variable")
            if name is not None and matters(text_of(name, source)):
                self.unclear(f"'{text_of(name, source)}' is given values by a loop")
        elif kind == "command_substitution":
            inner = _slice(node, source)
            if inner[:1] == b"`" and _MARK_IN_IT.search(inner):
                self.unclear("a backquote in it may end elsewhere")
            if inner[:1] == b"`" and b"\\" in inner:
                self._nested(in_text(inner[1:-1].decode()))
                return ()
        return node.named_children

    def _redirected(self, node: Node, source: Source) -> Sequence[Node]:
        children = node.named_children
        redirects: list[Node] = []
        body: Node | None = None
        for child in children:
            if child.type in _REDIRECTS:
                redirects.append(child)
            elif body is None:
                body = child
        before = self.files.runs
        kind = "" if body is None else body.type
        if body is not None and kind == "command":
            nested = self.nested
            reading = self._simple(body, redirects, source)
            # What a program writes while it runs is not what it runs, unless it is a text of commands.
            self._written(redirects, source, self.files.runs if nested == self.nested else before)
            return [*reading, *redirects] if reading or _DEEPER.search(_slice(node, source)) else ()
        self._written(redirects, source, before)
        if body is None:
            self._redirections(node, redirects, source)
        elif kind in _STATEMENTS:
            self._statement(body, redirects, source)
            return [*body.named_children, *redirects]
        else:
            for redirect in redirects:
                self._found(as_written(redirect, source), (texts(redirection(redirect, source)),))
        return children

    def _redirections(self, node: Node, redirects: Sequence[Node], source: Source) -> None:
        """Handle redirections without a command, or with one that the grammar parses as destinations.

        It parses `>f >f rm x >f` that way.
        """
        line, text = CommandLine(), text_of(node, source)
        for redirect in redirects:
            line.redirect(redirect, source)
        if not line.words:
            self._found(text, (text,))
            return
        if "=" in line.words[0].text:
            self.unclear("an assignment in it comes after redirections")
        self._command(text, texts(line.around), line.words, line.stdin)

    def _written(self, redirects: Sequence[Node], source: Source, at: int) -> None:
        """Record the files that redirections write; `at` files had been run before."""
        for redirect in redirects:
            if redirect.type == "file_redirect" and any(
                child.type in _OUTPUTS for child in redirect.children
            ):
                names = [child for child in redirect.named_children if child.type != "file_descriptor"]
                target = word_of((names or [redirect])[0], source)
                if not target.text.isdecimal():
                    self.files.writes(target, at)
            elif redirect.type == "heredoc_redirect":
                self._written(redirect.children_by_field_name("redirect"), source, at)

    def _simple(self, node: Node, redirects: Sequence[Node], source: Source) -> Sequence[Node]:
        source_text = _slice(node, source)
        if bare := _PLAIN.fullmatch(source_text):
            text = source_text.decode()
            words = text.split()
        elif _LITERAL.fullmatch(source_text) and b"$(" not in source_text and b"`" not in source_text:
            text = source_text.decode()
            words = literal_words(text)
        else:
            text, words = "", []
        if words and (bare or _NAME.match(words[0])):
            if not redirects:
                if not self._plain(text, words):
                    self._assigning(text, words)
                return ()
            tails = [_TO_FILE.fullmatch(_slice(redirect, source)) for redirect in redirects]
            if all(tails) and not source[node.end_byte : redirects[0].start_byte].strip():
                displayed = " ".join([text, *(tail[0].decode() for tail in tails if tail)])
                parts = [part.decode() for tail in tails if tail for part in tail.groups() if part]
                if self._plain(displayed, words, parts):
                    return ()
        line = CommandLine()
        line.take(node.children, source)
        if redirects:
            if remaining := source[node.end_byte : redirects[0].start_byte].strip():
                # The grammar omits the last word in `sh - <<E`.
                line.words += [plain(word) for word in remaining.decode().split()]
            for redirect in redirects:
                line.redirect(redirect, source)
        written = " ".join(
            [source_text.decode(), *(as_written(redirect, source) for redirect in redirects)]
        )
        texts_around = texts(line.around)
        if b"=" in source_text:
            self._assignments(node.named_children, source)
        if b"(" in source_text and _touching_subshell(node):
            self.unclear("parentheses in it are a glob to other shells")
        self._command(written, texts_around, line.words, line.stdin)
        return node.named_children if _DEEPER.search(source_text) else ()

    def _plain(self, text: str, words: Sequence[str], redirected: Sequence[str] = ()) -> bool:
        """Record a command of literal words and return true, unless it needs further analysis.

        `written` includes redirections.
        """
        name = words[0]
        if self.path or "/" in name or name in _RESERVED or "=" in name or "^" in name or name[0] == "-":
            return False
        line = " ".join(words)
        if runs_others(name) and not runs_no_other(name, line):
            return False
        self.files.ran.add(name)
        if name in WRITERS:
            self.files.program(name, words[1:], (), False)
        if redirected:
            self._found(text, tuple(dict.fromkeys((text, " ".join((line, *redirected)), line))))
        else:
            self._found(text, (text,) if line == text else (text, line))
        return True

    def _assigning(self, text: str, words: Sequence[str]) -> None:
        """Analyse a command of literal words with its assignments and what it runs."""
        first = 0
        if "=" in text and "=" in words[0]:
            while first < len(words) and _ASSIGNMENT.match(words[first]):
                name, _, value = words[first].partition("=")
                self._assigned(name.rstrip("+"), plain(value))
                first += 1
        self._command(text, " ".join(words), [plain(word) for word in words[first:]], None)

    def _assignments(self, nodes: Sequence[Node], source: Source) -> None:
        """Find what the assignments in some nodes make other programs run."""
        for child in nodes:
            if child.type != "variable_assignment":
                continue
            name = child.child_by_field_name("name")
            value = child.child_by_field_name("value")
            if name is not None:
                self._assigned(
                    text_of(name, source).partition("[")[0],
                    plain("") if value is None else word_of(value, source),
                )

    def _assigned(self, name: str, value: Word) -> None:
        if not matters(name):
            return
        if name == "ENV" and value.text:
            self.shell_file = True
        try:
            for run in assigned(name, value):
                self._run(run, name, None)
        except UnclearError as reason:
            self.unclear(str(reason))

    def _statement(self, node: Node, redirects: Sequence[Node], source: Source) -> None:
        """Handle statements that are not programs but match maps: an assignment, a test, an export."""
        text = " ".join(as_written(part, source) for part in (node, *redirects))
        self._found(text, (text, unquoted(text)))
        name = text.partition(" ")[0]
        kind = node.type
        if kind == "declaration_command":
            words = [plain(name)]
            for child in node.named_children:
                if child.type == "variable_assignment":
                    target, _, _ = text_of(child, source).partition("=")
                    value = child.child_by_field_name("value")
                    word = plain("") if value is None else word_of(value, source)
                    words.append(Word(f"{target}={word.text}", "", word.known))
                elif child.type != "variable_name":
                    words.append(word_of(child, source))
            words += [plain(word) for word in unquoted(text).split()[1:] if "=" in word]
            self._runs(words, None)
        elif kind.startswith("variable_assignment"):
            self._assignments(node.named_children if kind.endswith("s") else [node], source)
        elif kind == "test_command" and text.startswith("[[") and self.shell in {None, "sh"}:
            self.unclear(test_in_dash(text))
        name = "=" if kind.startswith("variable") or kind == "declaration_command" else name
        if hides_substitution(name, text):
            self.unclear("it holds a quoted substitution that may be run later")

    def _command(self, text: str, line: str, words: Sequence[Word], stdin: Input) -> None:
        """Handle one simple command: record it, and what it runs."""
        alternatives = [text, line, texts(words)]
        reason: str | None = None
        start = ""
        unknown = None
        for at, word in enumerate(words):
            if not word[2]:
                unknown = at
                alternatives.append(bares(words))
                break
        if not words:
            self._found(text, tuple(dict.fromkeys(filter(None, alternatives))))
            return
        name = words[0]
        paths = self._paths(name) if self.path or "/" in name.text else ()
        for other in paths:
            alternatives.append(texts((plain(other), *words[1:])))
        found: Sequence[Run] = ()
        sure = name.known and name.text != "" and name.text not in _RESERVED
        if sure:
            found = self._what_runs(words, stdin)
        if unknown:
            if sure:
                self._relies(words)
            reason = f"the words of {_shown(name.text)} are known only when it runs"
            start = texts((plain(paths[-1]), *words[1:unknown]) if paths else words[:unknown])
        for run in found:
            if isinstance(run, (SameCommand, ScriptFile)):
                alternatives.append(texts(run.words))
                for other in self._paths(run.words[0]):
                    alternatives.append(texts((plain(other), *run.words[1:])))
                if any(not word.known for word in run.words[1:]):
                    first_known = next(at for at, word in enumerate(run.words) if not word.known)
                    start = texts(run.words[:first_known])
        self._found(text, tuple(dict.fromkeys(filter(None, alternatives))), reason, start)
        if not sure:
            if name.text in _RESERVED:
                self.unclear(f"{_shown(name.text)} in it is not a command")
            else:
                self.unclear(f"what {_shown(name.text)} runs is known only when it runs")
            return
        self._program(words, found, stdin)
        if ("$(" in text or "`" in text) and hides_substitution(program(name.text), text):
            self.unclear("it holds a quoted substitution that may be run later")
        if "$" in text and found and self.shell in {None, "sh"} and _DOLLAR_QUOTED.search(text):
            self.unclear(
                f"what {_shown(name.text)} runs is quoted in a way that other shells do not know"
            )
        for run in found:
            self._run(run, name.text, stdin)

    def _relies(self, words: Sequence[Word]) -> None:
        """Record unquoted variables among the words of a program that may run others."""
        if runs_others(words[0].text):
            for word in words:
                if not (word.known or word.single):
                    if prints(word.text):
                        self.unclear(f"words of {_shown(words[0].text)} are known only when it runs")
                    self.relied.extend((name, "word") for name in variables(word.text))

    def _program(self, words: Sequence[Word], found: Sequence[Run], stdin: Input) -> None:
        """Check a program's name, and record the files that it creates or runs."""
        name = words[0].text
        base = program(name)
        if not name.isascii():
            self.unclear(f"{_shown(name)} has letters that programs' names do not have")
        if self.shell in {None, "zsh"} and (reason := word_in_zsh(name)):
            self.unclear(reason)
        if base == "gmake":
            base = "make"
        self.files.ran.add(base)
        if base in WRITERS or (base == "git" and any(word.text in PATCHES for word in words)):
            arguments = [word.text for word in words[1:] if word.known and word.text]
            unknown = [word for word in words[1:] if not word.known]
            self.files.program(base, arguments, unknown, isinstance(stdin, Word))
        if base != name or self.path:
            self.files.execute(name)
        for run in found:
            if isinstance(run, ScriptFile):
                self.files.execute(run.words[0].text)
        if self.shell_file and base in SHELLS:
            self.unclear("'ENV' names a file that shells run")

    def _paths(self, name: Word) -> list[str]:
        """Other forms of a program's path: `./deploy` for `/srv//deploy`, `rm` for `/bin/rm`."""
        text = name.text
        if not name.known or not text:
            return []
        if "/" not in text:
            return [f"./{text}"] if self.path else []
        short = posixpath.normpath(text)
        base = program(short)
        others = [] if short.startswith("/") or short.startswith("..") else [f"./{short}"]
        others.append(f"./{base}")
        if short.startswith("/"):
            others.append("/" + short.lstrip("/"))
        if found := _BIN.fullmatch(short):
            others.append(found[1])
        elif self.moves and not short.startswith("/"):
            others.append(base)
        return others

    def _what_runs(self, words: Sequence[Word], stdin: Input) -> Sequence[Run]:
        if not runs_others(words[0].text):
            return ()
        found: list[Run] = []
        try:
            for run in runs(words, stdin):
                found.append(run)
        except UnclearError as reason:
            self.unclear(str(reason))
        return found

    def _runs(self, words: Sequence[Word], stdin: Input) -> None:
        for run in self._what_runs(words, stdin):
            self._run(run, words[0].text, stdin)

    def _run(self, run: Run, name: str, stdin: Input) -> None:
        match run:
            case CommandWords(inner):
                self._deeper()
                self._command(texts(inner), texts(inner), inner, stdin)
                self.depth -= 1
            case Script(word):
                if not word.known:
                    self.unclear(f"what {_shown(name)} runs is known only when it runs")
                outer, self.shell = self.shell, shell_of(program(name), self.shell)
                try:
                    self._nested(word.text)
                finally:
                    self.shell = outer
            case WrittenFile(target):
                self.files.writes(target, self.files.runs)
            case AssumedVariables(variables, kind):
                self.relied.extend((variable, kind) for variable in variables)
            case SameCommand() | ScriptFile():
                pass

    def _nested(self, text: str) -> None:
        self.nested += 1
        self._deeper()
        self.script(text)
        self.depth -= 1

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnreadableError("it is nested too deeply")

    def _found(
        self, text: str, words: tuple[str, ...], reason: str | None = None, start: str = ""
    ) -> None:
        if len(self.found) >= MAX_COMMANDS:
            raise UnreadableError(f"it is made of more than {MAX_COMMANDS:,} commands")
        if words not in self.found:
            self.found[words] = SimpleCommand(text, words, reason, start)

    def _document(self, node: Node, source: Source) -> None:
        """Check that a here-document ends where a shell would end it, and search it for substitutions.

        Otherwise the text is not what it seems. The grammar finds no backquotes in here-documents.
        """
        document = document_of(node, source)
        if document is None:
            self.unclear("a here-document in it does not end")
            return
        self.documents.add(document.at)
        lines = [line.lstrip("\t") if document.tabs else line for line in document.text.split("\n")]
        end = document.end.lstrip("\t") if document.tabs else document.end
        if end != document.mark or document.mark in lines:
            self.unclear("a here-document in it may end elsewhere")
        if not document.quoted:
            self._substitutions(document.text)

    def _substitutions(self, text: str, *, processes: bool = False) -> None:
        """Parse substitutions in an expansion or a here-document; the grammar finds only some of them."""
        for mark in _BACKQUOTED.finditer(text) if "`" in text else ():
            if mark[2]:
                self._nested(in_text(mark[1]))
            elif mark[2] is not None:
                self.unclear("a backquote in it may end elsewhere")
        for mark in _SUBSTITUTED.finditer(text):
            if len(mark[1]) % 2 or not (processes or mark[2] == "$"):
                continue
            at = end = mark.end()
            depth = 1
            while end < len(text) and depth:
                depth += (text[end] == "(") - (text[end] == ")")
                end += 1
            inner = text[at : end - 1]
            if "#" in inner and ")" in text[end:]:
                self.unclear("a comment in it may hide where a substitution ends")
            if not (inner.startswith("(") and inner.endswith(")")):
                self._nested(inner)


def _touching_subshell(node: Node) -> bool:
    """Return whether parentheses follow a word without a blank, which is a glob in zsh."""
    children = node.children
    return any(
        after.type == "subshell" and before.end_byte == after.start_byte
        for before, after in pairwise(children)
    )


def _slice(node: Node, source: Source) -> bytes:
    return source[node.start_byte : node.end_byte]


def _shown(text: str) -> str:
    return f"'{text}'" if len(text) <= _SHOWN else f"'{text[:_SHOWN]}…'"
