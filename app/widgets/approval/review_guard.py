"""Review guard: what has to be on screen before a request may be approved.

It counts the lines that were painted, for each layout of the same content, and the places that an
operator has to have revealed. It knows no widget and no clock.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence


class ReviewGuard:
    """The lines of one content that were painted, and the places of it that are still concealed.

    `begin` names the content. `arrange` gives its lines for one layout (a width, folded or not); what was
    painted of a former layout counts for the lines that both begin and end with. Content that was shown
    whole once stays so in every layout, until `reopen` or `conceal` says that there is more to see.
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
        """Tell whether `content` is another one than before, of which nothing was shown yet."""
        if content == self._content:
            return False
        self.clear()
        self._content = content
        return True

    def clear(self) -> None:
        """Nothing was shown of anything."""
        self._content = None
        self._layouts.clear()
        self._concealed.clear()
        self._rows, self._painted = (), bytearray()
        self._folded, self._whole = True, False

    def reopen(self) -> None:
        """The content has grown: lines that are new have to be shown as well."""
        self._whole = False

    # Lines

    def arrange(
        self, layout: Hashable, rows: Sequence[str], *, folded: bool = False, aged: bool = False
    ) -> None:
        """Take the current lines; with `folded` some of the content is in none of them.

        `aged` says that only times changed: lines at the same position count as the same.
        """
        before, seen = self._layouts.get(layout) or (self._rows, self._painted)
        same = aged and len(before) == len(rows)
        painted = bytearray(seen) if same else _carried(before, seen, rows)
        self._rows, self._painted, self._folded = rows, painted, folded
        self._layouts[layout] = rows, painted
        self._settle()

    def paint(self, row: int) -> bool:
        """Note that a line was painted; whether that is news."""
        if not 0 <= row < len(self._painted) or self._painted[row]:
            return False
        self._painted[row] = 1
        self._settle()
        return True

    @property
    def folded(self) -> bool:
        """Tell whether some of the content is in no line of this layout, and was not shown in another."""
        return self._folded and not self._whole

    @property
    def next_row(self) -> int | None:
        """The first line that was not painted yet."""
        found = -1 if self._whole else self._painted.find(0)
        return None if found < 0 else found

    def pages(self, height: int) -> tuple[int, int]:
        """Number of pages of `height` lines, and how many of them are still to be shown."""
        height = max(1, height)
        total = max(1, -(-len(self._painted) // height))
        if self._whole:
            return total, 0
        left, at = 0, self._painted.find(0)
        while at >= 0:
            left += 1
            at = self._painted.find(0, at + height)
        return max(total, left), left

    # Places

    @property
    def concealed(self) -> tuple[Hashable, ...]:
        """The places that are still to be revealed."""
        return tuple(self._concealed)

    def conceal(self, places: Iterable[Hashable]) -> None:
        """Have `places` revealed before the content counts as shown."""
        for place in places:
            self._concealed[place] = None
            self._whole = False

    def reveal(self, place: Hashable) -> None:
        """`place` is in the lines from now on; they have to be painted with it."""
        if place in self._concealed:
            del self._concealed[place]
            self._layouts.clear()
            self._whole = False

    # All of it

    @property
    def complete(self) -> bool:
        """Tell whether everything was shown."""
        return self._whole

    def _settle(self) -> None:
        if self._rows and not self._folded and not self._concealed and 0 not in self._painted:
            self._whole = True


def _carried(before: Sequence[str], painted: bytearray, rows: Sequence[str]) -> bytearray:
    """Painted flags of `before`, carried to `rows` for the lines that both begin and end with."""
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
