"""A connection to a journal's database, as those who ask it questions see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol


class Rows(Protocol):
    """The rows that a statement gives, each a tuple of its columns, which `description` names first."""

    @property
    def description(self) -> Any: ...
    def fetchone(self) -> Any: ...
    def fetchmany(self, size: int, /) -> list[Any]: ...
    def fetchall(self) -> list[Any]: ...
    def close(self) -> object: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """The part that SQLite's and PostgreSQL's connections have in common; `?` stands for a value."""

    def execute(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = (), /) -> Rows: ...
    def executemany(self, statement: str, values: Any, /) -> object: ...
    def close(self) -> None: ...


ALL_ROWS = 1 << 62
"""A `LIMIT` that leaves nothing out, in either database."""
