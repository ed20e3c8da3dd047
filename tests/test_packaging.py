"""The wheels that users install: one with every module and data file, or two that share them."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.distributions import LIGHT, WHOLE, Tree, build, distributions

from .docs.blocks import blocks_of

ROOT = Path(__file__).parents[1]
ROOMS = ("adapters", "app", "engine", "rules")

BUILD = """
import importlib, sys
importlib.import_module(sys.argv[1]).build_wheel(sys.argv[2])
"""
"""Build a wheel in a project's folder, as every installer does."""

IMPORT_ALL = """
import gc
gc.disable()
import importlib, sys
site, modules = sys.argv[1], sys.argv[2:]
sys.path.insert(0, site)
for name in modules:
    module = importlib.import_module(name)
    assert module.__file__.startswith(site), (name, module.__file__)
print(len(modules), flush=True)
gc.freeze()
"""

FRAMEWORKS = {
    "ag2": "ag2",
    "autogen_agentchat": "autogen",
    "claude_agent_sdk": "claude_agent",
    "crewai": "crewai",
    "google.adk": "google_adk",
    "llama_index": "llama_index",
    "smolagents": "smolagents",
    "strands": "strands",
}
"""The adapters' modules by their framework's package, which may not be installed."""


def source_modules() -> list[str]:
    """Return every Python module of the four source folders, by its installed name."""
    names = []
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            names.append(".".join(("interlock", *parts)).removesuffix(".__init__"))
    return names


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the source tree."""
    copy = tmp_path_factory.mktemp("source")
    for room in ROOMS:
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy / name)
    out = tmp_path_factory.mktemp("wheel")
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["build-backend"]
    build = [sys.executable, "-c", BUILD, backend, str(out)]
    subprocess.run(build, cwd=copy, check=True, capture_output=True, text=True)
    return next(out.glob("*.whl"))


def checksums(wheel: Path) -> dict[str, int]:
    """Return the checksum of each of the wheel's files that is installed unchanged."""
    entries = zipfile.ZipFile(wheel).infolist()
    return {each.filename: each.CRC for each in entries if ".dist-info/" not in each.filename}


class TestWheel:
    @pytest.mark.slow
    def test_has_the_modules_of_both_distributions(self, wheel: Path, wheels: tuple[Path, Path]) -> None:
        """The wheel's files equal those of both distributions; `test_both_together` imports each."""
        assert checksums(wheel) == checksums(wheels[0]) | checksums(wheels[1])
        inside = {name.removesuffix(".py").replace("/", ".") for name in checksums(wheel)}
        assert {name.removesuffix(".__init__") for name in inside} >= set(source_modules())

    def test_carries_every_source_and_data_file(self, wheel: Path) -> None:
        """The wheel has all styles, grammars, rules and code."""
        inside = set(zipfile.ZipFile(wheel).namelist())
        kinds = {".py", ".tcss", ".lark", ".rules"}
        for room in ROOMS:
            for path in (ROOT / room).rglob("*"):
                if (path.suffix in kinds or path.name == "py.typed") and "__pycache__" not in path.parts:
                    assert f"interlock/{path.relative_to(ROOT).as_posix()}" in inside

    def test_has_only_one_top_level_package(self, wheel: Path) -> None:
        """The wheel has only one top-level package."""
        tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
        assert {t for t in tops if not t.endswith(".dist-info")} == {"interlock"}


