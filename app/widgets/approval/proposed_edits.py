"""Proposed edits: what a call's input would change in files, as far as the input itself says.

Read from the field names that agents use for it: a text to replace and the text to put there, lists of
such pairs, or the whole content of a file. Nothing here reads a file.
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
"""Fields that an entry of a list may have besides its pair; with any other it is shown as it is."""
UNREADABLE = "the file is not readable here: all of the new content is shown"


@dataclass(frozen=True, slots=True)
class ProposedEdit:
    """A text in a file and what replaces it; `before` is `None` where a whole file is written."""

    file: str
    before: str | None
    after: str

    @property
    def lines(self) -> tuple[str, ...]:
        """The edit as lines of a diff, each with its sign first."""
        return _compared(self.before, self.after)

    @property
    def complete(self) -> bool:
        """Tell whether `lines` have every line of both texts: none that stays is left out."""
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
    # A queue is painted five times a second, and comparing long texts takes longer than that.
    return tuple(diff_lines(_split(before), _split(after)))


@dataclass(frozen=True, slots=True)
class ProposedEdits:
    """The `edits`, the names of the input's fields that they show in full, and a `note`."""

    edits: tuple[ProposedEdit, ...] = ()
    covered: frozenset[str] = frozenset()
    note: str = ""


NONE = ProposedEdits()


def proposed_edits(request: ApprovalState) -> ProposedEdits:
    """The changes that a request's input states.

    Lines that an edit leaves as they are may be missing in its diff, and a tool may do more with them
    than to look for them: the fields are covered where none is missing, or where the tool itself has
    said that it changes just that.
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
    """The edits, covering no field unless their diffs, or those of a preview, show all of it."""
    if all(edit.complete for edit in edits.edits) or shown_by_preview(edits, preview):
        return edits
    return replace(edits, covered=frozenset())


def path_of(values: Mapping[str, JsonValue]) -> str:
    """The file that an input names; empty where it names none."""
    found = next((values[name] for name in PATHS if isinstance(values.get(name), str)), "")
    return found if isinstance(found, str) else ""


def _edit(values: Mapping[str, JsonValue], path: str) -> tuple[ProposedEdit, tuple[str, str]] | None:
    """The edit of an object, and the names of its two texts. A file that is to be new has none before."""
    for old, new in PAIRS:
        before, after = values.get(old, 0), values.get(new)
        if isinstance(after, str) and (before is None or isinstance(before, str)):
            return ProposedEdit(path_of(values) or path, before, after), (old, new)
    return None


def _listed(value: JsonValue, path: str) -> tuple[ProposedEdit, ...]:
    """The edits of a list; none unless all of its entries are shown by them."""
    found: list[ProposedEdit] = []
    for each in value if isinstance(value, list) else ():
        entry = _edit(each, path) if isinstance(each, dict) else None
        if entry is None or not isinstance(each, dict) or each.keys() - {*entry[1], *BESIDE}:
            return ()
        found.append(replace(entry[0], file=_note_of(each, path)))
    return tuple(found)


def _note_of(each: Mapping[str, JsonValue], path: str) -> str:
    """The file of a list's entry, and what else the entry says."""
    name = path_of(each) or path
    rest = {key: value for key, value in each.items() if key in BESIDE and key not in PATHS}
    said = ", ".join(f"{key}={value}" for key, value in rest.items() if value not in (False, None))
    return f"{name} ({said})" if said else name


Counts = tuple[int, int]


def edit_counts(request: ApprovalState) -> Counts | None:
    """Numbers of lines that a request would add and remove; `None` where it states none."""
    lines = () if request.preview is None else preview_lines(request.preview)
    if lines:
        added, removed = (sum(line[0] == sign for line in lines) for sign in "+-")
    else:
        edits = proposed_edits(request).edits
        added = sum(_count(edit.lines, "+", edit.after) for edit in edits)
        removed = sum(_count(edit.lines, "-", edit.before) for edit in edits)
    return (added, removed) if added or removed else None


def _count(lines: Sequence[str], sign: str, text: str | None) -> int:
    """The number of a diff's lines with a sign. What follows the last newline of `text` is no line."""
    side = [line for line in lines if line[0] in (sign, " ")]
    ends_in_newline = text is not None and text.endswith("\n")
    return sum(line[0] == sign for line in side) - (ends_in_newline and side[-1:] == [sign])


@lru_cache(maxsize=64)
def preview_lines(preview: str) -> tuple[str, ...]:
    """The added and removed lines of a unified diff, without its headers."""
    lines = preview.split("\n")
    first = next((index for index, line in enumerate(lines) if line.startswith("@@")), len(lines))
    return tuple(line for line in lines[first:] if line[:1] in ("+", "-"))


def shown_by_preview(edits: ProposedEdits, preview: str | None) -> bool:
    """Tell whether a preview has the very lines that the edits change."""
    if preview is None or edits.note:
        return False
    own = [line for edit in edits.edits for line in edit.lines if line[0] in "+-"]
    return bool(own) and own == list(preview_lines(preview))
