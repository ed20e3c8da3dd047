"""`interlock history`: lists the recorded sessions; its subcommands maintain the journal."""

from __future__ import annotations

import argparse
import shutil
import sys
from datetime import tzinfo
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ...config.arguments import Parts, database, refuse
from ..options import (
    add_command,
    add_journal,
    add_operator,
    add_switch,
    journal_location,
    label,
    positive,
)

if TYPE_CHECKING:
    from ....engine.history.journal.reader import HistoryReader
    from ....engine.history.model.state import SessionSummary

WIDTH = 80


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options, and the subcommands with theirs."""
    parser.add_argument("--limit", metavar="N", type=positive, help="maximum number (default: 50)")
    # Not named `labels`: that setting applies to new sessions.
    parser.add_argument(
        "--label", metavar="NAME", type=label, help="only sessions that people gave this label"
    )
    add_journal(parser)
    parts = parser.add_subparsers(dest="part", metavar="PART")

    verify = _add_part(parts, "verify", "verify that nothing was changed after it was recorded")
    verify.add_argument(
        "what", metavar="WHAT", nargs="*", help="sessions, or exported files (default: all sessions)"
    )
    add_switch(verify, "--json", "print the findings as JSON")
    add_switch(verify, "--quiet", "print nothing if everything is intact; the exit code says so, too")
    verify.add_argument("--key", metavar="FILE", type=Path, help="the key that signs stubs here")
    verify.add_argument(
        "--trust",
        metavar="FILE",
        type=Path,
        action="append",
        help="someone else's public key (PEM) whose stubs are trusted; may be repeated",
    )
    verify.add_argument(
        "--against",
        metavar="FILE",
        type=Path,
        action="append",
        help="an earlier export, to check that the journal still has all of it",
    )

    export = _add_part(parts, "export", "write each session to a file of its own, with secrets masked")
    export.add_argument("session", metavar="SESSION", nargs="?", help="its id or the beginning of it")
    add_switch(export, "--all", "export every session, into a directory")
    export.add_argument(
        "--since",
        metavar="WHEN",
        help="sessions active since: 24h, 7d, or a date; into a directory",
    )
    export.add_argument(
        "--format",
        choices=("jsonl", "csv", "messages", "ocsf"),
        help="the whole record, a table of it, the conversation for other programs, or activities for "
        "security programs (default: jsonl)",
    )
    export.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        type=Path,
        help="output file (default: print it); for several sessions a directory, created if missing",
    )
    add_switch(export, "--unmasked", "do not mask passwords and keys")

    receipt = _add_part(parts, "receipt", "print a signed receipt of one decision")
    receipt.add_argument("session", metavar="SESSION", help="its id or the beginning of it")
    receipt.add_argument("call", metavar="CALL", help="the id of the call")
    add_switch(receipt, "--unmasked", "do not mask passwords and keys")
    receipt.add_argument(
        "--key",
        metavar="FILE",
        type=Path,
        help="the signing key (default: in the user's config directory)",
    )

    checked = _add_part(parts, "verify-receipt", "check a receipt, without the journal")
    checked.add_argument("file", metavar="FILE", type=Path, help="a saved receipt")
    checked.add_argument("--key", metavar="FILE", type=Path, help="the key that signs here")
    checked.add_argument(
        "--trust",
        metavar="FILE",
        type=Path,
        action="append",
        help="someone else's public key (PEM) whose receipts are trusted; may be repeated",
    )
    checked.add_argument(
        "--against",
        metavar="FILE",
        type=Path,
        action="append",
        help="an export of the session, to check that it has what the receipt says",
    )

    streamed = _add_part(
        parts, "verify-stream", "check files of an audit stream: nothing is missing or changed"
    )
    streamed.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        nargs="+",
        help="the stream's files, the oldest first; those that end in .gz are unpacked",
    )
    streamed.add_argument(
        "--against",
        metavar="JOURNAL",
        type=journal_location,
        help="the journal that was sent, to check that the files have all of it, to the end",
    )
    add_switch(streamed, "--json", "print the findings as JSON")

    imported = _add_part(parts, "import", "import an exported session into this journal")
    imported.add_argument("file", metavar="FILE", type=Path, help="a .jsonl file that export wrote")

    prune = _add_part(parts, "prune", "remove old sessions, keeping a signed stub of each")
    prune.add_argument(
        "--older-than", metavar="AGE", help="sessions that have not changed for this long: 90d, 12w, 36h"
    )
    prune.add_argument(
        "--key",
        metavar="FILE",
        type=Path,
        help="the signing key (default: in the user's config directory)",
    )
    add_switch(prune, "--dry-run", "only print what would be removed")
    add_switch(
        prune, "--even-unsent", "also remove what an audit stream has not sent yet, and then never will"
    )
    add_operator(prune)

    approvals = _add_part(parts, "approvals", "approval statistics")
    approvals.add_argument(
        "--since", metavar="WHEN", help="only requests made since: 24h, 30d, or a date"
    )
    add_switch(approvals, "--json", "print it as JSON")

    _add_part(parts, "rebuild", "rebuild the lists from the recorded events")


def _add_part(parts: Parts, name: str, text: str) -> argparse.ArgumentParser:
    part = add_command(parts, name, text)
    # Suppressed defaults keep a value that was given before the subcommand's name.
    part.add_argument(
        "--db", metavar="JOURNAL", type=journal_location, default=argparse.SUPPRESS, help="the journal"
    )
    part.add_argument("--redact", metavar="A,B", default=argparse.SUPPRESS, help="more fields to mask")
    return part


def run(args: argparse.Namespace) -> int:
    """Run the subcommand in `args.part`, or list the sessions. Returns the exit code."""
    match args.part:
        case None:
            return list_sessions(args)
        case "approvals":
            from .approvals import run as run_part
        case _:
            from .journal import run as run_part
    return run_part(args)


def _latest(reader: HistoryReader, limit: int, label: str | None) -> list[SessionSummary]:
    """Return the sessions that changed last, only those with the label if one is given."""
    if label is None:
        return reader.sessions(limit=limit)
    labelled = (each for each in reader.sessions(limit=None) if label in reader.labels(each.id))
    return list(islice(labelled, limit))


def list_sessions(args: argparse.Namespace, *, zone: tzinfo | None = None) -> int:
    """Print the latest sessions, the most recent first. Returns the exit code.

    A missing journal is not an error; an unreadable file is.
    """
    from ....engine.core.sanitize import visible
    from ....engine.history.errors import JournalError
    from ....engine.history.journal.reader import open_reader
    from ....engine.history.journal.schema import inspect
    from ...format.sessions import columns, heading, row

    path = database(args)
    try:
        is_journal = inspect(path)[0] != "fresh"
        sessions = _latest(open_reader(path), args.limit or 50, args.label) if is_journal else []
    except JournalError as error:
        return refuse("history", error)
    if not sessions and args.label is not None:
        print(f"No session with the label {args.label} is recorded in {visible(str(path))}.")
        return 0
    if not sessions:
        print(f"No sessions are recorded yet in {visible(str(path))}. Start one with: interlock demo")
        return 0
    width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
    shown = columns(sessions, width, zone=zone, shorten_ids=False)
    print(heading(shown).rstrip())
    for session in sessions:
        print("  ".join(row(shown, session)).rstrip())
    return 0
