"""Handwritten reference pages: no key is missing."""

from __future__ import annotations

import importlib.util
import re

import pytest

from interlock.app.agents import agent_file, spec
from interlock.app.config.approvals import ApprovalSettings
from interlock.app.config.gateway import GatewayTable
from interlock.app.config.hooks import HookSettings
from interlock.app.config.notifications import AttentionSettings, NotifySettings
from interlock.app.config.oidc import OidcSettings
from interlock.app.config.operators import OperatorSettings

from .blocks import ROOT

_spec = importlib.util.spec_from_file_location("made", ROOT / "docs" / "hooks" / "made.py")
assert _spec is not None
assert _spec.loader is not None
made = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(made)

_CODE = re.compile(r"`\[?([a-z_]+)\]?`")


def keys_on(page: str, heading: str | None = None) -> set[str]:
    """Return the names in the first column of a page's tables, or of one section's."""
    text = made.with_keys((ROOT / "docs" / "reference" / page).read_text(encoding="utf-8"))
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
        ("heading", "declaration"),
        [
            ("Attention", AttentionSettings),
            ("Notify", NotifySettings),
            ("Approvals", ApprovalSettings),
            ("Operators", OperatorSettings),
            ("OIDC", OidcSettings),
            ("Hook", HookSettings),
            ("Gateway", GatewayTable),
        ],
    )
    def test_each_key_has_a_row(self, heading: str, declaration: type) -> None:
        """The page lists exactly the keys of each settings table."""
        known = getattr(declaration, "model_fields", None) or declaration.__dataclass_fields__
        assert keys_on("settings.md", heading) == set(known)
