"""`interlock token`: manages the tokens of agents and operators."""

from __future__ import annotations

import argparse
import getpass
import json
import sys

from ....engine.core.people import is_among
from ....engine.core.sanitize import visible
from ....engine.gateway.protocol.rights import ABOUT, Rights
from ....engine.gateway.protocol.token_paths import token_file
from ....engine.gateway.protocol.tokens import TokenError, TokenFile
from ...config.arguments import BAD_INPUT
from ...config.identity import login_name
from ...config.quantities import age


def token(args: argparse.Namespace) -> int:
    """Run the part that `args.part` names, or list the tokens. Returns the exit code."""
    tokens = TokenFile(token_file())
    try:
        match args.part:
            case "new":
                owner = args.owner
                if owner is None and args.kind == "agent":
                    owner = login_name(getpass.getuser)
                rights: Rights | None = args.rights
                if rights is None and args.kind == "operator":
                    rights = "decide"
                print(tokens.issue(args.kind, args.name, owner, rights=rights))
                whose = "" if owner is None else f" Its owner is {visible(owner)}."
                if rights is not None:
                    whose += f" Of kind {rights}: {ABOUT[rights]}."
                if owner is not None and not is_among(owner, _operators(tokens)):
                    whose += " No operator has a token under that name yet."
                _say(f"This is shown once. Give it to the {args.kind} as INTERLOCK_TOKEN.{whose}")
            case "rotate":
                overlap = age(args.overlap).total_seconds() if args.overlap else 0.0
                print(tokens.rotate(args.name, overlap=overlap, owner=args.owner, rights=args.rights))
                _say("This is shown once." + (f" The old one ends in {args.overlap}." if overlap else ""))
            case "revoke":
                tokens.revoke(args.name)
                _say(f"No token of '{visible(args.name)}' is valid any more.")
            case _:
                _list(tokens, as_json=bool(args.json))
    except (TokenError, ValueError, argparse.ArgumentTypeError) as error:
        _say(f"interlock token: {visible(str(error))}")
        return BAD_INPUT
    return 0


def _list(tokens: TokenFile, *, as_json: bool) -> None:
    found = tokens.tokens()
    if as_json:
        listed = [
            each.model_dump(mode="json", exclude={"digest"}) | {"rights": each.may} for each in found
        ]
        print(json.dumps(listed, indent=2))
        return
    for each in found:
        ends = f"  until {each.ends:%Y-%m-%d %H:%M} UTC" if each.ends else ""
        more = f"owner {visible(each.owner or 'unknown')}" if each.may is None else each.may
        since = f"since {each.created:%Y-%m-%d %H:%M} UTC{ends}"
        print(f"{each.kind:<8}  {visible(each.name)}  {since}  {more}")
    if not found:
        _say("There is no token yet. `interlock serve` makes one for this user's agents and consoles.")


def _operators(tokens: TokenFile) -> list[str]:
    return [each.name for each in tokens.tokens() if each.kind == "operator"]


def _say(text: str) -> None:
    """Print to stderr, apart from output for programs."""
    print(text, file=sys.stderr)
