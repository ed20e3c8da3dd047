"""Makes `compiled`, which the product runs, from `tables` and `statements`.

`python -m interlock.engine.history.database.compile` writes it anew; a test holds it to what these say.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from sqlalchemy import Index
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql.elements import ClauseElement

from . import statements
from .statements import sql_of
from .tables import APPLICATION_ID, JOURNAL, REVISION, TABLES, Decision, Event, Session, Table

_HEADING = '''"""Rows of the journal's tables and the SQL of the statements on them.

Made by `python -m interlock.engine.history.database.compile`, which see; not to be edited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..fold.setting_changes import Kind
'''


def module() -> str:
    """The source of `compiled`."""
    values: dict[str, object] = {
        "APPLICATION_ID": APPLICATION_ID,
        "REVISION": REVISION,
        "SCHEMA": [*schema()],
        **{
            name: value
            for name, value in vars(statements).items()
            if name.isupper() and isinstance(value, ClauseElement | dict | list)
        },
    }
    rows = (
        _row("SessionRow", Session, "@dataclass(slots=True)\nclass {}:"),
        _row("LinkedRow", Event, "class {}(NamedTuple):"),
        _row("DecisionLine", Decision, "class {}(NamedTuple):"),
    )
    constants = [f"{name} = {_literal(value)}" for name, value in values.items()]
    return "\n\n".join([_HEADING, *rows]) + "\n\n" + "\n".join(constants) + "\n"


def schema() -> Iterator[str]:
    """The statements that make the tables."""
    yield f"PRAGMA application_id = {APPLICATION_ID}"
    for model in TABLES:
        yield sql_of(CreateTable(JOURNAL.tables[model.__name__.lower()]))
        yield from (
            sql_of(CreateIndex(each))
            for each in getattr(model, "__table_args__", ())
            if isinstance(each, Index)
        )


def _row(name: str, model: type[Table], beginning: str) -> str:
    lines: list[str] = []
    for field, info in model.model_fields.items():
        default = "" if info.is_required() else f" = {_literal(info.default)}"
        lines.append(f"    {field}: {model.__annotations__[field]}{default}")
    fields = "\n".join(lines)
    return f'{beginning.format(name)}\n    """A row of `tables.{model.__name__}`."""\n\n{fields}\n'


def _literal(value: object) -> str:
    match value:
        case ClauseElement():
            return repr(sql_of(value))
        case list():
            lines = [f"    {_literal(each)}," for each in cast("list[object]", value)]
            return "\n".join(["(", *lines, ")"])
        case dict():
            members = cast("dict[object, object]", value)
            lines = [f"    {key!r}: {_literal(each)}," for key, each in members.items()]
            return "\n".join(["{", *lines, "}"])
        case _:
            return repr(value)


if __name__ == "__main__":
    Path(__file__).with_name("compiled.py").write_text(module(), encoding="utf-8")
