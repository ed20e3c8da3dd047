"""The commands behind `interlock`, each imported only when it runs."""

from __future__ import annotations

import argparse
import sys

from ..config.arguments import database, in_terminal, needs_terminal, operator, redaction, starts_nothing


def dispatch(args: argparse.Namespace) -> int:
    """Run the command that `args` names, with settings applied. Returns the exit code."""
    match args.command:
        case "check":
            from .rules.check import run as check

            return check(
                args.files,
                out=sys.stdout,
                err=sys.stderr,
                tools=args.tools,
                json=bool(args.json),
                strict=bool(args.strict),
            )
        case "test":
            from .rules.test import run as test

            return test(args.paths, out=sys.stdout, err=sys.stderr)
        case "explain":
            from .rules.explain import run as explain

            return explain(
                args.files,
                args.call,
                out=sys.stdout,
                err=sys.stderr,
                after=args.after or (),
                json=bool(args.json),
            )
        case "draw":
            from .rules.draw import run as draw

            return draw(args.file, net=args.net, out_file=args.out, out=sys.stdout, err=sys.stderr)
        case "history" if args.part == "approvals":
            from .history.approvals import approvals

            return approvals(
                database(args),
                since=args.since,
                json=bool(args.json),
                out=sys.stdout,
                err=sys.stderr,
                redaction=redaction(args),
            )
        case "history" if args.part:
            from .history.journal import run as part

            return part(args, database(args), out=sys.stdout, err=sys.stderr)
        case "history":
            from .history.list import list_sessions

            return list_sessions(database(args), limit=args.limit or 50, out=sys.stdout, err=sys.stderr)
        case "backtest":
            from .history.backtest import BacktestSelection
            from .history.backtest import run as backtest

            chosen = BacktestSelection(args.session or (), args.since, args.messages or (), args.at)
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
            from .history.replay import replay

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
                from .agent.connect import connect

                return connect(args)
            from .agent.console import console

            return console(args, database(args), redaction(args))
        case "acp" | "demo" | "run" | "resume" if args.read_only:
            return starts_nothing(args.command)
        case "flow":
            if getattr(args, "read_only", None):
                return starts_nothing(f"flow {args.part}")
            from .agent.flow import flow

            return flow(args, lambda: database(args), lambda: operator(args))
        case "demo":
            from .agent.demo import demo

            return demo(args, database(args), operator(args))
        case "run":
            from .agent.run import run

            return run(args, database(args), operator(args))
        case "resume":
            from .agent.resume import resume

            return resume(args, database(args), operator(args))
        case "serve":
            from .server.serve import serve

            return serve(args, database(args), operator(args), redaction(args))
        case "web":
            from .server.web import web

            return web(args, database(args), operator(args), redaction(args))
        case "token":
            from .server.token import token

            return token(args)
        case "protocol":
            from .server.protocol import protocol

            return protocol(schema=bool(args.schema), out=sys.stdout)
        case "mcp":
            from .agent.mcp import mcp

            return mcp(args)
        case "acp":
            from .agent.acp import acp

            return acp(args, database(args), operator(args))
        case "hook":
            from .agent.hook import hook

            return hook(args)
        case "notify":
            from .server.notify import notify

            return notify(test=bool(args.test), out=sys.stdout, err=sys.stderr)
        case other:
            raise AssertionError(f"command {other!r} has no code")
