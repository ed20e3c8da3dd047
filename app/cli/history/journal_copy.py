"""`interlock journal`: copies a whole journal elsewhere, backs it up, and upgrades it to this version."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ...config.arguments import database, refuse
from ..options import add_command, add_database, journal_location

if TYPE_CHECKING:
    from ....engine.history.database.location import Location

LOGS = {"keys": "passkeys", "freeze": "freezes"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    parts = parser.add_subparsers(dest="part", metavar="PART", required=True)
    copy = add_command(
        parts, "copy", "copy a whole journal, which no process may be writing, into another one"
    )
    copy.add_argument(
        "source",
        metavar="FROM",
        type=journal_location,
        help="the journal: a file, or postgresql://USER@HOST/DATABASE",
    )
    copy.add_argument(
        "target",
        metavar="TO",
        type=journal_location,
        help="the target, created if missing; it must have none of the sessions",
    )
    backup = add_command(parts, "backup", "copy a journal's file, also while a server writes it")
    backup.add_argument("file", metavar="FILE", type=Path, help="the copy; it must not exist yet")
    add_database(backup)
    upgrade = add_command(parts, "upgrade", "upgrade an older journal's tables to this version")
    add_database(upgrade)


def run(args: argparse.Namespace) -> int:
    """Run the subcommand in `args.part`, and print the outcome. Returns the exit code."""
    if args.part == "backup":
        return _back_up(args)
    if args.part == "upgrade":
        return _upgrade(args)
    from ....engine.core.sanitize import visible
    from ....engine.history.audit.copying import copy_journal
    from ....engine.history.errors import JournalError
    from ...format.text import count

    source, target = _here(args.source), _here(args.target)
    try:
        copied = copy_journal(source, target)
    except (JournalError, OSError) as error:
        return refuse("journal copy", error)
    parts = [count(copied.sessions, "session"), count(copied.events, "event")]
    if copied.stubs:
        parts.append(count(copied.stubs, "stub"))
    parts += [f"{count(n, 'line')} of {LOGS[name]}" for name, n in copied.lines.items() if n]
    print(f"Copied {', '.join(parts)} to {visible(str(target))}.")
    print("Every chain was checked there, and ends as in the source.")
    return 0


def _back_up(args: argparse.Namespace) -> int:
    from ....engine.core.sanitize import visible
    from ....engine.history.audit.backup import back_up
    from ....engine.history.errors import JournalError
    from ...format.text import count

    try:
        found = back_up(database(args), args.file)
    except JournalError as error:
        return refuse("journal backup", error)
    contents = f"{count(found.sessions, 'session')}, {count(found.events, 'event')}"
    print(f"Backed up {contents} to {visible(str(args.file))}. Every chain was checked there.")
    return 0


def _upgrade(args: argparse.Namespace) -> int:
    from ....engine.core.sanitize import visible
    from ....engine.history.errors import JournalError
    from ....engine.history.journal.maintenance import upgrade

    try:
        done = upgrade(database(args))
    except JournalError as error:
        return refuse("journal upgrade", error)
    if done.before == done.found.number:
        print(f"The journal has schema {visible(done.before)}; nothing was changed.")
        return 0
    print(f"Upgraded the journal from schema {visible(done.before)} to {visible(done.found.number)}.")
    older = ", ".join(done.found.compatible)
    print(
        f"Servers of schema {visible(older)} may keep using it."
        if older
        else "No older version can use it any more."
    )
    return 0


def _here(place: Location) -> Location:
    return place.expanduser() if isinstance(place, Path) else place
