"""One line per decision, to be filtered and counted; filled after the upgrade, by `decisions.index`."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "decision",
        sa.Column("cursor", sa.Integer(), nullable=False),
        sa.Column("session", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at", sa.Integer(), nullable=False),
        sa.Column("agent", sa.String(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("tool", sa.String(), nullable=False),
        sa.Column("called", sa.String(), nullable=False),
        sa.Column("input", sa.String(), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("net", sa.String(), nullable=True),
        sa.Column("rule", sa.String(), nullable=True),
        sa.Column("place", sa.String(), nullable=True),
        sa.Column("by", sa.String(), nullable=True),
        sa.Column("via", sa.String(), nullable=True),
        sa.Column("result", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["session"], ["session.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("cursor"),
    )
    op.create_index("ix_decision_at", "decision", ["at"])
    op.create_index("ix_decision_session", "decision", ["session", "at"])
    op.create_index("ix_decision_tool", "decision", ["tool", "at", "verdict"])
    op.create_index("ix_decision_net", "decision", ["net", "at", "verdict"])
    op.create_index(
        "ix_decision_verdict", "decision", ["verdict", "at"], sqlite_where=sa.text("verdict <> 'allow'")
    )
    op.create_index(
        "ix_decision_called", "decision", ["called", "at"], sqlite_where=sa.text("called <> tool")
    )
    op.create_index("ix_decision_via", "decision", ["via", "at"], sqlite_where=sa.text("via IS NOT NULL"))
    op.create_index(
        "ix_decision_shadow",
        "decision",
        ["session", "verdict", "net", "result", "at"],
        sqlite_where=sa.text("mode = 'shadow'"),
    )
