"""`interlock` of a next version, as a program: `next_version.py SCRIPTS REVISION… -- COMMAND…`.

It has the schema created by the scripts, up to the last revision, and an additional type of events.
"""

from __future__ import annotations

import sys
from pathlib import Path

from interlock.app.cli.main import main
from interlock.engine.history.database.revisions import Schema
from interlock.engine.history.journal import rows
from tests.support.migrations import version_of
from tests.support.newer import SessionPaused


def program(schema: Schema) -> tuple[str, ...]:
    """Return Python's arguments for running the version that has a schema."""
    return (__file__, str(schema.scripts), *schema.known, "--")


if __name__ == "__main__":
    words = sys.argv[1:]
    end = words.index("--")
    scripts, *known = words[:end]
    rows._READERS["session.paused"] = SessionPaused
    with version_of(Schema(known=tuple(known), scripts=Path(scripts))):
        sys.exit(main(words[end + 1 :]))
