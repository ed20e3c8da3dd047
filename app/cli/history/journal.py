"""Audit and maintenance subcommands of `interlock history`: `verify`, `export`, `prune` and others."""

from __future__ import annotations

import argparse
import glob
import gzip
import io
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

from ....engine.core.sanitize import visible, visible_json
from ....engine.gateway.protocol.token_paths import config_directory
from ....engine.history.audit.compare import compare
from ....engine.history.audit.export import Mask, as_csv, as_jsonl, linked_events
from ....engine.history.audit.importing import ExportError, import_session, read_export
from ....engine.history.audit.ocsf import as_ocsf
from ....engine.history.audit.prune import prune, stubs
from ....engine.history.audit.receipt import check_receipt, make_receipt
from ....engine.history.audit.signing import fingerprint, public_key, trusted_key
from ....engine.history.audit.stream_check import StreamedJournal, check_stream
from ....engine.history.audit.verify import ChainCheck, check_file, verify_journal, verify_session
from ....engine.history.database.location import Location
from ....engine.history.errors import JournalError, SessionNotFound
from ....engine.history.journal.maintenance import index_mismatches, rebuild
from ....engine.history.journal.reader import open_reader
from ....engine.history.journal.schema import time_of
from ....engine.history.logs.key_log import KeyLog
from ....engine.history.model.since import moment
from ....engine.history.model.times import to_ms
from ....engine.history.postgres.divergence import Divergence, open_divergences
from ...config.arguments import database, redaction, refuse
from ...config.quantities import age
from ...format.journal_findings import (
    ExportComparison,
    JournalFindings,
    day,
    findings_json,
    findings_lines,
    receipt_lines,
    stream_json,
    stream_lines,
)
from ...format.text import count

BROKEN = 1
LONGEST_NAME = 200
"""Maximum length in characters of an exported file's name without its suffix; file systems allow 255."""
KEY_NAME = "journal-key.pem"


def run(args: argparse.Namespace) -> int:
    """Run the subcommand of `history` in `args.part`. Returns the exit code.

    It is 1 for a broken journal, and for one signed with an unknown key.
    """
    path = database(args)
    try:
        return _PARTS[args.part](args, path)
    except BrokenPipeError:
        raise
    except (JournalError, SessionNotFound, ExportError, ValueError, OSError) as error:
        return refuse(f"history {args.part}", error)


# Verifying


def _verify(args: argparse.Namespace, journal: Location) -> int:
    if args.what:
        checks = tuple(_named(args.what, journal))
        named = {check.session for check in checks}
        lost = tuple(each for each in _diverged(journal) if each.session in named)
        found = JournalFindings(checks, diverged=lost)
    else:
        checks = tuple(verify_journal(journal))
        broken = {check.session for check in checks if check.fault}
        otherwise = tuple(index_mismatches(journal, broken))
        keys = KeyLog(journal).read().faults
        found = JournalFindings(checks, tuple(stubs(journal)), check_file(journal), otherwise, keys=keys)
        found = replace(found, diverged=tuple(_diverged(journal)))
    compared = tuple(_compared(path.expanduser(), journal) for path in args.against or ())
    found = replace(found, compared=compared)
    trusted = frozenset(trusted_key(path.expanduser()) for path in args.trust or ())
    if found.stubs or any(check.keys for check in found.checks):
        found = replace(found, own=public_key(_key(args)), trusted=trusted)
    is_faulty = found.broken or found.unknown or found.unsure
    if args.quiet and not is_faulty:
        return 0
    if args.json:
        print(json.dumps(findings_json(found), indent=2))
    else:
        for line in findings_lines(found):
            print(line)
    return BROKEN if is_faulty else 0


def _diverged(journal: Location) -> list[Divergence]:
    """Return the divergences that no operator has accepted; a file has none."""
    return [] if isinstance(journal, Path) else open_divergences(journal)


def _compared(path: Path, journal: Location) -> ExportComparison:
    """Compare an earlier export with the journal's present content."""
    export = read_export(path)
    if export.check.fault is not None:
        raise ValueError(
            f"'{path}' is not as it was exported: {export.check.fault.message}. "
            "Compare with an intact export."
        )
    return ExportComparison(path.name, compare(journal, export))


def _named(names: list[str], journal: Location) -> Iterator[ChainCheck]:
    for name in names:
        if os.path.isfile(name):  # unlike `Path.is_file`, accepts text too long for a file name
            yield read_export(Path(name)).check
        elif name.endswith(".jsonl") or os.path.isdir(name):
            problem = "is a directory" if os.path.isdir(name) else "is not here"
            raise ValueError(f"'{name}' {problem}; name the file of an exported session")
        else:
            yield verify_session(journal, open_reader(journal).session(name).id)


# Moving sessions between files


