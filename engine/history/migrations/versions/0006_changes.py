"""Changes by people are listed with the decisions; filled after the upgrade, by `decisions.index`."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("decision", sa.Column("kind", sa.String(), server_default="call", nullable=False))
    op.add_column("decision", sa.Column("off", sa.String(), nullable=True))
    op.create_index(
        "ix_decision_kind", "decision", ["kind", "at"], sqlite_where=sa.text("kind <> 'call'")
    )
    op.create_index("ix_decision_by", "decision", ["by", "at"], sqlite_where=sa.text('"by" IS NOT NULL'))
    op.create_index(
        "ix_decision_off", "decision", ["off", "at"], sqlite_where=sa.text('"off" IS NOT NULL')
    )
