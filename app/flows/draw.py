"""`interlock flow draw`: draws a flow, with the live states of a recorded run marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from ...engine.flows import FlowGraph
from ...engine.history.database.location import Location
from ...engine.history.fold.fold import fold
from ...engine.history.journal.reader import open_reader
from ...engine.sessions.flow.record import flow_record
from .builder import flow_class, flow_graph
from .spec import FlowSpecError

Draws: TypeAlias = Callable[[FlowGraph[Any, Any], tuple[str, ...]], str]

FORMATS: Mapping[str, Draws] = {
    ".mmd": lambda graph, live: graph.mermaid(live=live, named=True),
    ".svg": lambda graph, live: graph.svg(live=live, named=True),
}


def draw_flow(
    name: str, *, out_file: Path | None, live: str | None, database: Callable[[], Location], out: TextIO
) -> int:
    """Draw `name` to `out_file`, whose suffix selects the format, or print it as Mermaid; returns 0.

    `live` is a run whose live states are marked. Raises `FlowSpecError`, `SessionNotFound` and
    `JournalError`.
    """
    suffix = ".mmd" if out_file is None else out_file.suffix.lower()
    if suffix not in FORMATS:
        raise FlowSpecError(
            [f"--out: '{out_file}' does not end in a format that can be drawn: {', '.join(FORMATS)}"]
        )
    here = (Path.cwd(),)
    graph = flow_graph(name, flow_class(name, here), here)
    states = () if live is None else _live(live, name, graph, database())
    picture = FORMATS[suffix](graph, states)
    if out_file is None:
        out.write(picture)
        return 0
    try:
        out_file.write_text(picture, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise FlowSpecError([f"--out: cannot write '{out_file}': {reason or error}"]) from error
    return 0


def _live(run: str, name: str, graph: FlowGraph[Any, Any], database: Location) -> tuple[str, ...]:
    """Return the live states of a recorded run of this flow."""
    reader = open_reader(database)
    state = fold(reader.events(reader.session(run).id))
    if state.flow is None:
        raise FlowSpecError([f"--live: session '{state.id}' is not a run of a flow"])
    if state.flow.flow.net.places != flow_record("", graph).net.places:
        raise FlowSpecError(
            [
                f"--live: run '{state.id}' is of flow '{state.flow.flow.name}', whose states are not "
                f"those of {name}"
            ]
        )
    return state.flow.live
