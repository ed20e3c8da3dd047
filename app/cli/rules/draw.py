"""`interlock draw`: draws the nets of a rules file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from ...config.arguments import BAD_INPUT, refuse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("file", metavar="FILE", help="a rules file")
    parser.add_argument("--net", metavar="NAME", help="only this net")
    parser.add_argument(
        "-o",
        "--out",
        metavar="OUT",
        type=Path,
        help="an .svg, .dot or .mmd file (default: Mermaid, printed)",
    )


def run(args: argparse.Namespace) -> int:
    """Draw the nets of the file, or the one named, to `--out`; its suffix selects the format.

    Without `--out`, print the nets as Mermaid. Returns 0, or 2 after printing an error.
    """
    from ....engine.core.sanitize import visible
    from ....engine.drawing.diagram_text import dot, mermaid
    from ....engine.drawing.svg import svg
    from ....rules import RuleError, load_rules
    from ...format.net_graph import net_graph

    formats = {".svg": svg, ".dot": dot, ".gv": dot, ".mmd": mermaid}
    out: Path | None = args.out
    suffix = ".mmd" if out is None else out.suffix.lower()
    if suffix not in formats:
        text = f"'{out}' does not end in a format that can be drawn: {', '.join(formats)}"
        return refuse("draw", visible(text))
    try:
        nets = load_rules(args.file).registry
    except RuleError as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    if args.net is not None and args.net not in nets:
        return refuse("draw", visible(_unknown(args.net, nets, args.file)))
    if not nets:
        return refuse("draw", visible(f"{args.file} holds no rule, so there is no net to draw"))
    drawn = nets if args.net is None else {args.net: nets[args.net]}
    picture = formats[suffix]([net_graph(key, net) for key, net in drawn.items()])
    if out is None:
        sys.stdout.write(picture)
        return 0
    try:
        out.write_text(picture, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return refuse("draw", visible(f"cannot write '{out}': {reason or error}"))
    return 0


def _unknown(net: str, nets: Iterable[str], file: str) -> str:
    close = get_close_matches(net[:100], list(nets), n=1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return f"{file} has no net '{net}'{hint} Available: {', '.join(nets) or 'none'}"
