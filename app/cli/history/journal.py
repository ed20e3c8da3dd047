"""`interlock history verify|export|import|prune|rebuild`: commands for auditing and maintenance."""

from __future__ import annotations

import argparse
import glob
import io
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

from ....engine.core.sanitize import visible, visible_json
from ....engine.history.audit.compare import compare
from ....engine.history.audit.export import Mask, as_csv, as_jsonl, linked_events
from ....engine.history.audit.importing import ExportError, import_session, read_export
from ....engine.history.audit.prune import prune, stubs
from ....engine.history.audit.signing import public_key, trusted_key
from ....engine.history.audit.verify import ChainCheck, check_file, verify_journal, verify_session
from ....engine.history.errors import JournalError, SessionNotFound
from ....engine.history.journal.maintenance import index_mismatches, rebuild
from ....engine.history.journal.reader import open_reader
from ....engine.history.model.times import to_ms
from ...config.arguments import BAD_INPUT, operator
from ...config.arguments import redaction as masks
from ...config.quantities import age
from ...format.journal_findings import (
    ExportComparison,
    JournalFindings,
    day,
    findings_json,
    findings_lines,
)
from ...format.text import count

BROKEN = 1
KEY_NAME = "journal-key.pem"


def run(args: argparse.Namespace, database: Path, *, out: TextIO, err: TextIO) -> int:
    """Run the part of `history` that `args` names. Returns the exit code.

    It is 1 for a broken journal, and for one signed with an unknown key.
    """
    try:
        match args.part:
            case "verify":
                return _verify(args, database, out)
            case "export":
                return _export(args, database, out, err)
            case "import":
                return _import(args, database, out)
            case "prune":
                return _prune(args, database, out)
            case _:
                return _rebuild(database, out)
    except BrokenPipeError:
        raise
    except (JournalError, SessionNotFound, ExportError, ValueError, OSError) as error:
        text = visible(str(error), keep_newlines=True)
        print(f"interlock history {args.part}: {text}", file=err)
        return BAD_INPUT


# Verifying


def _verify(args: argparse.Namespace, database: Path, out: TextIO) -> int:
    if args.what:
        found = JournalFindings(tuple(_named(args.what, database)))
    else:
        checks = tuple(verify_journal(database))
        broken = {check.session for check in checks if check.fault}
        otherwise = tuple(index_mismatches(database, broken))
        found = JournalFindings(checks, tuple(stubs(database)), check_file(database), otherwise)
    compared = tuple(_compared(path.expanduser(), database) for path in args.against or ())
    found = replace(found, compared=compared)
    trusted = frozenset(trusted_key(path.expanduser()) for path in args.trust or ())
    if found.stubs or any(check.keys for check in found.checks):
        found = replace(found, own=public_key(_key(args)), trusted=trusted)
    if args.json:
        print(json.dumps(findings_json(found), indent=2), file=out)
    else:
        for line in findings_lines(found):
            print(line, file=out)
    return BROKEN if found.broken or found.unknown or found.unsure else 0


def _compared(path: Path, database: Path) -> ExportComparison:
    """Compare a file that was exported before with the journal's present content."""
    export = read_export(path)
    if export.check.fault is not None:
        raise ValueError(
            f"'{path}' is not as it was exported: {export.check.fault.message}. "
            "Compare with an export that is whole."
        )
    return ExportComparison(path.name, compare(database, export))


def _named(names: list[str], database: Path) -> Iterator[ChainCheck]:
    for name in names:
        if os.path.isfile(name):  # unlike `Path`'s, also for what is too long for a file's name
            yield read_export(Path(name)).check
        elif name.endswith(".jsonl") or os.path.isdir(name):
            what = "is a directory" if os.path.isdir(name) else "is not here"
            raise ValueError(f"'{name}' {what}; name the file of an exported session")
        else:
            yield verify_session(database, open_reader(database).session(name).id)


# Moving sessions between files


def _export(args: argparse.Namespace, database: Path, out: TextIO, err: TextIO) -> int:
    reader = open_reader(database)
    session = reader.session(args.session)
    redaction = masks(args)
    mask: Mask | None = None if args.unmasked else redaction.body
    match args.format or "jsonl":
        case "jsonl":
            lines = as_jsonl(session.id, linked_events(database, session.id), mask)
        case "csv":
            lines = as_csv(linked_events(database, session.id), mask)
        case _:
            from ....engine.recording.conversation import message_log

            events = reader.events(session.id)
            shown = events if args.unmasked else map(redaction.event, events)
            lines = iter([json.dumps(message_log(shown), indent=2, ensure_ascii=False)])
    if args.out is None:
        _print(lines, out, err, exact=args.format != "csv")
        return 0
    _save(lines, args.out.expanduser(), database)
    print(f"Exported {visible(session.id)} to {visible(str(args.out))}", file=err)
    return 0


