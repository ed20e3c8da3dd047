"""Types of the columns that a migration adds: in each database those of the journal's tables.

SQLAlchemy's own would have 32 bits in PostgreSQL, and the order of its locale.
"""

from __future__ import annotations

import sqlalchemy as sa

NUMBER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
"""Of a field that is an `int`."""
TEXT = sa.String().with_variant(sa.Text(collation="C"), "postgresql")
"""Of a field that is a `str`."""
