"""Proposed edits: the changes to files that a call's input itself describes.

They are recognized by the field names that agents use: a text to replace and its replacement, lists of
such pairs, or the whole content of a file. No file is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pydantic import JsonValue

from ....engine.agents.tools.diff import CONTENTS, PATHS
from ....engine.history.model.state import ApprovalState
from .change_rows import diff_lines

PAIRS = (
    ("old_text", "new_text"),
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("oldText", "newText"),
    ("oldString", "newString"),
)
LISTS = ("edits", "changes")
WRITES = frozenset({"write", "write_file", "create", "create_file", "notebookedit", "save_file"})
BESIDE = frozenset({*PATHS, "replace_all", "replaceAll", "type"})
"""Fields that a list entry may have in addition to its pair.

An entry with any other field is shown as it is.
"""
UNREADABLE = "the file is not readable here: all of the new content is shown"


@dataclass(frozen=True, slots=True)
class ProposedEdit:
    """A text in a file and its replacement; `before` is `None` if a whole file is written."""

    file: str
    before: str | None
    after: str

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the edit as diff lines, each with its sign first."""
        return _compared(self.before, self.after)

    @property
    def complete(self) -> bool:
        """Return whether `lines` contains every line of both texts, including unchanged ones."""
        signs = [line[0] for line in self.lines]
        kept = signs.count(" ")
        return all(
            kept + signs.count(sign) == len(_split(text))
            for sign, text in (("-", self.before), ("+", self.after))
        )


def _split(text: str | None) -> list[str]:
    return text.split("\n") if text else []


@lru_cache(maxsize=64)
def _compared(before: str | None, after: str) -> tuple[str, ...]:
    # Cached, because a queue is painted five times a second and comparing long texts takes longer.
    return tuple(diff_lines(_split(before), _split(after)))


@dataclass(frozen=True, slots=True)
class ProposedEdits:
    """The `edits`, the names of the input's fields that they show in full, and a `note`."""

    edits: tuple[ProposedEdit, ...] = ()
    covered: frozenset[str] = frozenset()
    note: str = ""


NONE = ProposedEdits()


def proposed_edits(request: ApprovalState) -> ProposedEdits:
    """Return the changes that a request's input states.

    A diff may omit unchanged lines, although a tool may use them for more than finding the place. Fields
    therefore count as covered only if the diff omits no line, or if the tool's own preview states exactly
    this change.
    """
    values = request.input
    only = _edit(values, "")
    if only is not None:
        edit, pair = only
        return _covering(ProposedEdits((edit,), frozenset(pair)), request.preview)
    for name in LISTS:
        edits = _listed(values.get(name), path_of(values))
        if edits:
            return _covering(ProposedEdits(edits, frozenset({name})), request.preview)
    content = next((each for each in map(values.get, CONTENTS) if isinstance(each, str)), None)
    if isinstance(content, str) and request.called.casefold() in WRITES and request.preview is None:
        return ProposedEdits((ProposedEdit(path_of(values), None, content),), note=UNREADABLE)
    return NONE


def _covering(edits: ProposedEdits, preview: str | None) -> ProposedEdits:
    """Return the edits, covering fields only if their diffs, or those of a preview, show everything."""
    if all(edit.complete for edit in edits.edits) or shown_by_preview(edits, preview):
        return edits
    return replace(edits, covered=frozenset())


def path_of(values: Mapping[str, JsonValue]) -> str:
    """Return the file that an input names; empty if it names none."""
    found = next((values[name] for name in PATHS if isinstance(values.get(name), str)), "")
    return found if isinstance(found, str) else ""


def _edit(values: Mapping[str, JsonValue], path: str) -> tuple[ProposedEdit, tuple[str, str]] | None:
    """Return the edit of an object and the names of its two text fields. A new file has no old text."""
    for old, new in PAIRS:
        before, after = values.get(old, 0), values.get(new)
        if isinstance(after, str) and (before is None or isinstance(before, str)):
            return ProposedEdit(path_of(values) or path, before, after), (old, new)
    return None


def _listed(value: JsonValue, path: str) -> tuple[ProposedEdit, ...]:
    """Return the edits of a list; empty unless they show every entry completely."""
    found: list[ProposedEdit] = []
    for each in value if isinstance(value, list) else ():
        entry = _edit(each, path) if isinstance(each, dict) else None
        if entry is None or not isinstance(each, dict) or each.keys() - {*entry[1], *BESIDE}:
            return ()
        found.append(replace(entry[0], file=_note_of(each, path)))
    return tuple(found)


def _note_of(each: Mapping[str, JsonValue], path: str) -> str:
    """Return the file of a list entry, with the entry's other fields."""
    name = path_of(each) or path
    rest = {key: value for key, value in each.items() if key in BESIDE and key not in PATHS}
    said = ", ".join(f"{key}={value}" for key, value in rest.items() if value not in (False, None))
    return f"{name} ({said})" if said else name


Counts = tuple[int, int]


def edit_counts(request: ApprovalState) -> Counts | None:
    """Return the numbers of lines that a request would add and remove; `None` if it states none."""
    lines = () if request.preview is None else preview_lines(request.preview)
    if lines:
        added, removed = (sum(line[0] == sign for line in lines) for sign in "+-")
    else:
        edits = proposed_edits(request).edits
        added = sum(_count(edit.lines, "+", edit.after) for edit in edits)
        removed = sum(_count(edit.lines, "-", edit.before) for edit in edits)
    return (added, removed) if added or removed else None


def _count(lines: Sequence[str], sign: str, text: str | None) -> int:
    """Return the number of diff lines with a sign. The empty text after a final newline is not a line."""
    side = [line for line in lines if line[0] in (sign, " ")]
    ends_in_newline = text is not None and text.endswith("\n")
    return sum(line[0] == sign for line in side) - (ends_in_newline and side[-1:] == [sign])


@lru_cache(maxsize=64)
def preview_lines(preview: str) -> tuple[str, ...]:
    """Return the added and removed lines of a unified diff, without its headers."""
    lines = preview.split("\n")
    first = next((index for index, line in enumerate(lines) if line.startswith("@@")), len(lines))
    return tuple(line for line in lines[first:] if line[:1] in ("+", "-"))


def shown_by_preview(edits: ProposedEdits, preview: str | None) -> bool:
    """Return whether a preview has exactly the lines that the edits change."""
    if preview is None or edits.note:
        return False
    own = [line for edit in edits.edits for line in edit.lines if line[0] in "+-"]
    return bool(own) and own == list(preview_lines(preview))
