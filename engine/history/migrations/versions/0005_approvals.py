"""Events about requests are found without reading all others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_event_approval",
        "event",
        ["cursor", "at"],
        sqlite_where=sa.text(
            "type IN ('approval.requested', 'approval.given', 'approval.decided', 'approval.expired', "
            "'approval.withdrawn')"
        ),
        if_not_exists=True,
    )