def _export(args: argparse.Namespace, journal: Location) -> int:
    chosen = [args.session is not None, bool(args.all), args.since is not None]
    if sum(chosen) != 1:
        raise ValueError("name one SESSION, or --all, or --since WHEN")
    if args.session is None:
        return _export_many(args, journal)
    session = open_reader(journal).session(args.session).id
    for each in _diverged(journal):
        if each.session == session:
            print(f"interlock history export: {each.error()}", file=sys.stderr)
    lines = _exported(args, journal, session)
    if args.out is None:
        _print(lines, exact=args.format != "csv")
        return 0
    _save(lines, args.out.expanduser(), journal)
    print(f"Exported {visible(session)} to {visible(str(args.out))}", file=sys.stderr)
    return 0


def _exported(args: argparse.Namespace, journal: Location, session: str) -> Iterator[str]:
    """Yield the lines of a session's export."""
    hidden = redaction(args)
    mask: Mask | None = None if args.unmasked else hidden.body
    match args.format or "jsonl":
        case "jsonl":
            return as_jsonl(session, linked_events(journal, session), mask)
        case "csv":
            return as_csv(linked_events(journal, session), mask)
        case "ocsf":
            return as_ocsf(linked_events(journal, session), mask)
        case _:
            from ....engine.recording.conversation import message_log

            events = open_reader(journal).events(session)
            shown = events if args.unmasked else map(hidden.event, events)
            return iter([json.dumps(message_log(shown), indent=2, ensure_ascii=False)])


def _export_many(args: argparse.Namespace, journal: Location) -> int:
    """Export every session, or those since a given time, each into its own file; subagents included."""
    if args.out is None:
        raise ValueError("several sessions go into a directory: add -o DIRECTORY")
    since = None if args.since is None else moment(args.since, datetime.now(UTC))
    sessions = [
        each.id for each in open_reader(journal).sessions(None) if since is None or each.updated >= since
    ]
    directory: Path = args.out.expanduser()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise ValueError(f"'{directory}' is a file; name a directory") from error
    except OSError as error:
        raise ValueError(f"Cannot make directory '{directory}': {error.strerror}") from error
    ending = {"csv": "csv", "messages": "json"}.get(args.format or "", "jsonl")
    for session in sessions:
        _save(_exported(args, journal, session), directory / f"{_file_name(session)}.{ending}", journal)
    print(f"Exported {count(len(sessions), 'session')} to {visible(str(args.out))}", file=sys.stderr)
    return 0


def _file_name(session: str) -> str:
    """Return the file name for a session's id, with unsuitable characters percent-encoded.

    Programs choose the ids of sessions; two ids never share a file name.
    """
    name = quote(session, safe="")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > LONGEST_NAME:
        name = (
            f"{name[: LONGEST_NAME - 65]}-{sha256(session.encode('utf-8', 'surrogatepass')).hexdigest()}"
        )
    return name


def _print(lines: Iterator[str], *, exact: bool) -> None:
    r"""Print lines unchanged, in UTF-8, to a file or a pipe; without control characters to a terminal.

    A terminal gets JSON escapes such as `\u0080`, which keep JSON `exact`. A table has no escapes of its
    own, so a note says that a file would differ.
    """
    if sys.stdout.isatty():
        changed = False
        for line in lines:
            shown = visible_json(line)
            changed |= shown != line
            print(shown)
        if changed and not exact:
            print(
                "interlock history export: characters that the terminal would obey or hide are shown as "
                "escapes, which a table cannot tell from text; use -o FILE or a pipe for the exact table",
                file=sys.stderr,
            )
        return
    out: TextIO = sys.stdout
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(encoding="utf-8", newline="\n")
    for line in lines:
        print(line)


