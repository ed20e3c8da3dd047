"""Maps that give calls a name, and whether other maps give it to as many calls (G-67).

In a field the first map that a command matches wins. So the maps that determine a name are those of a
field up to the last one to that name: later maps do not matter, but one before or in place of them does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from ..engine.core.rule import ANYTHING_ELSE, UNCLEAR
from ..engine.core.sanitize import folded_name
from ..engine.net.net import FieldMaps, NameMaps
from .parse.statements import Map

Fields = Iterable[tuple[str, str, bool, Sequence[Map]]]
"""Fields with maps: tool, name, whether it holds shell commands, and its maps in order."""


def name_maps(
    name: str,
    fields: Fields,
    renamed: Iterable[str],
    risky: Iterable[str],
    unclear_tools: frozenset[str] | None,
) -> NameMaps:
    """Maps that give calls `name`; any map of its field may make a call `unclear`.

    `renamed` are the tools whose calls may have other names than their own, `risky` the names that rules
    restrict.
    """
    found: list[FieldMaps] = []
    mapped: set[str] = set()
    for tool, field, shell, maps in fields:
        last = [at for at, m in enumerate(maps, 1) if name in (m.name, UNCLEAR)]
        if last:
            found.append(FieldMaps(tool, field, shell, last[-1], _digest(maps[: last[-1]])))
        mapped.update(m.name for m in maps)
    about_unclear = name == UNCLEAR
    return NameMaps(
        tuple(found),
        tuple(sorted(renamed)),
        tuple(sorted(mapped.intersection(risky))) if about_unclear else (),
        tuple(sorted(unclear_tools)) if about_unclear and unclear_tools is not None else None,
    )


def gives_less(name: str, was: NameMaps, now: NameMaps, fields: Fields) -> bool:
    """Return whether the maps of `fields`, described by `now`, give `name` to fewer calls than before.

    Returns true in case of doubt.
    """
    by_field = {(tool, field): (shell, maps) for tool, field, shell, maps in fields}
    for each in was.fields:
        shell, maps = by_field.get((each.tool, each.field), (each.shell, ()))
        kept = shell == each.shell and len(maps) >= each.count
        if not kept or _digest(maps[: each.count]) != each.digest:
            return True
    if name == UNCLEAR:
        fewer = now.unclear is not None and (was.unclear is None or {*was.unclear} - {*now.unclear})
        if fewer or {*was.risky} - {*now.risky}:
            return True
    # A tool that maps name directly is judged by its own name only (G-66).
    more = {*now.renamed} - {*was.renamed, name}
    known = {folded_name(each) for each in (name, *(each.tool for each in was.fields))}
    return bool(more) if name == ANYTHING_ELSE else any(folded_name(tool) in known for tool in more)


def _digest(maps: Sequence[Map]) -> str:
    written = [(m.pattern.text, m.name) for m in maps]
    return sha256(repr(written).encode()).hexdigest()
