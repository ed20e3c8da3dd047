"""Agent files that tests write, and their errors."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from interlock.app.agents.agent_file import load_agent_file
from interlock.app.agents.spec import AgentSpecError


def write(path: Path, text: str) -> Path:
    """Write a file with the text, without the test's indentation."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))
    return path


def problems(path: Path) -> str:
    """Return the errors with which `load_agent_file` refuses a file."""
    with pytest.raises(AgentSpecError) as caught:
        load_agent_file(path)
    return str(caught.value)
