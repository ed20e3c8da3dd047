"""Origin of a session, and how to start it again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("session", sa.Column("kind", sa.String(), nullable=False, server_default="root"))
    op.add_column("session", sa.Column("parent", sa.String(), nullable=True))
    op.add_column("session", sa.Column("parent_seq", sa.Integer(), nullable=True))
    op.add_column("session", sa.Column("source", sa.String(), nullable=True))
