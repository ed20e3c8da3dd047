"""The commands behind `interlock`, each imported only when it runs."""

from __future__ import annotations

import argparse
import os
import sys

BAD_INPUT = 2


def dispatch(args: argparse.Namespace) -> int:
    """Run the command that `args` names, with settings applied. Returns the exit code."""
    match args.command:
        case "check":
            from .check import run as check

            return check(
                args.files,
                out=sys.stdout,
                err=sys.stderr,
                tools=args.tools,
                json=bool(args.json),
                strict=bool(args.strict),
            )
        case "test":
            from .test import run as test

            return test(args.paths, out=sys.stdout, err=sys.stderr)
        case "explain":
            from .explain import run as explain

            return explain(
                args.files,
                args.call,
                out=sys.stdout,
                err=sys.stderr,
                after=args.after or (),
                json=bool(args.json),
            )
        case "draw":
            from .draw import run as draw

            return draw(args.file, net=args.net, out_file=args.out, out=sys.stdout, err=sys.stderr)
        case "history" if args.part == "approvals":
            from .approvals import approvals

            return approvals(
                database(args),
                since=args.since,
                json=bool(args.json),
                out=sys.stdout,
                err=sys.stderr,
                redaction=redaction(args),
            )
        case "history" if args.part:
            from .journal import run as part

            return part(args, database(args), out=sys.stdout, err=sys.stderr)
        case "history":
            from .history import list_sessions

            return list_sessions(database(args), limit=args.limit or 50, out=sys.stdout, err=sys.stderr)
        case "backtest":
            from .backtest import Chosen
            from .backtest import run as backtest

            chosen = Chosen(args.session or (), args.since, args.messages or (), args.at)
            return backtest(
                args.files,
                database(args),
                chosen,
                out=sys.stdout,
                err=sys.stderr,
                active=args.active,
                json=bool(args.json),
                redaction=redaction(args),
            )
        case "replay":
            from .replay import replay

            if not args.plain and not in_terminal():
                return needs_terminal("replay", "use --plain to print it instead")
            return replay(
                database(args),
                args.session,
                plain=bool(args.plain),
                out=sys.stdout,
                err=sys.stderr,
                redaction=redaction(args),
                appearance=getattr(args, "appearance", None),
            )
        case "console":
            if not in_terminal():
                return needs_terminal("console", "start it in a terminal")
            if args.connect is not None:
                from .connect import connect

                return connect(args)
            from .console import console

            return console(args, database(args), redaction(args))
        case "acp" | "demo" | "run" | "resume" if args.read_only:
            return starts_nothing(args.command)
        case "flow":
            if getattr(args, "read_only", None):
                return starts_nothing(f"flow {args.part}")
            from .flow import flow

            return flow(args, lambda: database(args), lambda: operator(args))
        case "demo":
            from .demo import demo

            return demo(args, database(args), operator(args))
        case "run":
            from .run import run

            return run(args, database(args), operator(args))
        case "resume":
            from .resume import resume

            return resume(args, database(args), operator(args))
        case "serve":
            from .serve import serve

            return serve(args, database(args), operator(args), redaction(args))
        case "web":
            from .web import web

            return web(args, database(args), operator(args), redaction(args))
        case "token":
            from .token import token

            return token(args)
        case "protocol":
            from .protocol import protocol

            return protocol(schema=bool(args.schema), out=sys.stdout)
        case "mcp":
            from .mcp import mcp

            return mcp(args)
        case "acp":
            from .acp import acp

            return acp(args, database(args), operator(args))
        case "hook":
            from .hook import hook

            return hook(args)
        case "notify":
            from .notify import notify

            return notify(test=bool(args.test), out=sys.stdout, err=sys.stderr)
        case other:
            raise AssertionError(f"command {other!r} has no code")


def database(args: argparse.Namespace):
    """The journal's file: `--db`, or the one in the user's data directory."""
    if args.db is not None:
        return args.db.expanduser()
    from platformdirs import user_data_path

    return user_data_path("interlock") / "interlock.db"


def redaction(args: argparse.Namespace):
    """What is never shown: the fields that are masked by default, and those of `--redact`."""
    from ..language import redaction as masking

    return masking(name.strip() for name in (args.redact or "").split(","))


def operator(args: argparse.Namespace) -> str:
    """Who decides: `--as` or the login name, as `cli` settled it."""
    return args.operator


def starts_nothing(command: str) -> int:
    """Say that a read-only console hosts nothing. Returns the exit code."""
    print(
        f"interlock {command}: --read-only changes nothing, so no agent can be started under it. Leave "
        "it out (also read_only in interlock.toml and INTERLOCK_READ_ONLY), or watch what another "
        "process runs with: interlock console --read-only",
        file=sys.stderr,
    )
    return BAD_INPUT


def in_terminal() -> bool:
    """Whether a console can be shown here: it reads from stdin and Textual paints on stderr.

    A tab's process is told by its driver that it is shown in a browser.
    """
    if os.environ.get("TEXTUAL_DRIVER"):
        return True
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def needs_terminal(command: str, remedy: str) -> int:
    """Say that a console cannot open here. Returns the exit code."""
    print(
        f"interlock {command}: there is no terminal here to show a console in; {remedy}.", file=sys.stderr
    )
    return BAD_INPUT
