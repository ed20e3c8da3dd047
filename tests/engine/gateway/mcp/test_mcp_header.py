"""Secrets for an MCP server behind HTTP come from the environment."""

from __future__ import annotations

import pytest

from interlock.app.cli.agent.mcp import _headers

ENVIRON = {"SHOP_TOKEN": "s3cret"}


class TestHeaders:
    @pytest.mark.parametrize(
        "line", ["Authorization: Bearer s3cret", "authorization:x", "Cookie: a=b", "X-API-Key: s3cret"]
    )
    def test_secret_on_command_line_is_refused(self, line: str) -> None:
        """A secret on the command line is refused, and the error does not repeat it."""
        with pytest.raises(ValueError, match="in the environment") as refused:
            _headers([line], ENVIRON)
        assert "s3cret" not in str(refused.value)

    def test_variable_value_is_sent(self) -> None:
        """A variable's value is sent, and a header without a secret may be on the command line."""
        lines = ["Authorization: Bearer ${SHOP_TOKEN}", "X-Shop: north"]
        assert _headers(lines, ENVIRON) == {"Authorization": "Bearer s3cret", "X-Shop": "north"}
