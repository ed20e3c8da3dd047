"""`interlock token`: manages the tokens of agents and operators."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ....engine.core.rights import ABOUT, KINDS
from ...config.arguments import refuse
from ...config.identity import login_name
from ...config.quantities import age
from ..options import add_command, add_labels, add_switch

if TYPE_CHECKING:
    from ....engine.gateway.protocol.tokens import TokenFile


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and their options."""
    add_switch(parser, "--json", "print the list as JSON")
    parts = parser.add_subparsers(dest="part", metavar="PART")
    new = add_command(parts, "new", "create a token, which is shown only once")
    new.add_argument("kind", choices=("agent", "operator"), help="who will use it")
    new.add_argument(
        "name", metavar="NAME", help="its owner; an operator's decisions are recorded under this name"
    )
    new.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        type=Path,
        help="write it to a new file that only you can read, instead of printing it",
    )
    _add_terms(new, owner="your login name", rights="decide")
    rotate = add_command(parts, "rotate", "replace a name's token")
    rotate.add_argument("name", metavar="NAME", help="the name whose token is replaced")
    rotate.add_argument(
        "--overlap",
        metavar="TIME",
        help="how long the old token stays valid, e.g. 15m (default: not at all)",
    )
    _add_terms(rotate, owner="as before", rights="as before")
    add_switch(rotate, "--no-labels", "give its sessions no labels (default: keep them)")
    revoke = add_command(parts, "revoke", "revoke a token; its connections end within seconds")
    revoke.add_argument("name", metavar="NAME", help="the name whose token is revoked")


def _add_terms(parser: argparse.ArgumentParser, *, owner: str, rights: str) -> None:
    """Add the options for a token's owner and rights, with their defaults."""
    parser.add_argument(
        "--owner",
        metavar="NAME",
        help="the operator who owns the agent, and who does not count where several people must approve "
        f"its calls (default: {owner})",
    )
    parser.add_argument(
        "--kind",
        dest="rights",
        choices=KINDS,
        help="what an operator may do: look, also decide requests, or also administer "
        f"(default: {rights})",
    )
    add_labels(parser, "a label for the sessions of an agent with this token")


def run(args: argparse.Namespace) -> int:
    """Run the subcommand in `args.part`, or list the tokens. Returns the exit code."""
    from ....engine.core.sanitize import visible
    from ....engine.gateway.protocol.token_paths import token_file
    from ....engine.gateway.protocol.tokens import TokenFile

    tokens = TokenFile(token_file())
    try:
        match args.part:
            case "new":
                _issue(args, tokens)
            case "rotate":
                print(_rotate(args, tokens))
                _print_note(
                    "This is shown once."
                    + (f" The old one ends in {args.overlap}." if args.overlap else "")
                )
            case "revoke":
                operator = tokens.revoke(args.name)
                keys = (
                    " Passkeys enrolled under that name until now no longer count either, at any journal "
                    "of this user's servers: whoever has the name next enrolls their own."
                )
                _print_note(
                    f"'{visible(args.name)}' no longer has a valid token.{keys if operator else ''}"
                )
            case _:
                _list(tokens, as_json=bool(args.json))
    except (ValueError, argparse.ArgumentTypeError) as error:
        return refuse("token", error)
    return 0


def _rotate(args: argparse.Namespace, tokens: TokenFile) -> str:
    labels = _labels(args)
    if args.no_labels and labels:
        raise ValueError("--no-labels cannot be used with --label; leave out one of them")
    return tokens.rotate(
        args.name,
        overlap=age(args.overlap).total_seconds() if args.overlap else 0.0,
        owner=args.owner,
        rights=args.rights,
        labels=() if args.no_labels else labels,
    )


def _labels(args: argparse.Namespace) -> list[str] | None:
    """Return the labels on the command line; those of a setting are for sessions that start here."""
    return args.labels if "labels" in args.typed else None


def _issue(args: argparse.Namespace, tokens: TokenFile) -> None:
    from ....engine.core.people import is_among
    from ....engine.core.sanitize import visible

    owner, rights = args.owner, args.rights
    if owner is None and args.kind == "agent":
        owner = login_name(getpass.getuser)
    if rights is None and args.kind == "operator":
        rights = "decide"

    def issue() -> str:
        return tokens.issue(args.kind, args.name, owner, rights=rights, labels=_labels(args) or ())

    if args.out is None:
        print(issue())
    else:
        _save(args.out.expanduser(), issue)
    note = "" if owner is None else f" Its owner is {visible(owner)}."
    if rights is not None:
        note += f" Its kind is {rights}: {ABOUT[rights]}."
    operators = [each.name for each in tokens.tokens() if each.kind == "operator"]
    if owner is not None and not is_among(owner, operators):
        note += " No operator has a token under that name yet."
    if args.out is None:
        _print_note(f"This is shown once. Give it to the {args.kind} as INTERLOCK_TOKEN.{note}")
    else:
        way = "as INTERLOCK_TOKEN" if args.kind == "agent" else "with --token-file"
        _print_note(f"It is in {visible(str(args.out))}, for the {args.kind} to use {way}.{note}")


def _save(path: Path, issue: Callable[[], str]) -> None:
    """Write a token made by `issue` to a new file that only its owner can read.

    Without the file no token is made. Raises `ValueError`, and the errors of `issue`.
    """
    from ....engine.core.sanitize import visible

    shown = visible(str(path))
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError as error:
        raise ValueError(
            f"-o: {shown} is there already, and is not overwritten; name a new file"
        ) from error
    except OSError as error:
        raise ValueError(f"-o: cannot write {shown}: {error.strerror}; name another file") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(issue() + "\n")
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _list(tokens: TokenFile, *, as_json: bool) -> None:
    from ....engine.core.sanitize import visible

    found = tokens.tokens()
    if as_json:
        listed = [
            each.model_dump(mode="json", exclude={"digest"})
            | {"rights": each.effective_rights, "labels": list(each.labels or ())}
            for each in found
        ]
        print(json.dumps(listed, indent=2))
        return
    for each in found:
        ends = f"  until {each.ends:%Y-%m-%d %H:%M} UTC" if each.ends else ""
        more = (
            f"owner {visible(each.owner or 'unknown')}"
            if each.effective_rights is None
            else each.effective_rights
        )
        if each.labels:
            more += f"  labels {', '.join(each.labels)}"
        if each.login is not None:
            more += f"  logged in as {visible(each.login)}"
        since = f"since {each.created:%Y-%m-%d %H:%M} UTC{ends}"
        print(f"{each.kind:<8}  {visible(each.name)}  {since}  {more}")
    here = {each.name for each in found}
    away = [each for each in tokens.people() if each.name not in here]
    for person in away:
        print(f"person    {visible(person.name)}  not logged in  known as {visible(person.login)}")
    if not found and not away:
        _print_note(
            "There is no token yet. `interlock serve` makes one for this user's agents and consoles."
        )


def _print_note(text: str) -> None:
    """Print to stderr, separate from output for programs."""
    print(text, file=sys.stderr)
