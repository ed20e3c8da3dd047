"""`interlock servers`: lists the servers that share a journal in PostgreSQL."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ...config.arguments import BAD_INPUT, database, refuse
from ..options import add_database, add_switch

if TYPE_CHECKING:
    from ....engine.history.postgres.servers.listing import ServerLine

FAILED = 1
ONLY_ONE = (
    "{} is a file, which one process writes at a time. Servers share a journal in PostgreSQL: "
    "--db postgresql://user@host/database"
)
MOST_ENDED = 10
"""Number of ended servers that are listed, the latest first."""
HEADING = ("SERVER", "STATE", "SESSIONS", "VERSION", "REACHED AT")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_database(parser)
    add_switch(parser, "--json", "print JSON")


def run(args: argparse.Namespace) -> int:
    """List the servers. Returns the exit code; 1 if no server is alive."""
    from ....engine.core.sanitize import visible
    from ....engine.history.errors import JournalError
    from ....engine.history.postgres.divergence import open_divergences
    from ....engine.history.postgres.schema import inspect
    from ....engine.history.postgres.servers.listing import list_servers, newer_sessions

    try:
        journal = database(args)
        if isinstance(journal, Path):
            return refuse("servers", ValueError(ONLY_ONE.format(journal)), BAD_INPUT)
        is_made = inspect(journal)[0] != "fresh"
        servers, newer = (list_servers(journal), newer_sessions(journal)) if is_made else ([], [])
        diverged = open_divergences(journal) if is_made else []
    except JournalError as error:
        return refuse("servers", error)
    if args.json:
        print(json.dumps([each._asdict() for each in servers], indent=2))
    elif not servers:
        print(f"No server writes to {visible(str(journal))}. Start one with: interlock serve --db URL")
    else:
        _print(servers)
    if not args.json:
        for each in newer:
            print(f"Session {visible(each.session)} has no server: {each.reason}.")
        for each in diverged:
            print(f"Session {visible(each.session)} diverged: {each.reason}. {each.remedy}")
    return 0 if any(each.ended is None for each in servers) else FAILED


def _print(servers: list[ServerLine]) -> None:
    alive = [each for each in servers if each.ended is None]
    ended = sorted(
        (each for each in servers if each.ended is not None), key=lambda each: -(each.ended or 0)
    )
    rows = [HEADING, *(_row(each) for each in (*alive, *ended[:MOST_ENDED]))]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADING))]
    for row in rows:
        line = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        print(line.rstrip(), file=sys.stdout)
    if len(ended) > MOST_ENDED:
        print(f"{len(ended) - MOST_ENDED} more ended within a day: --json lists them")


def _row(server: ServerLine) -> tuple[str, ...]:
    from ....engine.core.sanitize import visible
    from ....engine.history.model.times import from_ms

    if server.ended is not None:
        state = f"ended {from_ms(server.ended).astimezone():%H:%M:%S}"
    elif server.lease > 0:
        state = f"alive, lease {server.lease / 1000:.1f} s"
    else:
        state = f"silent for {-server.lease / 1000:.1f} s"
    name, url = visible(server.name), visible(server.url or "-")
    return name, state, str(server.sessions), visible(server.version), url
