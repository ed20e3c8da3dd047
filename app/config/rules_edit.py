"""Writing one rule into the user's own rules file, if the file is still as it was when it was judged.

An agent may be able to write in its working directory. Files named by a working directory's settings are
therefore not edited here but left to the operator's editor, and so are files of other users. The operator
who confirms is shown the file to be written. A server also proposes rules, and is not trusted: only one
line with one rule is written. It is either the rule that it replaces with another condition, or a new
order or limit.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from ...engine.core.rule import ApprovalRule, BlockRule, LimitRule, Rule, SequenceRule
from ...engine.core.sanitize import visible
from ...rules.compiler import MAX_FILE_BYTES
from ...rules.library import LIBRARY
from .loader import SettingsError, is_agent_writable, settings_files
from .paths import is_list, is_table

LONGEST_REASON = 300
_RULES = SequenceRule | ApprovalRule | BlockRule | LimitRule


class RuleEditError(ValueError):
    """A rule that is not written; the message says why, and that a person has to edit the file."""


@dataclass(frozen=True, slots=True)
class RuleEdit:
    """A rule `after` that replaces the line `before` in a `file`.

    `text` is the file's content when judged. Without `line` the rule is new, and is added at the end.
    """

    file: str
    text: str
    after: str
    line: int | None = None
    before: str | None = None


def target(edit: RuleEdit, environ: Mapping[str, str] | None = None) -> Path:
    """Return the file to be written, symbolic links resolved.

    Raises `RuleEditError` if none may be written.
    """
    named = Path(edit.file)
    path = Path(os.path.realpath(named))
    if path.parent == Path(os.path.realpath(LIBRARY)) or edit.file.startswith("library/"):
        raise RuleEditError(
            f"{edit.file} belongs to the library: copy it, and start sessions with the copy"
        )
    try:
        found = path.stat()
    except OSError as error:
        raise RuleEditError(f"{edit.file} is not on this machine ({error.strerror})") from error
    if not stat.S_ISREG(found.st_mode):
        raise RuleEditError(f"{path} is not a regular file")
    if found.st_uid != os.geteuid():
        raise RuleEditError(f"{path} belongs to another user")
    if path in _named_by_directory(Path.cwd(), os.environ if environ is None else environ):
        raise RuleEditError(
            f"{path} was added by the settings of the working directory, where an agent may write: "
            "those may loosen nothing"
        )
    _check(edit, path)
    _check_rule(edit)
    return path


def save(edit: RuleEdit, path: Path, *, by: str, reason: str, day: date) -> None:
    """Write the rule into `path`, below a comment with the operator, the date and the reason.

    The file is replaced atomically and keeps its mode. Raises `RuleEditError` if it is not, or no longer,
    the one that `target` returned.
    """
    if target(edit) != path:
        raise RuleEditError(f"{edit.file} has been replaced by another file")
    text = _with_rule(edit, comment(by, reason, day))
    try:
        with _alone(path):
            _replace(edit, path, text)
    except BlockingIOError as error:
        raise RuleEditError(f"{path.parent} is locked: another console writes a rule there") from error
    except OSError as error:
        raise RuleEditError(f"{path} cannot be written: {error.strerror}") from error


@contextmanager
def _alone(path: Path) -> Generator[None, None, None]:
    """Lock `path` against other consoles; the one that comes second finds the file changed."""
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _replace(edit: RuleEdit, path: Path, text: str) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)
        _check(edit, path)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def comment(by: str, reason: str, day: date) -> str:
    """Return the comment above a rule: the date, the operator and the reason, on one line."""
    return visible(" ".join(f"# {day:%Y-%m-%d} {by or 'operator'}: {reason[:LONGEST_REASON]}".split()))


def _check(edit: RuleEdit, path: Path) -> None:
    """Raise `RuleEditError` unless the file is unchanged since it was judged, and has the rule's line."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise RuleEditError(f"{path} cannot be read: {error}") from error
    lines = edit.text.split("\n")
    has_line = edit.line is None or (edit.line <= len(lines) and lines[edit.line - 1] == edit.before)
    if text.replace("\r\n", "\n") != edit.text.replace("\r\n", "\n") or not has_line:
        raise RuleEditError(f"{path} has changed since it was judged")
    if "\r\n" in text:
        raise RuleEditError(f"{path} has Windows line endings")


def _check_rule(edit: RuleEdit) -> None:
    """Raise `RuleEditError` unless the line is exactly one rule of an allowed kind."""
    from ...engine.backtest.suggestions import loosenable

    if "\n" in edit.after or "\r" in edit.after:
        raise RuleEditError("The proposed rule has more than one line")
    text = _with_rule(edit, "#")
    if edit.line is None:
        now = _rule_at(edit.file, text, text.count("\n"))
        if not isinstance(now, SequenceRule | LimitRule):
            raise RuleEditError("The proposed rule is neither an order nor a limit")
        return
    before, now = _rule_at(edit.file, edit.text, edit.line), _rule_at(edit.file, text, edit.line + 1)
    same = before is not None and now is not None and _unconditional(before) == _unconditional(now)
    if not loosenable(before) or not same:
        raise RuleEditError(
            f"{edit.file}:{edit.line} would change in more than its condition, or is not an approval "
            "rule that may be loosened"
        )


def _rule_at(file: str, text: str, line: int) -> Rule | None:
    """Return the rule on a line of a file's text; `None` if the line has none."""
    from ...rules.compiler import with_value_files
    from ...rules.parse.syntax import parse

    statements, _ = parse(text, file, with_value_files({file: text}))
    rules = (each for each in statements if isinstance(each, _RULES))
    return next((each for each in rules if each.source is not None and each.source.line == line), None)


def _unconditional(rule: Rule) -> Rule:
    return replace(rule, source=None, when=None)


def _with_rule(edit: RuleEdit, above: str) -> str:
    if edit.line is None:
        return f"{edit.text.rstrip()}\n{above}\n{edit.after}\n"
    lines = edit.text.split("\n")
    indent = edit.after[: len(edit.after) - len(edit.after.lstrip())]
    lines[edit.line - 1 : edit.line] = [indent + above, edit.after]
    return "\n".join(lines)


def _named_by_directory(directory: Path, environ: Mapping[str, str]) -> set[Path]:
    """Return the rules files named by a working directory's own settings."""
    try:
        return {
            Path(os.path.realpath(directory / name))
            for path, table in settings_files(directory, environ)
            if is_agent_writable(path, directory, environ)
            for name in _rules(table)
        }
    except SettingsError as error:
        raise RuleEditError(f"Cannot tell whose rules these are: {error}") from error


def _rules(table: Mapping[str, object]) -> Iterator[str]:
    for value in (table, *(each for each in table.values() if is_table(each))):
        named = value.get("rules")
        if is_list(named):
            yield from (str(each) for each in named)
        elif isinstance(named, str):
            yield from (each.strip() for each in named.split(","))
