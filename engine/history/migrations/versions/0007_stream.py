"""The table of audit streams, in which servers of one database store each stream's position.

Databases of revision 0006 that were created late have it already.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None
compatible = ("0006",)


def upgrade() -> None:
    """Create the table in a database; a file has a file beside it instead."""
    if op.get_bind().dialect.name != "postgresql":
        return
    text = sa.Text(collation="C")
    op.create_table(
        "stream",
        sa.Column[str]("id", text, primary_key=True),
        sa.Column[str]("server", text, nullable=True),
        sa.Column[str]("positions", text, nullable=False),
        if_not_exists=True,
    )
