"""Review guard: what has to be on screen before a request may be approved.

It records the painted lines for each layout of the same content, and the masked places that an operator
has to reveal. It depends on neither widgets nor clocks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence


class ReviewGuard:
    """Records which lines of one content were painted, and which of its places are still concealed.

    `begin` identifies the content. `arrange` sets its lines for one layout (a width, folded or not).
    Painted lines of a former layout count for the common first and last lines. Content that was shown
    completely counts as shown in every layout, until `reopen` or `conceal` adds something.
    """

    def __init__(self) -> None:
        self._content: Hashable = None
        self._layouts: dict[Hashable, tuple[Sequence[str], bytearray]] = {}
        self._rows: Sequence[str] = ()
        self._painted = bytearray()
        self._folded = True
        self._concealed: dict[Hashable, None] = {}
        self._whole = False

    def begin(self, content: Hashable) -> bool:
        """Start on `content`, and return whether it differs from the content before.

        New content is unseen.
        """
        if content == self._content:
            return False
        self.clear()
        self._content = content
        return True

    def clear(self) -> None:
        """Forget all content and everything shown."""
        self._content = None
        self._layouts.clear()
        self._concealed.clear()
        self._rows, self._painted = (), bytearray()
        self._folded, self._whole = True, False

    def reopen(self) -> None:
        """Require new lines to be shown as well, because the content has grown."""
        self._whole = False

    # Lines

    def arrange(
        self, layout: Hashable, rows: Sequence[str], *, folded: bool = False, aged: bool = False
    ) -> None:
        """Set the current lines. `folded` means that some content is in none of them.

        `aged` means that only times have changed: lines at the same position count as the same.
        """
        before, seen = self._layouts.get(layout) or (self._rows, self._painted)
        same = aged and len(before) == len(rows)
        painted = bytearray(seen) if same else _carried(before, seen, rows)
        self._rows, self._painted, self._folded = rows, painted, folded
        self._layouts[layout] = rows, painted
        self._settle()

    def paint(self, row: int) -> bool:
        """Record that a line was painted, and return whether it had not been before."""
        if not 0 <= row < len(self._painted) or self._painted[row]:
            return False
        self._painted[row] = 1
        self._settle()
        return True

    @property
    def folded(self) -> bool:
        """Return whether some content is folded in this layout and was not shown in another."""
        return self._folded and not self._whole

    @property
    def next_row(self) -> int | None:
        """Return the first line that was not painted yet."""
        found = -1 if self._whole else self._painted.find(0)
        return None if found < 0 else found

    def pages(self, height: int) -> tuple[int, int]:
        """Return the number of pages of `height` lines, and how many are still to be shown."""
        height = max(1, height)
        total = max(1, -(-len(self._painted) // height))
        if self._whole:
            return total, 0
        left, at = 0, self._painted.find(0)
        while at >= 0:
            left += 1
            at = self._painted.find(0, at + height)
        return max(total, left), left

    # Concealed places

    @property
    def concealed(self) -> tuple[Hashable, ...]:
        """Return the places that are still to be revealed."""
        return tuple(self._concealed)

    def conceal(self, places: Iterable[Hashable]) -> None:
        """Require `places` to be revealed before the content counts as shown."""
        for place in places:
            self._concealed[place] = None
            self._whole = False

    def reveal(self, place: Hashable) -> None:
        """Record that `place` was revealed. The lines that now include it have to be painted."""
        if place in self._concealed:
            del self._concealed[place]
            self._layouts.clear()
            self._whole = False

    # Completeness

    @property
    def complete(self) -> bool:
        """Return whether everything was shown."""
        return self._whole

    def _settle(self) -> None:
        if self._rows and not self._folded and not self._concealed and 0 not in self._painted:
            self._whole = True


def _carried(before: Sequence[str], painted: bytearray, rows: Sequence[str]) -> bytearray:
    """Carry the painted flags of `before` over to `rows` for the common first and last lines."""
    carried = bytearray(len(rows))
    most = min(len(before), len(rows))
    head = 0
    while head < most and before[head] == rows[head]:
        carried[head] = painted[head]
        head += 1
    tail = 1
    while tail <= most - head and before[-tail] == rows[-tail]:
        carried[-tail] = painted[-tail]
        tail += 1
    return carried
