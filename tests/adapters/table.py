"""The table of adapters in the reference.

    python -m tests.adapters.table

The tests of each framework establish the contents of its row; `test_table.py` compares the page.
"""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "adapters.md"

HEAD = """\
# Adapters

Each adapter is tested against the real package with a fake model: calls made at once, of which one runs,
one is blocked, one runs as an operator has edited it and one fails; calls that wait and continue in
another process; and a gate that does not answer. *Lines* counts the lines that name Interlock in the
program on the framework's [page](../how-to/adapters/index.md). `python -m tests.adapters.table`
generates this page.

| framework | tested | installed | lines | session | pauses | edits | not seen |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True)
class Row:
    """One adapter; `page` is also the name of its extra."""

    page: str
    title: str
    distribution: str
    session: str
    pauses: str
    edits: str
    unseen: str

    @property
    def requirement(self) -> str:
        """The framework's requirement in the extra."""
        settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
        extra: list[str] = settings["project"]["optional-dependencies"][self.page]
        return next(each for each in extra if each.startswith(self.distribution)).removeprefix(
            self.distribution
        )

    @property
    def lines(self) -> int:
        """Number of lines in the page's first program that name Interlock's objects for the gate."""
        from ..docs.blocks import blocks_of

        page = ROOT / "docs" / "how-to" / "adapters" / f"{self.page}.md"
        program = next(block.text for block in blocks_of(page) if block.language == "python")
        names = {
            alias.name
            for node in ast.walk(ast.parse(program))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("interlock")
            for alias in node.names
        } - {"check_coverage"}
        return sum(any(name in line for name in names) for line in program.splitlines())

    def line(self, version: str) -> str:
        """Return the row for a framework that was tested in this version."""
        cells = (
            f"[{self.title}](../how-to/adapters/{self.page}.md)",
            version,
            f"`{self.requirement}`",
            str(self.lines),
            self.session,
            self.pauses,
            self.edits,
            self.unseen,
        )
        return f"| {' | '.join(cells)} |"


ROWS = (
    Row(
        "openai-agents",
        "OpenAI Agents SDK",
        "openai-agents",
        "`thread=`, else the run",
        "interruption; `RunState` and `ask_again`",
        "arguments; reported in the result",
        "tools that OpenAI runs; computer, shell, patch and custom tools",
    ),
    Row(
        "pydantic-ai",
        "pydantic-ai",
        "pydantic-ai-slim",
        "conversation",
        "`DeferredToolRequests`; messages and `ask_again`",
        "arguments, checked by the schema; reported in or next to the result",
        "native tools; deferred tools; output functions",
    ),
    Row(
        "langchain",
        "LangChain and LangGraph",
        "langchain",
        "`thread_id`, else the run",
        "`interrupt`; `Command(resume=True)`",
        "arguments; reported in the result",
        "tools that the provider runs",
    ),
    Row(
        "claude-agent",
        "Claude Agent SDK",
        "claude-agent-sdk",
        "Claude Code's session, or `thread=`",
        "`defer`; `ask_again` and `resume`",
        "arguments; reported after the result",
        "changes by hooks in settings files",
    ),
    Row(
        "smolagents",
        "smolagents",
        "smolagents",
        "`thread=`, else the run",
        "no: each step begins at the model",
        "arguments and code; reported in the result or the logs",
        "tools that an executor runs elsewhere; requests to managed agents as such",
    ),
    Row(
        "crewai",
        "CrewAI",
        "crewai",
        "`thread=`, else the kickoff",
        "no: a task that continues starts again",
        "arguments, checked by the schema; reported in the result",
        "tools that the provider runs; remote agents; agents of other frameworks",
    ),
    Row(
        "llama-index",
        "LlamaIndex",
        "llama-index-core",
        "the run's `Context`, or `thread=`",
        "a suspended step; `pause` and `Context.from_dict`",
        "arguments; reported in the result",
        "tools called by a `CodeActAgent`'s code",
    ),
    Row(
        "autogen",
        "AutoGen",
        "autogen-agentchat",
        "`thread=`, else the agent or team",
        "no: saved agents have messages, and runs begin at the model",
        "arguments, checked by the schema, and code; reported in the result",
        "agents that act through their own code",
    ),
    Row(
        "google-adk",
        "Google ADK",
        "google-adk",
        "session, by user and id",
        "a confirmation; `ask_again`",
        "arguments; reported in or next to the result",
        "tools that Gemini runs; code executors; remote agents; handovers in task mode",
    ),
    Row(
        "ag2",
        "AG2",
        "ag2",
        "the conversation's stream, or `thread=`",
        "the end of a turn; `ask_again` and `resume`",
        "arguments; reported in the result",
        "tools that the provider or a client runs; subtasks; agents in the background or elsewhere",
    ),
    Row(
        "strands",
        "Strands",
        "strands-agents",
        "the session manager's session, or `thread=`, else the agent",
        "`interrupt`; `ask_again`",
        "arguments; reported in the result",
        "tools in the model's settings; A2A agents",
    ),
)


def written_versions() -> dict[str, str]:
    """Return the versions on the page, by the title of their row."""
    if not PAGE.exists():
        return {}
    rows = (line.split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ["))
    return {row[0].removeprefix("| [").partition("]")[0]: row[1] for row in rows}


def installed(distribution: str) -> str | None:
    """Return the installed version of a distribution, if any."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def text(versions: dict[str, str]) -> str:
    """Return the page with the tested versions, by title."""
    return HEAD + "".join(f"{row.line(versions[row.title])}\n" for row in ROWS)


if __name__ == "__main__":
    known = written_versions()
    found = {row.title: installed(row.distribution) or known[row.title] for row in ROWS}
    PAGE.write_text(text(found), "utf-8")