def filled_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a directory that the first process of this run fills for all processes."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    directory = base / f"packaging-{name}"
    with (base / f"packaging-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "complete").exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            make(directory)
            (directory / "complete").touch()
    return directory


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheels that `make dist` builds: the light one and the full one."""
    directory = filled_once(tmp_path_factory, "wheels", build)
    [light] = directory.glob("interlock_gate-*.whl")
    [whole] = directory.glob("interlock-*.whl")
    return light, whole


def install(directory: Path, *built: Path, dependencies: list[str] | None) -> None:
    """Create a virtual environment with wheels of this tree and links to other distributions."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory / "venv")], check=True)
    environment = Environment(directory)
    paths = [path for path in sys.path if path.endswith("site-packages")]
    if dependencies is not None:
        paths = [str(directory / "dependencies")]
        (directory / "size").write_text(str(link(dependencies, directory / "dependencies")))
    (environment.site / "dependencies.pth").write_text("\n".join(paths) + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(environment.python), "install", "--quiet"]
    line = [*pip, "--no-deps", "--no-index", *map(str, built)]
    subprocess.run(line, check=True, capture_output=True)


@dataclass(frozen=True)
class Environment:
    """A virtual environment created by `install`."""

    directory: Path

    @property
    def python(self) -> Path:
        return self.directory / "venv" / "bin" / "python"

    @property
    def site(self) -> Path:
        [found] = (self.directory / "venv" / "lib").glob("python*/site-packages")
        return found

    def run(self, cwd: Path, *line: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, with an empty home."""
        environ = {"PATH": f"{self.python.parent}:/usr/bin:/bin", "HOME": str(cwd), "LANG": "C.UTF-8"}
        return subprocess.run(
            line, cwd=cwd, env=environ, input=text, capture_output=True, text=True, check=False
        )


def link(names: list[str], directory: Path) -> int:
    """Link distributions and their requirements into a directory. Returns their size in bytes."""
    directory.mkdir()
    pending, found, size = list(names), set[str](), 0
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            installed = metadata.distribution(name)
            required = [Requirement(each) for each in installed.requires or []]
            pending += [each.name for each in required if each.marker is None or each.marker.evaluate()]
            for file in installed.files or []:
                size += file.size or 0
                top = directory / file.parts[0]
                if file.parts[0] not in ("..", "__pycache__") and not top.exists():
                    top.symlink_to(Path(str(installed.locate_file(file.parts[0]))))
    return size


@pytest.fixture(scope="module")
def light_environment(wheels: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An agent's environment: only the light wheel and its requirements."""
    required = [Requirement(each).name for each in distributions()[0].project["dependencies"]]
    fill = partial(install, dependencies=required)
    return Environment(filled_once(tmp_path_factory, "light", lambda each: fill(each, wheels[0])))


@pytest.fixture(scope="module")
def full_environment(wheels: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An operator's environment: both wheels."""
    fill = partial(install, dependencies=None)
    return Environment(filled_once(tmp_path_factory, "whole", lambda each: fill(each, *wheels)))


def readme_program(directory: Path) -> Path:
    """Write the README's program and rules into a directory."""
    for block in blocks_of(ROOT / "README.md"):
        if block.title == "deploy.rules":
            (directory / "deploy.rules").write_text(block.text)
        elif block.language == "python":
            (directory / "program.py").write_text(block.text)
    return directory / "program.py"


USER = """
import asyncio
from typing import assert_type

from interlock.engine import AgentClient, SyncAgentClient, create_gate
from interlock.rules import compile_rules


async def deploy(env: str) -> int:
    return len(env)


def count(env: str) -> int:
    return len(env)


async def main() -> None:
    session = create_gate(compile_rules("block rm").nets).wrap_tools((deploy, count))
    gated_deploy, gated_count = session.tools
    assert_type(await gated_deploy(env="prod"), int)
    assert_type(gated_count("prod"), int)
    alike = create_gate(compile_rules("block rm").nets).wrap_tools({"deploy": deploy}).tools
    assert_type(await alike["deploy"]("prod"), int)
    async with AgentClient() as client, client.session("bot") as agent:
        assert_type(await agent.gate(deploy)(env="prod"), int)
        assert_type(await agent(deploy, name="push")("prod"), int)
        assert_type(await agent.gate(count)("prod"), int)
        coroutine = asyncio.create_task(agent.gate(deploy)("prod"))
        assert_type(await coroutine, int)
    with SyncAgentClient() as blocking, blocking.session("bot") as waiting:
        assert_type(waiting.gate(count)(env="prod"), int)
"""
"""A user's program that relies on the types of gated functions."""

WRONG = USER.replace('gated_deploy(env="prod")', "gated_deploy(env=1)")


@pytest.mark.slow
class TestTypes:
    @pytest.mark.parametrize("checker", ["mypy", pytest.param("pyright", marks=pytest.mark.thorough)])
    def test_are_known_to_users_type_checkers(
        self, light_environment: Environment, tmp_path: Path, checker: str
    ) -> None:
        """Strict type checkers know each gated function's parameters and result."""
        pytest.importorskip(checker)
        readme_program(tmp_path)
        (tmp_path / "user.py").write_text(USER)
        (tmp_path / "wrong.py").write_text(WRONG)
        done = self.check(checker, light_environment, tmp_path, "user.py", "program.py", "wrong.py")
        assert done.returncode == 1
        errors = [line for line in done.stdout.splitlines() if "error:" in line]
        assert len(errors) == 1, done.stdout
        assert "wrong.py:20" in errors[0]

    @staticmethod
    def check(
        checker: str, environment: Environment, directory: Path, *files: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a checker in strict mode on files of a directory."""
        python = str(environment.python)
        if checker == "pyright":
            (directory / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
            line = [sys.executable, "-m", "pyright", "--pythonpath", python, *files]
        else:
            line = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, *files]
        return subprocess.run(line, cwd=directory, capture_output=True, text=True, check=False)


IMPORTS = """
import sys
import interlock.engine as engine, interlock.rules
from interlock.engine import AgentClient, SyncAgentClient, create_gate, Blocked
names = []
for name in engine.__all__:
    try:
        getattr(engine, name)
    except ImportError as error:
        assert "pip install interlock" in str(error), error
    else:
        names.append(name)
print(len(names), engine.__version__)
for heavy in ("litellm", "textual", "sqlalchemy", "openai", "aiohttp"):
    try:
        __import__(heavy)
    except ImportError:
        continue
    print(heavy)
"""


@pytest.mark.slow
class TestDistributions:
    def test_share_no_file_and_cover_the_checkout(self, wheels: tuple[Path, Path]) -> None:
        """The distributions share no file, and together they have all files of the checkout."""
        files = [
            {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
            for wheel in wheels
        ]
        assert files[0] & files[1] == set()
        kinds = (".py", ".tcss", ".lark", ".rules", "py.typed")
        tree = {
            f"interlock/{path.relative_to(ROOT).as_posix()}"
            for room in ROOMS
            for path in (ROOT / room).rglob("*")
            if path.name.endswith(kinds) and "__pycache__" not in path.parts
        }
        web = {f"interlock/{p.relative_to(ROOT).as_posix()}" for p in (ROOT / "app/web").rglob("*.*")}
        assert files[0] | files[1] == tree | {name for name in web if "__pycache__" not in name}

    def test_have_one_version(self, wheels: tuple[Path, Path]) -> None:
        """The full distribution requires the light one in the same version."""
        light, whole = distributions()
        version = light.project["version"]
        assert f"{LIGHT}=={version}" in whole.project["dependencies"]
        assert "litellm" not in str(light.project["dependencies"])
        assert [path.name for path in wheels] == [
            f"{LIGHT.replace('-', '_')}-{version}-py3-none-any.whl",
            f"{WHOLE}-{version}-py3-none-any.whl",
        ]

    @pytest.mark.slow
    def test_light_one_alone(self, light_environment: Environment, tmp_path: Path) -> None:
        """The light distribution alone runs the README's program; other names say what to install."""
        program = readme_program(tmp_path)
        done = light_environment.run(tmp_path, "python", str(program), text="yes")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("2 tests passed\n")
        assert "deployed to prod" in done.stdout
        done = light_environment.run(tmp_path, "python", "-c", IMPORTS)
        assert done.returncode == 0, done.stderr
        count, version = done.stdout.split()
        assert int(count) > 40
        assert version == distributions()[0].project["version"]
        assert (
            light_environment.run(tmp_path, "interlock", "--version").stdout == f"interlock {version}\n"
        )

    def test_light_one_is_small(self, light_environment: Environment) -> None:
        """The light distribution is smaller than 60 MB with all its requirements."""
        own = sum(path.stat().st_size for path in light_environment.site.rglob("*") if path.is_file())
        assert own + int((light_environment.directory / "size").read_text()) < 60_000_000

    @pytest.mark.variants
    @pytest.mark.parametrize("command", ["check a.rules", "console", "serve", "run x", "protocol"])
    def test_light_one_names_what_to_install(
        self, light_environment: Environment, tmp_path: Path, command: str
    ) -> None:
        """A command of the full distribution fails with one line that names what to install."""
        (tmp_path / "a.rules").write_text("block rm\n")
        done = light_environment.run(tmp_path, "interlock", *command.split())
        assert done.returncode == 2
        assert done.stderr.endswith("install all of it: pip install interlock\n")
        assert done.stderr.count("\n") == 1

    @pytest.mark.slow
    def test_light_one_tests_rules(self, light_environment: Environment, tmp_path: Path) -> None:
        """The light distribution can run scenarios."""
        (tmp_path / "b.rules").write_text("block rm\n")
        (tmp_path / "b_test.rules").write_text('use b.rules\nscenario "no"\n  call rm\n  expect block\n')
        done = light_environment.run(tmp_path, "interlock", "test", "b_test.rules")
        assert done.returncode == 0, done.stdout + done.stderr

    @pytest.mark.thorough
    def test_both_together(self, full_environment: Environment, tmp_path: Path) -> None:
        """With both distributions the README's program, the commands of both and all imports work."""
        done = full_environment.run(tmp_path, "python", str(readme_program(tmp_path)), text="yes")
        assert (done.returncode, done.stderr) == (0, "")
        done = full_environment.run(tmp_path, "interlock", "check", "deploy.rules")
        assert done.returncode == 0, done.stderr
        done = full_environment.run(tmp_path, "interlock", "demo", "--headless", "--answer", "approve")
        assert done.returncode == 0, done.stderr
        every = [n for n in source_modules() if ".migrations." not in n or n.endswith("migrations")]
        for framework, module in FRAMEWORKS.items():
            if find_spec(framework) is None:
                every.remove(f"interlock.adapters.{module}")
        done = full_environment.run(
            tmp_path, "python", "-c", IMPORT_ALL, str(full_environment.site), *every
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) == len(every)


FUNCTION_TOOLS = """
import asyncio, json
from agents import RunContextWrapper, function_tool
from agents.tool_context import ToolContext
from interlock.engine import create_gate
from interlock.rules import compile_rules

def deploy(ctx: RunContextWrapper, env: str) -> str:
    "Deploy."
    return f"deployed to {env}"

def said(tool):
    given = json.dumps({"env": "prod"})
    context = ToolContext(context=None, tool_name=tool.name, tool_call_id="c1", tool_arguments=given)
    return asyncio.run(tool.on_invoke_tool(context, given))

gate = create_gate(compile_rules("limit deploy to 1 per session").registry)
try:
    gate.wrap_tools({"deploy": function_tool(deploy)})
except TypeError as error:
    print(error)
gated = gate.wrap_tools({"deploy": deploy}, ignore=("ctx",)).tools["deploy"]
tool = function_tool(gated, failure_error_function=lambda _, error: str(error))
print(sorted(tool.params_json_schema["properties"]))
print(said(tool))
print(said(tool))
"""


@pytest.mark.thorough
class TestBesideAFramework:
    """In a separate environment, installed from the package index."""

    def test_light_wheel_works_with_openai_agents(
        self, wheels: tuple[Path, Path], tmp_path: Path
    ) -> None:
        """The light wheel and the framework install together, and the gate judges its tools."""
        beside = Environment(tmp_path)
        made = subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=False)
        assert made.returncode == 0
        [light] = [wheel for wheel in wheels if LIGHT.replace("-", "_") in wheel.name]
        line = [str(beside.python), "-m", "pip", "install", "-q", "openai-agents", str(light)]
        installed = subprocess.run(line, capture_output=True, text=True, check=False)
        if installed.returncode != 0:
            pytest.skip("openai-agents cannot be installed here: it takes a package index")
        assert beside.run(tmp_path, "python", "-m", "pip", "check").returncode == 0
        done = beside.run(tmp_path, "python", str(readme_program(tmp_path)), text="yes")
        assert (done.returncode, done.stderr) == (0, "")
        done = beside.run(tmp_path, "python", "-c", FUNCTION_TOOLS)
        assert done.returncode == 0, done.stderr
        refused, fields, ran, blocked = done.stdout.splitlines()
        assert "wrap the function that it runs, or list it in passthrough=" in refused
        assert (fields, ran) == ("['env']", "deployed to prod")
        assert blocked == "Tool 'deploy' blocked: deploy has reached its limit of 1 calls per session."


class TestParts:
    def test_light_one_imports_what_it_requires(self) -> None:
        """The light distribution's modules import only its requirements, even late."""
        tree = Tree.read(ROOT)
        settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][LIGHT]
        adapters = {f"interlock.adapters.{extra.replace('-', '_')}" for extra in settings["extras"]}
        names = {
            name.partition(".")[0]
            for module in tree.needed(settings["roots"]) - adapters
            for name in tree.imported(module, late=True)
        }
        libraries = names - sys.stdlib_module_names - {"interlock"}
        imported = {
            library.replace("_", "-").replace("pydantic-core", "pydantic") for library in libraries
        }
        # google-re2 is imported by another name, re2.
        assert imported | {"google-re2"} == set(settings["dependencies"])

    def test_missing_root_module_is_an_error(self) -> None:
        """A missing root module is an error, so that no wheel lacks it silently."""
        with pytest.raises(LookupError, match=r"names no module: interlock\.engine\.gone"):
            Tree.read(ROOT).needed(["interlock.engine.gone"])


class TestProject:
    def test_lists_every_package(self) -> None:
        """pyproject.toml lists every folder with code, so that the wheel lacks none."""
        listed = set(
            tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
        )
        folders = {
            ".".join(("interlock", *path.parent.relative_to(ROOT).parts))
            for room in ROOMS
            for path in (ROOT / room).rglob("*.py")
        }
        assert folders == listed
