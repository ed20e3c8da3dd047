"""The table of sessions of which the database lost what it had acknowledged."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None
compatible = ("0006", "0007")


def upgrade() -> None:
    """Make it; of a file nothing is lost."""
    if op.get_bind().dialect.name != "postgresql":
        return
    text = sa.Text(collation="C")
    op.create_table(
        "divergence",
        sa.Column[str]("session", text, primary_key=True),
        sa.Column[int]("seq", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column[bytes]("hash", sa.LargeBinary(), nullable=True),
        sa.Column[int]("kept", sa.BigInteger(), nullable=False),
        sa.Column[str]("server", text, nullable=False),
        sa.Column[str]("name", text, nullable=False),
        sa.Column[int]("at", sa.BigInteger(), nullable=False),
        sa.Column[int]("accepted", sa.BigInteger(), nullable=True),
    )
