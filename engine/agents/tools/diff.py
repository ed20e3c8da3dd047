"""A unified diff that never takes long."""

from __future__ import annotations

import difflib

from ...text import visible
from .cutting import encoded, first_bytes, kilobytes

MAX_BYTES = 65_536
# Finding the smallest difference takes quadratic time; more changed lines than this are shown as a block.
MAX_COMPARED_LINES = 2_000
CONTEXT = 3


def unified_diff(path: str, before: str | None, after: str) -> str:
    """How `before` becomes `after`; `None` is a file that does not exist yet.

    Carriage returns at the ends of lines are left out, for they would not be seen. Longer diffs than
    `MAX_BYTES` are cut, with a notice.
    """
    old, new = _lines(before or ""), _lines(after)
    start = _same(old, new)
    end = _same(old[start:][::-1], new[start:][::-1])
    changed_old, changed_new = old[start : len(old) - end], new[start : len(new) - end]
    name = visible(path)
    header = [f"--- {'/dev/null' if before is None else name}", f"+++ {name}"]
    if not changed_old and not changed_new:
        return "\n".join([*header, "(no change)" if before is not None else "(an empty file)"])
    lead, trail = max(0, start - CONTEXT), min(end, CONTEXT)
    if max(len(changed_old), len(changed_new)) <= MAX_COMPARED_LINES:
        last_old, last_new = len(old) - end + trail, len(new) - end + trail
        hunks = list(difflib.unified_diff(old[lead:last_old], new[lead:last_new], n=CONTEXT, lineterm=""))
        body = [_moved(line, lead) for line in hunks[2:]]
    else:
        kept_before, kept_after = old[lead:start], old[len(old) - end :][:trail]
        around = len(kept_before) + len(kept_after)
        body = [
            _hunk(lead, len(changed_old) + around, len(changed_new) + around),
            *(f" {line}" for line in kept_before),
            *(f"-{line}" for line in changed_old),
            *(f"+{line}" for line in changed_new),
            *(f" {line}" for line in kept_after),
        ]
    return bounded("\n".join([*header, *body]), "Diff")


def bounded(text: str, what: str, size: int = MAX_BYTES) -> str:
    """`text` in at most `size` bytes; the last line of a longer one says that it was cut."""
    if len(encoded(text)) <= size:
        return text
    notice = f"\n[{what} cut at {kilobytes(size)}.]"
    kept = first_bytes(text, size - len(notice))
    line_end = kept.rfind("\n")
    return (kept[:line_end] if line_end > 0 else kept) + notice


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    elif text:
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def _same(old: list[str], new: list[str]) -> int:
    for number, (left, right) in enumerate(zip(old, new, strict=False)):
        if left != right:
            return number
    return min(len(old), len(new))


def _hunk(start: int, old: int, new: int) -> str:
    def side(count: int) -> str:
        return f"{start + 1 if count else start},{count}"

    return f"@@ -{side(old)} +{side(new)} @@"


def _moved(line: str, by: int) -> str:
    """A hunk's header as if `by` lines stood before; other lines as they are."""
    if not line.startswith("@@ ") or not by:
        return line
    _, old, new, _ = line.split(" ", 3)

    def moved(part: str) -> str:
        first, comma, count = part[1:].partition(",")
        return f"{part[0]}{int(first) + by}{comma}{count}"

    return f"@@ {moved(old)} {moved(new)} @@"
