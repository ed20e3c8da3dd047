"""The values of the append statement: PostgreSQL reads the same values from its arrays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.history.postgres.append import _ELEMENT, _elements
from interlock.engine.history.postgres.connection import connect
from tests.support.laws import examples

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXTS | st.sampled_from(("", "NULL", "null", '"', "\\", "{}", "a,b", ' "\\ ')),
    "bytea": st.binary(max_size=4),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float8": st.floats(allow_nan=False),
    "boolean": st.booleans(),
}
COLUMNS = st.sampled_from(sorted(VALUES)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(st.none() | VALUES[kind], max_size=4))
)


class TestLaw:
    @settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(columns=st.lists(COLUMNS, min_size=1, max_size=8))
    def test_columns_are_read_back_unchanged(
        self, postgresql: PostgresLocation, columns: list[tuple[str, list[Any]]]
    ) -> None:
        """Quotes, backslashes, the word NULL, empty strings and nulls are read back unchanged."""
        connection = connect(postgresql)
        try:
            arrays = ", ".join(f"%(c{at})s::{kind}[]" for at, (kind, _) in enumerate(columns))
            written = {
                f"c{at}": f"{{{_elements(kind, tuple(values))}}}"
                for at, (kind, values) in enumerate(columns)
            }
            [found] = connection.execute_named(f"SELECT {arrays}", written).fetchall()
        finally:
            connection.close()
        assert list(found) == [values for _, values in columns]

    def test_every_type_is_tried(self) -> None:
        """The examples include every type of column."""
        assert _ELEMENT.keys() == VALUES.keys()


class TestUnstorable:
    @pytest.mark.parametrize("values", [("a\0b",), ("a", "b\0"), ("\0", None)])
    def test_nul_does_not_split_a_value(self, values: tuple[str | None, ...]) -> None:
        """NUL in a value, which the database does not store, does not split the value."""
        elements = ["NULL" if each is None else f'"{each}"' for each in values]
        assert _elements("text", values) == ",".join(elements)
