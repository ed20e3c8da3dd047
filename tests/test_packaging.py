"""What users install: a wheel with every module and data file, under one import root."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("app", "engine", "rules")

BUILD = """
import importlib, sys
importlib.import_module(sys.argv[1]).build_wheel(sys.argv[2])
"""
"""What every installer does in the folder of a project."""

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


def source_modules() -> list[str]:
    """Every Python module of the three rooms, by its installed name."""
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


class TestWheel:
    def test_every_module_imports_from_it(self, wheel: Path, tmp_path: Path) -> None:
        """Each module of the source tree is in the wheel and imports from there."""
        site = tmp_path / "site"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        names = [n for n in source_modules() if ".migrations." not in n or n.endswith("migrations")]
        done = subprocess.run(
            [sys.executable, "-c", IMPORT_ALL, str(site), *names],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) == len(names)

    def test_carries_every_source_and_data_file(self, wheel: Path) -> None:
        """Styles, grammars, rules and migrations travel with the code."""
        inside = set(zipfile.ZipFile(wheel).namelist())
        kinds = {".py", ".tcss", ".lark", ".rules"}
        for room in ROOMS:
            for path in (ROOT / room).rglob("*"):
                if path.suffix in kinds and "__pycache__" not in path.parts:
                    assert f"interlock/{path.relative_to(ROOT).as_posix()}" in inside

    def test_puts_nothing_generic_into_site_packages(self, wheel: Path) -> None:
        """All of it lies below one import root."""
        tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
        assert {t for t in tops if not t.endswith(".dist-info")} == {"interlock"}


class TestProject:
    def test_lists_every_package(self) -> None:
        """A folder with code that pyproject.toml forgot would be missing from the wheel."""
        listed = set(
            tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
        )
        folders = {
            ".".join(("interlock", *path.parent.relative_to(ROOT).parts))
            for room in ROOMS
            for path in (ROOT / room).rglob("*.py")
        }
        assert folders == listed
