"""README and docs/: every command, program and file shown is valid."""

from __future__ import annotations

import ast
import asyncio
import builtins
import json
import linecache
import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from interlock.app.agents.agent_file import load_agent_file
from interlock.app.cli.main import main, parser
from interlock.app.config.approvals import approval_settings
from interlock.app.config.gateway import gateway_settings
from interlock.app.config.hooks import hook_settings
from interlock.app.config.keys import key_settings
from interlock.app.config.loader import apply_settings
from interlock.app.config.notifications import attention_settings, notify_settings
from interlock.app.demo import release_flow
from interlock.app.hosting.audit.settings import audit_settings
from interlock.app.terminal.keymap_check import check_keymap
from interlock.engine import LitellmModel, ScriptedModel, agents, flows
from interlock.engine.core.plan import read_plan
from interlock.rules import condition_of, load_rules

from ..adapters.models import fake_model
from ..engine.gateway.served import served
from ..support.forked import put_interlock
from .blocks import PAGES, ROOT, Block, blocks, blocks_of

LANGUAGES = {
    *(
        "bash",
        "elisp",
        "json",
        "lua",
        "mermaid",
        "python",
        "rules",
        "scenario",
        "sh",
        "sql",
        "text",
        "toml",
        "ts",
    ),
}
_OPENING = re.compile(r"^ *```", re.MULTILINE)


def as_parameters(found: Iterator[Block]) -> list[object]:
    """Return blocks as test parameters, named by their place."""
    return [pytest.param(block, id=block.where) for block in found]


def pages_with(language: str) -> list[object]:
    """Return the pages that have a runnable block in a language, as test parameters."""
    found = (page for page in PAGES if any(_is_run(block, language) for block in blocks_of(page)))
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in found]


def _is_run(block: Block, language: str) -> bool:
    return block.language == language and block.title is None and block.reason is None


def write_files(page: Path, directory: Path) -> None:
    """Write a page's files into a directory, its settings into the user's own file."""
    for block in blocks_of(page):
        if block.title is not None:
            own = block.title == "interlock.toml"
            folder = directory / "home" / "config" / "interlock" if own else directory
            folder.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(block.text, encoding="utf-8")


class TestBlocks:
    @pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
    def test_each_has_a_known_language(self, page: Path) -> None:
        """Every block has a known language, because other blocks would not be checked."""
        found = blocks_of(page)
        assert {block.language for block in found} <= LANGUAGES
        assert len(_OPENING.findall(page.read_text(encoding="utf-8"))) == 2 * len(found)


