"""The journal's tables, as they are declared.

With the next revision, write out here the statements as they are until then.
"""

from __future__ import annotations

from alembic import context, op

revision = "0006"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    statements: tuple[str, ...] = context.config.attributes["schema"]
    for statement in statements:
        op.execute(statement)
