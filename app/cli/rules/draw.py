"""`interlock draw`: the nets of a rules file as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TextIO

from ....engine.core.sanitize import visible
from ....engine.net.net import SkillNet
from ....rules import RuleError, load_rules
from ...config.arguments import BAD_INPUT
from ...format.graph_text import Nets, to_dot, to_mermaid
from ...format.net_svg import to_svg

FORMATS: Mapping[str, Callable[[Nets], str]] = {
    ".svg": to_svg,
    ".dot": to_dot,
    ".gv": to_dot,
    ".mmd": to_mermaid,
}


def run(file: str, *, net: str | None, out_file: str | None, out: TextIO, err: TextIO) -> int:
    """Draw the nets of `file`, or the one called `net`, into `out_file`; its suffix selects the format.

    Without `out_file` the nets are printed as Mermaid. Returns 0, or 2 after printing the fault to `err`.
    """
    suffix = ".mmd" if out_file is None else Path(out_file).suffix.lower()
    if suffix not in FORMATS:
        return _refuse(err, f"'{out_file}' ends in no format that can be drawn: {', '.join(FORMATS)}")
    try:
        nets = load_rules(file).registry
    except RuleError as error:
        print(error, file=err)
        return BAD_INPUT
    if net is not None and net not in nets:
        return _refuse(err, _unknown(net, nets, file))
    if not nets:
        return _refuse(err, f"{file} holds no rule, so there is no net to draw")
    picture = FORMATS[suffix](nets if net is None else {net: nets[net]})
    if out_file is None:
        out.write(picture)
        return 0
    try:
        Path(out_file).write_text(picture, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return _refuse(err, f"cannot write '{out_file}': {reason or error}")
    return 0


def _unknown(net: str, nets: Mapping[str, SkillNet], file: str) -> str:
    close = get_close_matches(net[:100], list(nets), n=1)
    meant = f"; did you mean '{close[0]}'?" if close else ""
    return f"{file} has no net '{net}'{meant} Available: {', '.join(nets) or 'none'}"


def _refuse(err: TextIO, message: str) -> int:
    print(f"interlock draw: {visible(message)}", file=err)
    return BAD_INPUT
