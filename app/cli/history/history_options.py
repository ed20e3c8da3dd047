"""The parts of `interlock history` and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from ..options import Parts

Command: TypeAlias = Callable[[Parts, str, str], argparse.ArgumentParser]
Operator: TypeAlias = Callable[[argparse.ArgumentParser], None]


def add_parts(history: argparse.ArgumentParser, command: Command, operator: Operator) -> None:
    """Add the parts of `history`; `command` makes one, `operator` adds the option for the operator."""

    def part(name: str, text: str) -> argparse.ArgumentParser:
        made = command(parts, name, text)
        # Given before the part's name, they must not be forgotten again.
        made.add_argument(
            "--db", metavar="FILE", type=Path, default=argparse.SUPPRESS, help="the journal"
        )
        made.add_argument(
            "--redact", metavar="A,B", default=argparse.SUPPRESS, help="more fields to mask"
        )
        return made

    parts = history.add_subparsers(dest="part", metavar="PART")

    verify = part("verify", "check that nothing recorded was changed since")
    verify.add_argument(
        "what", metavar="WHAT", nargs="*", help="sessions, or exported files (default: all sessions)"
    )
    verify.add_argument("--json", action="store_true", default=None, help="print the findings as JSON")

    verify.add_argument(
        "--key", metavar="FILE", type=Path, help="the key that stubs are signed with here"
    )
    verify.add_argument(
        "--trust",
        metavar="FILE",
        type=Path,
        action="append",
        help="a public key (PEM) of somebody else whose stubs are trusted; may be given again",
    )

    verify.add_argument(
        "--against",
        metavar="FILE",
        type=Path,
        action="append",
        help="an export made before, to see whether the journal still has all of it",
    )

    export = part("export", "write one session into a file of its own, secrets masked")
    export.add_argument("session", metavar="SESSION", help="its id, or the first letters of it")
    export.add_argument(
        "--format",
        choices=("jsonl", "csv", "messages"),
        help="the whole record, a table of it, or the conversation for other programs (default: jsonl)",
    )
    export.add_argument("-o", "--out", metavar="FILE", type=Path, help="where to (default: printed)")
    export.add_argument(
        "--unmasked", action="store_true", default=None, help="passwords and keys as they are"
    )

    taken = part("import", "take an exported session into this journal")
    taken.add_argument("file", metavar="FILE", type=Path, help="a .jsonl file that export wrote")

    prune = part("prune", "remove old sessions; a signed stub of each stays")
    prune.add_argument(
        "--older-than", metavar="AGE", help="those that last changed longer ago: 90d, 12w, 36h"
    )
    prune.add_argument(
        "--key",
        metavar="FILE",
        type=Path,
        help="the signing key (default: in the user's config directory)",
    )
    prune.add_argument("--dry-run", action="store_true", default=None, help="only say what would go")
    operator(prune)

    approvals = part("approvals", "approval statistics")
    approvals.add_argument(
        "--since", metavar="WHEN", help="only what was asked since: 24h, 30d, or a date"
    )
    approvals.add_argument("--json", action="store_true", default=None, help="print it as JSON")

    part("rebuild", "make the lists anew from the recorded events")
