"""`interlock history verify|export|import|prune|rebuild`: what an auditor and a keeper need."""

from __future__ import annotations

import argparse
import glob
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

from ...engine.history.errors import JournalError, SessionNotFound
from ...engine.history.exporting import Mask, as_csv, as_jsonl, linked_events
from ...engine.history.importing import ExportError, import_session, read_export
from ...engine.history.prune import StubCheck, prune, stubs
from ...engine.history.queries import open_reader
from ...engine.history.rebuild import rebuild
from ...engine.history.signing import fingerprint, public_key, trusted_key
from ...engine.history.times import from_ms, to_ms
from ...engine.history.verify import ChainCheck, check_file, verify_journal, verify_session
from ...engine.text import visible, visible_json
from ..ages import age
from ..words import count
from . import BAD_INPUT, operator
from . import redaction as masks

BROKEN = 1
KEY_NAME = "journal-key.pem"


def run(args: argparse.Namespace, database: Path, *, out: TextIO, err: TextIO) -> int:
    """Do the part of `history` that `args` names. Returns the exit code.

    It is 1 for what is broken, and for what is signed by somebody unknown.
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


@dataclass(frozen=True, slots=True)
class _Findings:
    """What a verification found: chains in their order, and what concerns the whole file.

    `own` is the public key of this machine, `trusted` are those of others that were named.
    """

    checks: tuple[ChainCheck, ...]
    stubs: tuple[StubCheck, ...] = ()
    missing: int = 0
    own: bytes | None = None
    trusted: frozenset[bytes] = frozenset()

    def knows(self, stub: StubCheck) -> bool:
        """Whether a stub is signed by somebody known: anybody can make a key and sign with it."""
        return stub.good and (stub.key == self.own or stub.key in self.trusted)

    @property
    def unknown(self) -> int:
        """Stubs with a good signature of which nobody knows whose it is."""
        return sum(stub.good and not self.knows(stub) for stub in self.stubs)

    @property
    def broken(self) -> bool:
        return bool(
            self.missing
            or any(check.fault for check in self.checks)
            or any(not stub.good for stub in self.stubs)
        )


def _verify(args: argparse.Namespace, database: Path, out: TextIO) -> int:
    if args.what:
        found = _Findings(tuple(_named(args.what, database)))
    else:
        found = _Findings(
            tuple(verify_journal(database)), tuple(stubs(database)), check_file(database).missing
        )
    trusted = frozenset(trusted_key(path.expanduser()) for path in args.trust or ())
    if found.stubs:
        found = replace(found, own=public_key(_key(args)), trusted=trusted)
    if args.json:
        print(json.dumps(_as_json(found), indent=2), file=out)
    else:
        for line in _lines(found):
            print(line, file=out)
    return BROKEN if found.broken or found.unknown else 0


def _named(names: list[str], database: Path) -> Iterator[ChainCheck]:
    for name in names:
        if os.path.isfile(name):  # unlike `Path`'s, also for what is too long for a file's name
            yield read_export(Path(name)).check
        else:
            yield verify_session(database, open_reader(database).session(name).id)


def _lines(found: _Findings) -> Iterator[str]:
    width = max((len(visible(check.session)) for check in found.checks), default=0)
    for check in found.checks:
        name = visible(check.session).ljust(width)
        if check.fault is not None:
            yield f"✗ {name}  {visible(check.fault.message)}"
            continue
        imported = ", imported" if check.imported else ""
        masked = f", {check.masked} masked" if check.masked else ""
        head = check.head.hex()[:16] if check.head else "none"
        yield f"✓ {name}  {count(check.events, 'event')}{imported}{masked}, hash {head}"
    for stub in found.stubs:
        what = stub.stub
        if not stub.good:
            yield f"✗ {visible(what.session)}  the stub that pruning left was changed"
            continue
        known = found.knows(stub)
        here = ", signed here" if stub.key == found.own else ""
        yield (
            f"{'-' if known else '?'} {visible(what.session)}  {count(what.events, 'event')}, "
            f"pruned {_day(what.at)} by {visible(what.by)}{here}"
        )
        if not here:
            whose = "the trusted key" if known else "a key this machine does not know:"
            yield f"    signed by {whose} {fingerprint(stub.key)}"
    if found.unknown:
        yield "? Whoever signed by an unknown key can tell you its number. Where it is the"
        yield "    same, trust the key's public half: interlock history verify --trust FILE"
    if found.missing > 0:
        were = "is" if found.missing == 1 else "are"
        yield f"✗ {count(found.missing, 'event')} of sessions that are not in the file {were} missing"
    elif found.missing < 0:
        yield f"✗ the file holds {count(-found.missing, 'event')} more than it ever numbered"
    broken = sum(check.fault is not None for check in found.checks)
    total = sum(check.events for check in found.checks)
    verdict = f"{broken} broken" if broken else "the file is not whole" if found.broken else "all whole"
    if found.unknown:
        verdict += f", {count(found.unknown, 'stub')} by unknown keys"
    yield f"{count(len(found.checks), 'session')}, {count(total, 'event')}: {verdict}."


def _as_json(found: _Findings) -> dict[str, object]:
    return {
        "whole": not found.broken,
        "unknown_keys": found.unknown,
        "missing_events": found.missing,
        "sessions": [
            {
                "session": check.session,
                "events": check.events,
                "imported": check.imported,
                "masked": check.masked,
                "head": check.head.hex() if check.head else None,
                "fault": None
                if check.fault is None
                else {
                    "event": check.fault.seq,
                    "kind": check.fault.kind,
                    "message": check.fault.message,
                },
            }
            for check in found.checks
        ],
        "pruned": [
            {
                "session": stub.stub.session,
                "events": stub.stub.events,
                "head": stub.stub.head.hex(),
                "by": stub.stub.by,
                "at": stub.stub.at,
                "good": stub.good,
                "key": fingerprint(stub.key),
                "own_key": stub.key == found.own,
                "known_key": found.knows(stub),
            }
            for stub in found.stubs
        ],
    }


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
            from ...engine.message_log import message_log

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
    r"""Lines as they are, in UTF-8, for a file or a pipe; without anything a terminal would obey.

    There they have JSON's escapes, `\u0080`: JSON is `exact` with them. A table has none of its own; that
    it is not what a file would hold is told.
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
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(encoding="utf-8", newline="\n")
    for line in lines:
        print(line, file=out)


def _save(lines: Iterator[str], path: Path, database: Path) -> None:
    """Put lines into a file that only its owner reads: whole, or what was there stays."""
    if path.exists() and database.exists() and path.samefile(database):
        raise ValueError(f"'{path}' is the journal itself; choose another file")
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
            f"Cannot write '{path}': {error.strerror}. Check the free space and the permissions."
        ) from error
    finally:
        beside.unlink(missing_ok=True)


def _import(args: argparse.Namespace, database: Path, out: TextIO) -> int:
    export = read_export(args.file)
    import_session(export, database)
    masked = f", {export.check.masked} masked" if export.check.masked else ""
    events = count(export.check.events, "event")
    print(f"Imported {visible(export.session)}: {events}{masked}, its chain whole.", file=out)
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
        what = f"{count(stub.events, 'event')}, last on {_day(stub.updated)}"
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
    """An age for what cannot be undone: `3m` might be meant as months. Raises `ValueError`."""
    length = age(text)
    if text.strip().lower().endswith(("s", "m")):
        raise ValueError(f"say the age in hours, days or weeks: 36h, 90d, 12w; found '{text}'")
    return length


def _day(ms: int) -> str:
    return from_ms(ms).date().isoformat()


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
