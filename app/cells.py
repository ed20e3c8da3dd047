"""Characters that terminals draw unlike: flags and skin tones.

They take two cells, one or none, as the terminal likes, and would move what stands right of them. Marks,
which have no cell of their own, are limited for everybody by `engine.text`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..engine.text import few_marks, spelt

_UNSTEADY = re.compile("[\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")


def steady(text: str, escape: Callable[[str], str] = spelt) -> str:
    """`text` with escapes for what takes no certain number of cells, and for marks that are too many.

    To be called before `visible`.
    """
    if text.isascii():
        return text
    return few_marks(_UNSTEADY.sub(lambda found: escape(found[0]), text), escape)
