"""The flow demo's project: the other demo's shop, with a tagged release and two changes since."""

from __future__ import annotations

import shutil
from pathlib import Path

from .project import IDENTITY, create_project, git

SINCE = "v1.0"

_FIXED = '''\
"""Prices in cents."""


def total(prices: list[int], discount: int = 0) -> int:
    """The sum of `prices` after a discount in percent."""
    return round(sum(prices) * (100 - discount) / 100)
'''
_FORMATTED = (
    _FIXED
    + '''

def shown(cents: int) -> str:
    """`€12.50`."""
    return f"€{cents // 100}.{cents % 100:02}"
'''
)
CHANGES = (
    ("Take the discount off instead of adding it", _FIXED),
    ("Show prices in euros", _FORMATTED),
)


def create_release_project(root: Path | None = None) -> Path:
    """Create the project in `root`, or in a new temporary directory. Raises `OSError`.

    Without git it is a plain directory in its latest state.
    """
    root = create_project(root)
    has_git = shutil.which("git") is not None
    if has_git:
        git(root, "tag", SINCE)
    for subject, text in CHANGES:
        (root / "shop" / "price.py").write_text(text, encoding="utf-8")
        if has_git:
            git(root, *IDENTITY, "commit", "-qam", subject)
    return root