def _save(lines: Iterator[str], path: Path, journal: Location) -> None:
    """Write lines to a file that only its owner can read: either completely, or the old content stays."""
    if isinstance(journal, Path) and path.exists() and journal.exists() and path.samefile(journal):
        raise ValueError(f"'{path}' is the journal itself; choose another file")
    if path.is_dir():
        raise ValueError(f"'{path}' is a directory; name a file in it")
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    target = path if path.exists() and not path.is_file() else partial  # devices and pipes: direct
    try:
        handle = os.open(target, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            in_terminal = file.isatty()
            file.writelines(f"{visible_json(line) if in_terminal else line}\n" for line in lines)
        if target is partial:
            partial.replace(path)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ValueError(
            f"Cannot write '{path}': {error.strerror}. "
            "Check the path, the free space and the permissions."
        ) from error
    finally:
        partial.unlink(missing_ok=True)


# Receipts


def _receipt(args: argparse.Namespace, journal: Location) -> int:
    session = open_reader(journal).session(args.session).id
    mask: Mask | None = None if args.unmasked else redaction(args).body
    _print(iter([make_receipt(journal, session, args.call, mask, _key(args))]), exact=True)
    return 0


def _verify_receipt(args: argparse.Namespace, _: Location) -> int:
    against = [path.expanduser() for path in args.against or ()]
    try:
        found = check_receipt(args.file.expanduser(), against)
    except (ValueError, ExportError) as error:
        return refuse("history verify-receipt", error, BROKEN)
    known = {trusted_key(path.expanduser()) for path in args.trust or ()}
    own = public_key(_key(args))
    for line in receipt_lines(found):
        print(line)
    if found.key == own or found.key in known:
        print(f"✓ signed with the key {fingerprint(found.key)}, which is known here")
        return 0
    print(f"✗ signed with the key {fingerprint(found.key)}, not known here: name it with --trust FILE")
    return BROKEN


def _verify_stream(args: argparse.Namespace, _: Location) -> int:
    files = [path.expanduser() for path in args.file]
    against = None
    if args.against is not None:
        from ...hosting.audit.settings import stream_address

        # The last file may have the stream's own name; earlier ones were renamed.
        stream = stream_address(f"file:{files[-1].absolute()}").id
        against = StreamedJournal(args.against, stream)
    found = check_stream(((str(path), _lines_of(path)) for path in files), against)
    if args.json:
        print(json.dumps(stream_json(found), indent=2))
    else:
        for line in stream_lines(found):
            print(line)
    return BROKEN if found.faults or not found.lines else 0


def _lines_of(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, decompressed if its name ends in `.gz`. Raises `ValueError`."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield from file
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"Cannot read '{path}': {reason}. Name a file of an audit stream.") from error


def _import(args: argparse.Namespace, journal: Location) -> int:
    export = read_export(args.file)
    import_session(export, journal, _key(args))
    masked = f", {export.check.masked} masked" if export.check.masked else ""
    events = count(export.check.events, "event")
    print(f"Imported {visible(export.session)}: {events}{masked}, its chain intact.")
    print("The file's author wrote all of it: an intact chain shows only that it is consistent.")
    return 0


# Retention


def _prune(args: argparse.Namespace, journal: Location) -> int:
    if not args.older_than:
        raise ValueError("say how old: --older-than 90d")
    now = time_of(journal)
    done = prune(
        journal,
        before=to_ms(now) - _old_enough(args.older_than) // timedelta(milliseconds=1),
        by=args.operator,
        at=to_ms(now),
        key=_key(args),
        dry=bool(args.dry_run),
        even_unsent=bool(args.even_unsent),
    )
    events = sum(stub.events for stub in done.pruned)
    would = "Would prune" if args.dry_run else "Pruned"
    for stub in done.pruned:
        contents = f"{count(stub.events, 'event')}, last on {day(stub.updated)}"
        if questions := done.questions.get(stub.session):
            contents += f", {count(questions, 'question')} still open"
        print(f"  {visible(stub.session)}  {contents}")
    for session in done.held:
        print(f"  {visible(session)}  stays: it has not ended, and a server has it")
    for session, streams in done.unsent.items():
        print(f"  {visible(session)}  stays: not sent yet by {visible(', '.join(streams))}")
    for check in done.kept:
        reason = check.fault.message if check.fault else "it has no events"
        print(f"✗ {visible(check.session)}  kept as evidence:\n    {visible(reason)}")
    print(f"{would} {count(len(done.pruned), 'session')}, {count(events, 'event')}.")
    if done.unsent:
        place = (
            f"file {visible(journal.name)}.stream-NAME"
            if isinstance(journal, Path)
            else "row in 'stream'"
        )
        print(
            f"  Audit streams have still to send {count(len(done.unsent), 'session')}: prune after that."
        )
        print(f"  For a stream that is no longer used, remove its {place}.")
        print("  With --even-unsent they go, and are never sent.")
    if done.lingers:
        print("  Another program reads the journal: what was removed is overwritten when")
        print("  it stops and a console or another prune opens it again.")
    for copy in _copies(journal) if done.pruned else []:
        print(f"  A copy from before an upgrade may still have them:\n  {visible(str(copy))}")
    return BROKEN if done.kept else 0


def _copies(journal: Location) -> list[Path]:
    """List copies of a journal's file that were made before an upgrade."""
    if not isinstance(journal, Path):
        return []
    return sorted(journal.parent.glob(f"{glob.escape(journal.name)}.*.bak"))


def _old_enough(text: str) -> timedelta:
    """Parse an age for an irreversible command: `3m` might be meant as months. Raises `ValueError`."""
    length = age(text)
    if text.strip().lower().endswith(("s", "m")):
        raise ValueError(f"say the age in hours, days or weeks: 36h, 90d, 12w; found '{text}'")
    return length


def _rebuild(_: argparse.Namespace, journal: Location) -> int:
    done = rebuild(journal)
    for session in done.mended:
        print(f"  {visible(session)}  had a line that did not match its events")
    if done.decisions:
        print("  the list of decisions did not match the events")
    if done.held:
        print(f"  {count(len(done.held), 'session')} that a server has: not checked")
    were = f"{len(done.mended)} corrected" if done.mended else "all were correct"
    print(f"Rebuilt the lines of {count(done.sessions, 'session')}: {were}.")
    return 0


def _key(args: argparse.Namespace) -> Path:
    if getattr(args, "key", None) is not None:
        return args.key.expanduser()
    return config_directory() / KEY_NAME


_PARTS = {
    "verify": _verify,
    "export": _export,
    "import": _import,
    "prune": _prune,
    "rebuild": _rebuild,
    "receipt": _receipt,
    "verify-receipt": _verify_receipt,
    "verify-stream": _verify_stream,
}
