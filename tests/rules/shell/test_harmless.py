"""Ordinary commands stay clear, because operators switch off a gate that asks about everything."""

from __future__ import annotations

import pytest

from interlock.rules.shell import Shell, read

from ...bench.harmless import corpora, unclear

COMMANDS = tuple(dict.fromkeys(command for commands in corpora().values() for command in commands))


class TestOrdinaryCommands:
    def test_sources_yield_enough_commands(self) -> None:
        """The library, the demo, the documentation and everyday work yield enough commands."""
        assert corpora().keys() == {"library", "demo", "documentation", "everyday"}
        assert all(len(commands) >= 5 for commands in corpora().values())
        assert len(COMMANDS) >= 800

    @pytest.mark.variants
    @pytest.mark.parametrize("shell", ["bash", None, "sh", "zsh"])
    def test_stay_clear(self, shell: Shell | None) -> None:
        """G-64: at most one in a hundred is unclear, for every shell and for an unknown one."""
        found = unclear(COMMANDS, shell)
        assert len(found) * 100 <= len(COMMANDS), found

    @pytest.mark.parametrize(
        "command",
        [
            'python3 -c "import os; print(os.getcwd())"',
            'python3 -c "import torch; print(torch.cuda.is_available())"',
            "node -e \"console.log([3, 1, 2].sort().join(','))\"",
            "perl -ne 'print \"$.: $_\" if /FIXME/' f",
            "vim -c 'set ff=unix' -c wq f",
        ],
    )
    def test_read_only_programs_stay_clear(self, command: str) -> None:
        """Programs that only read a machine, a library or a file stay clear."""
        assert read(command, "bash").uninspectable is None
