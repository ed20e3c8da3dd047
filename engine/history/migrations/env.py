"""Environment of alembic: it runs on the connection it is given, inside that connection's transaction.

There is no ini file and no logging set-up, because a library does not change its program's logging.
"""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes.get("target_metadata"),
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
