"""`interlock token`: who may connect."""

from __future__ import annotations

import argparse
import json
import sys

from ...engine.gateway.places import token_file
from ...engine.gateway.tokens import TokenError, TokenFile
from ...engine.text import visible
from ..ages import age
from . import BAD_INPUT


def token(args: argparse.Namespace) -> int:
    """Do what `args.part` says, or list the tokens. Returns the exit code."""
    tokens = TokenFile(token_file())
    try:
        match args.part:
            case "new":
                print(tokens.issue(args.kind, args.name))
                _say(f"This is shown once. Give it to the {args.kind} as INTERLOCK_TOKEN.")
            case "rotate":
                overlap = age(args.overlap).total_seconds() if args.overlap else 0.0
                print(tokens.rotate(args.name, overlap=overlap))
                _say("This is shown once." + (f" The old one ends in {args.overlap}." if overlap else ""))
            case "revoke":
                tokens.revoke(args.name)
                _say(f"No token of '{visible(args.name)}' is valid any more.")
            case _:
                _list(tokens, as_json=bool(args.json))
    except (TokenError, ValueError) as error:
        _say(f"interlock token: {visible(str(error))}")
        return BAD_INPUT
    return 0


def _list(tokens: TokenFile, *, as_json: bool) -> None:
    found = tokens.tokens()
    if as_json:
        print(json.dumps([each.model_dump(mode="json", exclude={"digest"}) for each in found], indent=2))
        return
    for each in found:
        ends = f"  until {each.ends:%Y-%m-%d %H:%M} UTC" if each.ends else ""
        print(f"{each.kind:<8}  {visible(each.name)}  since {each.created:%Y-%m-%d %H:%M} UTC{ends}")
    if not found:
        _say("There is no token yet. `interlock serve` makes one for this user's agents and consoles.")


def _say(text: str) -> None:
    """Beside what a program reads."""
    print(text, file=sys.stderr)