def _print(lines: Iterator[str], out: TextIO, err: TextIO, *, exact: bool) -> None:
    r"""Print lines unchanged, in UTF-8, to a file or a pipe; without control characters to a terminal.

    There they have JSON's escapes, `\u0080`: JSON is `exact` with them. A table has no escapes of its
    own; a note says that a file would differ.
    """
    if out.isatty():
        changed = False
        for line in lines:
            shown = visible_json(line)
            changed |= shown != line
            print(shown, file=out)
        if changed and not exact:
            print(
                "interlock history export: characters that the terminal would obey or hide are shown as "
                "escapes, which a table cannot tell from text; use -o FILE or a pipe for the exact table",
                file=err,
            )
        return
    _as_utf8(out)
    for line in lines:
        print(line, file=out)


def _as_utf8(out: TextIO) -> None:
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(encoding="utf-8", newline="\n")


def _save(lines: Iterator[str], path: Path, database: Path) -> None:
    """Write lines into a file that only its owner can read: completely, or the old content stays."""
    if path.exists() and database.exists() and path.samefile(database):
        raise ValueError(f"'{path}' is the journal itself; choose another file")
    if path.is_dir():
        raise ValueError(f"'{path}' is a directory; name a file in it")
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    target = path if path.exists() and not path.is_file() else beside  # a device or a pipe stays one
    try:
        handle = os.open(target, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            in_terminal = file.isatty()
            file.writelines(f"{visible_json(line) if in_terminal else line}\n" for line in lines)
        if target is beside:
            beside.replace(path)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ValueError(
            f"Cannot write '{path}': {error.strerror}. "
            "Check the path, the free space and the permissions."
        ) from error
    finally:
        beside.unlink(missing_ok=True)


def _import(args: argparse.Namespace, database: Path, out: TextIO) -> int:
    export = read_export(args.file)
    import_session(export, database, _key(args))
    masked = f", {export.check.masked} masked" if export.check.masked else ""
    events = count(export.check.events, "event")
    print(f"Imported {visible(export.session)}: {events}{masked}, its chain whole.", file=out)
    print(
        "Whoever made the file wrote all that is in it: a whole chain says only that it fits.", file=out
    )
    return 0


# Keeping


def _prune(args: argparse.Namespace, database: Path, out: TextIO) -> int:
    if not args.older_than:
        raise ValueError("say how old: --older-than 90d")
    now = datetime.now(UTC)
    done = prune(
        database,
        before=to_ms(now) - _old_enough(args.older_than) // timedelta(milliseconds=1),
        by=operator(args),
        at=to_ms(now),
        key=_key(args),
        dry=bool(args.dry_run),
    )
    events = sum(stub.events for stub in done.pruned)
    would = "Would prune" if args.dry_run else "Pruned"
    for stub in done.pruned:
        what = f"{count(stub.events, 'event')}, last on {day(stub.updated)}"
        if asked := done.questions.get(stub.session):
            what += f", {count(asked, 'question')} still open"
        print(f"  {visible(stub.session)}  {what}", file=out)
    for check in done.kept:
        why = check.fault.message if check.fault else "it has no events"
        print(f"✗ {visible(check.session)}  kept as evidence:\n    {visible(why)}", file=out)
    print(f"{would} {count(len(done.pruned), 'session')}, {count(events, 'event')}.", file=out)
    if done.lingers:
        print("  Somebody reads the journal: what was removed is overwritten when they stop", file=out)
        print("  and a console or another prune opens it again.", file=out)
    copies = sorted(database.parent.glob(f"{glob.escape(database.name)}.*.bak"))
    for copy in copies if done.pruned else []:
        print(f"  A copy from before an upgrade may still have them:\n  {visible(str(copy))}", file=out)
    return BROKEN if done.kept else 0


def _old_enough(text: str) -> timedelta:
    """Parse an age for an irreversible command: `3m` might be meant as months. Raises `ValueError`."""
    length = age(text)
    if text.strip().lower().endswith(("s", "m")):
        raise ValueError(f"say the age in hours, days or weeks: 36h, 90d, 12w; found '{text}'")
    return length


def _rebuild(database: Path, out: TextIO) -> int:
    done = rebuild(database)
    for session in done.mended:
        print(f"  {visible(session)}  had a line that its events do not make", file=out)
    if done.decisions:
        print("  the list of decisions was not what the events make", file=out)
    were = f"{len(done.mended)} mended" if done.mended else "all were right"
    print(f"Rebuilt the lines of {count(done.sessions, 'session')}: {were}.", file=out)
    return 0


def _key(args: argparse.Namespace) -> Path:
    if getattr(args, "key", None) is not None:
        return args.key.expanduser()
    from platformdirs import user_config_path

    config = os.environ.get("INTERLOCK_CONFIG_DIR")
    return (Path(config) if config else user_config_path("interlock")) / KEY_NAME
