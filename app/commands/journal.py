"""`interlock history verify|export|import|prune|rebuild`: what an auditor and a keeper need."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from ...engine.history.errors import JournalError, SessionNotFound
from ...engine.history.exporting import Mask, as_csv, as_jsonl, linked_events
from ...engine.history.importing import ExportError, import_session, read_export
from ...engine.history.prune import StubCheck, prune, stubs
from ...engine.history.queries import open_reader
from ...engine.history.rebuild import rebuild
from ...engine.history.redaction import Redaction
from ...engine.history.signing import fingerprint, public_key
from ...engine.history.times import to_ms
from ...engine.history.verify import ChainCheck, check_chain, check_file, verify_journal
from ...engine.text import visible
from ..ages import age
from . import BAD_INPUT, operator

BROKEN = 1
KEY_NAME = "journal-key.pem"


def run(args: argparse.Namespace, database: Path, *, out: TextIO, err: TextIO) -> int:
    """Do the part of `history` that `args` names. Returns the exit code: 1 for a broken chain."""
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
    """What a verification found: chains in their order, and what concerns the whole file."""

    checks: tuple[ChainCheck, ...]
    stubs: tuple[StubCheck, ...] = ()
    missing: int = 0

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
    known = public_key(_key(args))
    if args.json:
        print(json.dumps(_as_json(found, known), indent=2), file=out)
    else:
        for line in _lines(found, known):
            print(line, file=out)
    return BROKEN if found.broken else 0


def _named(names: list[str], database: Path) -> Iterator[ChainCheck]:
    for name in names:
        if Path(name).is_file():
            yield read_export(Path(name)).check
            continue
        session = open_reader(database).session(name)
        yield check_chain(session.id, linked_events(database, session.id), expected=session.events)


def _lines(found: _Findings, known: bytes | None) -> Iterator[str]:
    width = max((len(visible(check.session)) for check in found.checks), default=0)
    for check in found.checks:
        name = visible(check.session).ljust(width)
        if check.fault is not None:
            yield f"✗ {name}  {visible(check.fault.message)}"
            continue
        masked = f", {check.masked} of them masked" if check.masked else ""
        head = check.head.hex()[:16] if check.head else "none"
        yield f"✓ {name}  {_count(check.events, 'event')}{masked}, last hash {head}"
    for stub in found.stubs:
        what = stub.stub
        when = datetime.fromtimestamp(what.at / 1000, UTC).date()
        who = "here" if stub.key == known else f"with the key {fingerprint(stub.key)}"
        if stub.good:
            yield (
                f"- {visible(what.session)}  {_count(what.events, 'event')}, pruned {when} "
                f"by {visible(what.by)}, signed {who}"
            )
        else:
            yield f"✗ {visible(what.session)}  the stub that pruning left was changed"
    if found.missing > 0:
        were = "is" if found.missing == 1 else "are"
        yield f"✗ {_count(found.missing, 'event')} of sessions that are not in the file {were} missing"
    elif found.missing < 0:
        yield f"✗ the file holds {_count(-found.missing, 'event')} more than it ever numbered"
    broken = sum(check.fault is not None for check in found.checks)
    total = sum(check.events for check in found.checks)
    verdict = f"{broken} broken" if broken else "the file is not whole" if found.broken else "all whole"
    yield f"{_count(len(found.checks), 'session')}, {_count(total, 'event')}: {verdict}."


def _as_json(found: _Findings, known: bytes | None) -> dict[str, object]:
    return {
        "whole": not found.broken,
        "missing_events": found.missing,
        "sessions": [
            {
                "session": check.session,
                "events": check.events,
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
                "own_key": stub.key == known,
            }
            for stub in found.stubs
        ],
    }


# Moving sessions between files


def _export(args: argparse.Namespace, database: Path, out: TextIO, err: TextIO) -> int:
    reader = open_reader(database)
    session = reader.session(args.session)
    redaction = Redaction(_redact(args))
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
        for line in lines:
            print(line, file=out)
        return 0
    handle = os.open(args.out, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
    print(f"Exported {visible(session.id)} to {visible(str(args.out))}", file=err)
    return 0


def _import(args: argparse.Namespace, database: Path, out: TextIO) -> int:
    export = read_export(args.file)
    import_session(export, database)
    masked = f", {export.check.masked} of them masked" if export.check.masked else ""
    count = _count(export.check.events, "event")
    print(f"Imported {visible(export.session)}: {count}{masked}, its chain whole.", file=out)
    return 0


# Keeping


def _prune(args: argparse.Namespace, database: Path, out: TextIO) -> int:
    if not args.older_than:
        raise ValueError("say how old: --older-than 90d")
    now = datetime.now(UTC)
    done = prune(
        database,
        before=to_ms(now - age(args.older_than)),
        by=operator(args),
        at=to_ms(now),
        key=_key(args),
        dry=bool(args.dry_run),
    )
    events = sum(stub.events for stub in done.pruned)
    would = "Would prune" if args.dry_run else "Pruned"
    for stub in done.pruned:
        last = datetime.fromtimestamp(stub.updated / 1000, UTC).date()
        print(f"  {visible(stub.session)}  {_count(stub.events, 'event')}, last on {last}", file=out)
    for check in done.kept:
        why = check.fault.message if check.fault else "it has no events"
        print(f"✗ {visible(check.session)} was kept as evidence: {visible(why)}", file=out)
    print(f"{would} {_count(len(done.pruned), 'session')}, {_count(events, 'event')}.", file=out)
    return BROKEN if done.kept else 0


def _rebuild(database: Path, out: TextIO) -> int:
    done = rebuild(database)
    for session in done.mended:
        print(f"  {visible(session)}  had a line that its events do not make", file=out)
    were = f"{len(done.mended)} mended" if done.mended else "all were right"
    print(f"Rebuilt the lines of {_count(done.sessions, 'session')}: {were}.", file=out)
    return 0


def _key(args: argparse.Namespace) -> Path:
    if getattr(args, "key", None) is not None:
        return args.key.expanduser()
    from platformdirs import user_config_path

    config = os.environ.get("INTERLOCK_CONFIG_DIR")
    return (Path(config) if config else user_config_path("interlock")) / KEY_NAME


def _redact(args: argparse.Namespace) -> list[str]:
    return [name.strip() for name in (args.redact or "").split(",") if name.strip()]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
