"""Numbers of examples of laws: few with each change, all of them in `make thorough`."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
"""True in `make thorough`."""
FEWEST = 25


def examples(thorough: int) -> int:
    """The examples of a law that takes `thorough` of them in the thorough run: a quarter, at least 25."""
    return thorough if THOROUGH else min(thorough, max(FEWEST, thorough // 4))
