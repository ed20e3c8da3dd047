"""Types of the columns that a migration adds, equal in each database to those of the journal's tables.

SQLAlchemy's own types would have 32 bits in PostgreSQL, and the order of its locale.
"""

from __future__ import annotations

import sqlalchemy as sa

NUMBER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
"""Type of an `int` field."""
TEXT = sa.String().with_variant(sa.Text(collation="C"), "postgresql")
"""Type of a `str` field."""
