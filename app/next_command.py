"""What a command that is suggested needs of the one that suggests it."""

from __future__ import annotations

import argparse
import shlex

from ..engine.text import visible


def same_journal(args: argparse.Namespace) -> str:
    """` --db FILE`, where the command line said so: the next command would look in another journal.

    A setting or the environment says it to that one, too. A name that cannot be seen is left out: it
    could not be checked before it is run.
    """
    if "db" not in getattr(args, "typed", ()):
        return ""
    given = str(args.db)
    return f" --db {shlex.quote(given)}" if visible(given) == given else ""
