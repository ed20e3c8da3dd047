"""Each event carries a hash over itself and the one before; sessions that are gone leave stubs.

Events without a hash get one after the upgrade, by `schema.link_unlinked`.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("session", sa.Column("imported", sa.Boolean(), nullable=False, server_default="0"))
    op.add_column("event", sa.Column("salt", sa.LargeBinary(), nullable=True))
    op.add_column("event", sa.Column("content", sa.LargeBinary(), nullable=True))
    op.add_column(
        "event", sa.Column("hash", sa.LargeBinary(), nullable=False, server_default=sa.text("x''"))
    )
    op.create_table(
        "pruned",
        sa.Column("session", sa.String(), nullable=False),
        sa.Column("agent", sa.String(), nullable=False),
        sa.Column("opened", sa.Integer(), nullable=False),
        sa.Column("updated", sa.Integer(), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.Column("head", sa.LargeBinary(), nullable=False),
        sa.Column("at", sa.Integer(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("session"),
    )