class TestShell:
    @pytest.mark.parametrize("block", as_parameters(blocks("bash")))
    def test_bash_can_parse_it(self, block: Block) -> None:
        """Bash can parse each block, whether or not it is run here."""
        done = subprocess.run(
            ["bash", "-n"], input=block.text, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.parametrize("block", as_parameters(blocks("bash")))
    def test_each_command_is_accepted(self, block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
        """The parser accepts each `interlock` line, and the Makefile has each `make` target."""
        for line in block.text.replace("\\\n", "").splitlines():
            words = shlex.split(line, comments=True)
            match words:
                case ["interlock", *arguments]:
                    accept(arguments, monkeypatch)
                case ["make", target]:
                    assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
                case _:
                    pass

    @pytest.mark.slow
    @pytest.mark.parametrize("page", pages_with("bash"))
    def test_blocks_of_a_page_run(self, page: Path, tmp_path: Path) -> None:
        """The blocks of a page run one after the other, with the page's files."""
        write_files(page, tmp_path)
        put_interlock(tmp_path / "bin")
        for block in blocks_of(page):
            if _is_run(block, "bash"):
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", block.text],
                    cwd=tmp_path,
                    env=environment(tmp_path),
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, f"{block.where}\n{done.stdout}\n{done.stderr}"


def accept(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `interlock` parse a command line, without running the command."""

    class Accepted(Exception):  # noqa: N818 - it is none
        """The command line was parsed."""

    def stop(*_: object, **__: object) -> None:
        raise Accepted

    monkeypatch.setattr("interlock.app.config.loader.apply_settings", stop)
    with pytest.raises(Accepted):
        main(arguments)


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a user who has just installed Interlock, with an empty home."""
    return {
        "PATH": os.pathsep.join(
            [str(home / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        ),
        "HOME": str(home / "home"),
        "XDG_CONFIG_HOME": str(home / "home" / "config"),
        "XDG_DATA_HOME": str(home / "home" / "data"),
        "XDG_STATE_HOME": str(home / "home" / "state"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
    }


class TestPython:
    @pytest.mark.variants
    @pytest.mark.parametrize("page", pages_with("python"))
    async def test_blocks_of_a_page_run(
        self, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The blocks of a page run one after the other, with the names that the page describes."""
        monkeypatch.chdir(tmp_path)
        write_files(page, tmp_path)
        async with page_names(page, tmp_path, monkeypatch) as names:
            for block in blocks_of(page):
                if _is_run(block, "python"):
                    await run(block, names)

    @pytest.mark.slow
    def test_readme_program_runs(self, tmp_path: Path) -> None:
        """The README's program runs unchanged as a file, with an answer from the terminal."""
        page = ROOT / "README.md"
        write_files(page, tmp_path)
        [block] = [block for block in blocks_of(page) if _is_run(block, "python")]
        (tmp_path / "program.py").write_text(block.text, encoding="utf-8")
        for answer, end in (("yes", "deployed to prod"), ("no", "rejected by human review")):
            done = subprocess.run(
                [sys.executable, "program.py"],
                cwd=tmp_path,
                env=environment(tmp_path),
                input=answer,
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, "")
            assert end in done.stdout

    @pytest.mark.parametrize("block", as_parameters(b for b in blocks("python") if b.title or b.reason))
    def test_unexecuted_block_compiles_and_imports(self, block: Block) -> None:
        """A block that is not run compiles, and its imports from Interlock exist."""
        compile(block.text, block.where, "exec")
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("interlock"):
                # An adapter's module may need a framework that is not in the development environment.
                module = pytest.importorskip(node.module or "")
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []

    @pytest.mark.parametrize("block", as_parameters(blocks("python")))
    def test_every_name_is_defined(self, block: Block) -> None:
        """Each name is a builtin, is defined on the page, or is described there as given."""
        known = set(dir(builtins)) | PROVIDED.get(str(block.page.relative_to(ROOT)), set())
        for other in blocks_of(block.page):
            if other.language == "python":
                known |= names_bound_in(ast.parse(other.text))
        used = {
            node.id
            for node in ast.walk(ast.parse(block.text))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        assert used - known == set()


PROVIDED: Mapping[str, set[str]] = {
    "docs/how-to/adapters/ag2.md": {"model"},
    "docs/how-to/adapters/autogen.md": {"model"},
    "docs/how-to/adapters/crewai.md": {"model"},
    "docs/how-to/adapters/google-adk.md": {"model"},
    "docs/how-to/adapters/langchain.md": {"model"},
    "docs/how-to/adapters/llama-index.md": {"model"},
    "docs/how-to/adapters/openai-agents.md": {"model"},
    "docs/how-to/adapters/pydantic-ai.md": {"model"},
    "docs/how-to/adapters/smolagents.md": {"model"},
    "docs/how-to/adapters/strands.md": {"model"},
    "docs/how-to/server.md": {"ask_model", "deploy", "messages", "run_tests"},
    "docs/how-to/flows.md": {*vars(agents), *vars(flows), *vars(release_flow)},
}
"""Names that a page uses and only describes in words."""


def names_bound_in(tree: ast.AST) -> set[str]:
    """Return the names that a program binds."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                found.add(name)
            case ast.alias(name=name, asname=short):
                found.add(short or name.partition(".")[0])
            case ast.ExceptHandler(name=str() as name):
                found.add(name)
            case _:
                pass
    return found


async def run(block: Block, names: dict[str, object]) -> None:
    """Run a block as a program in a thread, because it may start its own loop or block.

    Its source is made available like a file's, because some libraries read it to build tools.
    """
    linecache.cache[block.where] = (len(block.text), None, block.text.splitlines(True), block.where)
    await asyncio.to_thread(exec, compile(block.text, block.where, "exec"), names)


@asynccontextmanager
async def page_names(
    page: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[dict[str, object]]:
    """The names for a page's programs, with scripted models and, on the server page, a running server."""
    model = ScriptedModel([agents.T("Done.")])
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    monkeypatch.setattr(LitellmModel, "stream", lambda _, request: model.stream(request))
    monkeypatch.setattr(LitellmModel, "check_price", lambda _: None)
    monkeypatch.setattr("builtins.input", lambda _: "yes")
    names: dict[str, object] = {"__name__": "page"}
    if page.parent.name == "adapters" and page.stem != "index":
        try:
            names["model"] = fake_model(page.stem)
        except ModuleNotFoundError as error:
            pytest.skip(f"{error}: pip install 'interlock[{page.stem}]'")
    if page.name != "server.md":
        yield names
        return
    async with served(directory, rules="block rm") as server:
        monkeypatch.setenv("INTERLOCK_URL", server.url)
        monkeypatch.setenv("INTERLOCK_TOKEN", server.agent)
        yield names | own_model()


def own_model() -> dict[str, object]:
    """Return a program's own model and tools: one call, then an answer, in litellm's form."""
    function = SimpleNamespace(name="deploy", arguments='{"env": "prod"}')
    call = SimpleNamespace(id="1", type="function", function=function)
    replies = [SimpleNamespace(tool_calls=[call]), SimpleNamespace(tool_calls=None)]

    async def ask_model(_: object) -> SimpleNamespace:
        return replies.pop(0)

    return {
        "ask_model": ask_model,
        "deploy": lambda env: f"deployed to {env}",
        "messages": [],
        "run_tests": lambda: "2 tests passed",
    }


class TestFiles:
    @pytest.mark.parametrize("block", as_parameters(blocks("rules")))
    def test_rules_compile(self, block: Block, tmp_path: Path) -> None:
        """Rules compile without errors."""
        path = tmp_path / (block.title or "block.rules")
        path.write_text(block.text, encoding="utf-8")
        for other in blocks("text"):
            if (other.title or "").endswith(".txt"):
                (tmp_path / str(other.title)).write_text(other.text, encoding="utf-8")
        assert load_rules(path).registry

    @pytest.mark.variants
    @pytest.mark.parametrize(
        "block", as_parameters(b for b in blocks("toml") if b.title == "interlock.toml")
    )
    def test_settings_are_accepted(
        self, block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All keys and values are valid in the user's own file."""
        (tmp_path / "interlock.toml").write_text(block.text, encoding="utf-8")
        environ = {"INTERLOCK_CONFIG_DIR": str(tmp_path), "HOME": str(tmp_path)}
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        elsewhere = tmp_path / "work"
        elsewhere.mkdir()
        top = parser()
        for line in (["serve"], ["console"], ["check", "x.rules"]):
            apply_settings(top, top.parse_args(line), environ=environ, directory=elsewhere)
        for read in (
            approval_settings,
            attention_settings,
            audit_settings,
            gateway_settings,
            notify_settings,
        ):
            read(environ=environ, directory=elsewhere)
        hook_settings(environ=environ)
        check_keymap(key_settings(environ=environ, directory=elsewhere))

    @pytest.mark.parametrize(
        "block", as_parameters(b for b in blocks("toml") if b.title != "interlock.toml")
    )
    def test_agent_files_load(self, block: Block, tmp_path: Path) -> None:
        """All keys and values of an agent file are valid."""
        path = tmp_path / (block.title or "agent.toml")
        path.write_text(block.text, encoding="utf-8")
        assert load_agent_file(path).task

    @pytest.mark.parametrize("block", as_parameters(blocks("json")))
    def test_json_is_valid(self, block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
        """The block is valid JSON: lines, a plan, or a client's configuration with a valid command."""
        if (block.title or "").endswith(".jsonl"):
            assert [json.loads(line) for line in block.text.splitlines()]
            return
        value = json.loads(block.text)
        if "steps" in value:
            assert read_plan(value, condition_of).title == value["title"]
            return
        for server in value["mcpServers"].values():
            assert server["command"] == "interlock"
            accept(server["args"], monkeypatch)
