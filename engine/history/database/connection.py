"""Interface of a connection to a journal's database, for readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol


class Rows(Protocol):
    """Rows of a statement's result, each a tuple of columns; `description` has the column names first."""

    @property
    def description(self) -> Any: ...
    def fetchone(self) -> Any: ...
    def fetchmany(self, size: int, /) -> list[Any]: ...
    def fetchall(self) -> list[Any]: ...
    def close(self) -> object: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """The interface that SQLite's and PostgreSQL's connections share; `?` stands for a value."""

    def execute(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = (), /) -> Rows: ...
    def executemany(self, statement: str, values: Any, /) -> object: ...
    def close(self) -> None: ...


ALL_ROWS = 1 << 62
"""A `LIMIT` that omits no row, in either database."""
