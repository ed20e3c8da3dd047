"""The fenced blocks of the documentation, and their titles and notes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = tuple(
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path.name != "protocol.md"
)
"""The pages whose blocks are checked; the protocol page is generated and has its own tests."""
_FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n)?"
    r'^```(?P<language>[\w-]*)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `title` is its file's name, `reason` says why it is checked but not run."""

    page: Path
    line: int
    language: str
    title: str | None
    text: str
    reason: str | None

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> tuple[Block, ...]:
    """Return the blocks of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    return tuple(
        Block(
            page,
            text.count("\n", 0, found.start("language")) + 1,
            found["language"],
            found["title"],
            found["text"],
            found["reason"],
        )
        for found in _FENCE.finditer(text)
    )


def blocks(language: str) -> Iterator[Block]:
    """Yield the blocks of all pages in a language."""
    return (block for page in PAGES for block in blocks_of(page) if block.language == language)


def titled(page: str, title: str) -> str:
    """Return the text of the file `title` on a page of docs/. Raises `LookupError` if there is none."""
    for block in blocks_of(ROOT / "docs" / page):
        if block.title == title:
            return block.text
    raise LookupError(f"docs/{page} has no block with the title '{title}'")
