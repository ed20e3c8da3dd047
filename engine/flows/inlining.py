"""A flow put into another: its inner keys get the entry's name before them (P-100 … P-109)."""

from __future__ import annotations

from collections.abc import Container, Mapping

from .checks import distinct
from .nodes import Node


def put_inside(outer: str, nodes: Mapping[str, Node]) -> list[Node]:
    """The nodes, all of their keys behind that of the node they work for."""
    return [node.renamed(lambda key: f"{outer}::{key}") for node in distinct(nodes)]


def inlined(
    entry: str, output: str, nodes: Mapping[str, Node], taken: Container[str]
) -> tuple[list[Node], list[str]]:
    """The nodes under their new keys; and why they cannot stand beside those whose keys are `taken`."""

    def rename(key: str) -> str:
        return key if key in (entry, output) else f"{entry}::{key}"

    if entry in taken:
        return [], [f"flow '{entry}': duplicate node key"]
    clashes = [
        f"flow '{entry}': inner node '{key}' conflicts with outer node after rename to '{rename(key)}'"
        for key in nodes
        if rename(key) in taken
    ]
    return [] if clashes else [node.renamed(rename) for node in distinct(nodes)], clashes
