"""Characters that do not keep to cells of their own: floods of marks, and what terminals draw unlike.

Hundreds of marks on one letter paint over the lines above and below, or hide a text in one cell. A mark
at the start of a text stands on what is ours beside it. Flags and skin tones take two cells, one or none,
as the terminal likes, and would move what stands right of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from ..engine.text import visible

MOST_MARKS = 4
"""Characters without a cell of their own that stay on one letter; languages get along with these."""
_UNSTEADY = re.compile("[\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")


@lru_cache(maxsize=4096)
def _is_mark(character: str) -> bool:
    """Whether it goes into the cell of the character before it. What `visible` hides does not."""
    from rich.cells import get_character_cell_size  # only few texts have any

    return get_character_cell_size(character) == 0 and visible(character) == character


def escaped(text: str) -> str:
    r"""Every character as an escape, in the manner of `engine.text.visible`: `\u0301`."""
    return "".join(f"\\u{ord(c):04x}" if ord(c) <= 0xFFFF else f"\\U{ord(c):08x}" for c in text)


def steady(text: str, escape: Callable[[str], str] = escaped) -> str:
    """`text` with escapes for the marks that are too many on one letter or have none to stand on.

    So are the characters whose width depends on the terminal. To be called before `visible`.
    """
    if text.isascii():
        return text
    text = _UNSTEADY.sub(lambda found: escape(found[0]), text)
    marks = "".join(character for character in set(text) if character >= "\u0300" and _is_mark(character))
    if not marks:
        return text

    def kept(run: re.Match[str]) -> str:
        most = MOST_MARKS if _carries(text[run.start() - 1 : run.start()]) else 0
        return run[0][:most] + escape(run[0][most:])

    return re.sub(f"[{re.escape(marks)}]+", kept, text)


def _carries(character: str) -> bool:
    """Whether marks belong on it: on letters, digits and the circle that shows them by themselves."""
    if not character or visible(character) != character:
        return False
    return unicodedata.category(character)[0] in "LMN" or character == "◌"
