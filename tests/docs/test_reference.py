"""The pages of the reference that are written by hand: nothing is missing on them."""

from __future__ import annotations

import re

import pytest

from interlock.app.agents import agent_file, spec
from interlock.app.config import approvals, gateway, hooks
from interlock.app.console.attention import AttentionSettings
from interlock.app.hosting.notifications import NotifySettings

from .blocks import ROOT

_CODE = re.compile(r"`\[?([a-z_]+)\]?`")


def keys_on(page: str, heading: str | None = None) -> set[str]:
    """The names in the first column of the tables of a page, or of one section of it."""
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    if heading is not None:
        [text] = re.findall(rf"(?ms)^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text)
    rows = (line.split("|")[1] for line in text.splitlines() if line.startswith("|"))
    return {name for row in rows for name in _CODE.findall(row)}


class TestAgentFiles:
    def test_each_key_has_a_row(self) -> None:
        """The page lists the keys of an agent file, of its limits and of its subagents."""
        tables = (agent_file.AgentFile, agent_file.SubagentTable, spec.SessionLimits)
        assert {name for table in tables for name in table.model_fields} - keys_on(
            "agent-file.md"
        ) == set()

    def test_each_runtime_has_a_row_with_its_keys(self) -> None:
        """A runtime's row names every key of its table."""
        text = (ROOT / "docs" / "reference" / "agent-file.md").read_text(encoding="utf-8")
        for kind, options in spec.KINDS.items():
            [row] = re.findall(rf"^\| `{kind}` \| (.*) \|$", text, re.MULTILINE)
            assert {name for name in options.model_fields if name != "kind"} <= set(_CODE.findall(row))


class TestSettings:
    @pytest.mark.parametrize(
        ("heading", "known"),
        [
            ("Attention", AttentionSettings.__dataclass_fields__),
            ("Notify", NotifySettings.model_fields),
            ("Approvals", approvals.KNOWN),
            ("Hook", hooks.KNOWN),
            ("Gateway", gateway.KNOWN),
        ],
    )
    def test_each_key_has_a_row(self, heading: str, known: object) -> None:
        """The page lists the keys of each table of settings, and no others."""
        assert keys_on("settings.md", heading) == set(known)  # type: ignore[call-overload]
