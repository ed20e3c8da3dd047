"""The two distributions that are published: `interlock-gate` and, on top of it, `interlock`.

    python -m tests.support.distributions dist

Both come from this tree and share the import root `interlock`, but no file. What the light one has is
worked out from its roots in pyproject.toml: they and every module that they import, also late. The rest
is in the whole one, which requires the light one in the same version. A checkout that is installed as it
is (`pip install -e .`) is one distribution with all of it.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("adapters", "app", "engine", "rules")
LIGHT = "interlock-gate"
WHOLE = "interlock"

BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@dataclass(frozen=True, slots=True)
class Tree:
    """A source tree: the file of each module by its installed name, and each module's imports."""

    root: Path
    modules: Mapping[str, Path]

    @classmethod
    def read(cls, root: Path) -> Tree:
        """Read the tree at `root`."""
        found: dict[str, Path] = {}
        for room in ROOMS:
            for path in sorted((root / room).rglob("*.py")):
                parts = path.relative_to(root).with_suffix("").parts
                found[".".join(("interlock", *parts)).removesuffix(".__init__")] = path
        return cls(root, found)

    def needed(self, roots: Sequence[str], *, late: bool = True) -> set[str]:
        """Return the roots, all modules below them, and the modules these import, with their packages.

        Without `late`, imports inside functions are left out. Raises `LookupError` for a root that is not
        a module.
        """
        if unknown := sorted(set(roots) - self.modules.keys()):
            raise LookupError(f"pyproject.toml: [tool.{LIGHT}] names no module: {', '.join(unknown)}")
        found: set[str] = set()
        pending = [name for name in self.modules if any(f"{name}.".startswith(f"{r}.") for r in roots)]
        while pending:
            name = pending.pop()
            parts = name.split(".")
            for module in (".".join(parts[:n]) for n in range(2, len(parts) + 1)):
                if module not in found:
                    found.add(module)
                    pending += self.imports(module, late=late)
        return found

    def imports(self, module: str, *, late: bool) -> Iterator[str]:
        """Yield the modules of this tree that a module imports, except for type checkers."""
        return (name for name in self.imported(module, late=late) if name in self.modules)

    def imported(self, module: str, *, late: bool) -> Iterator[str]:
        """Yield all names that a module imports, except for type checkers; they may be modules."""
        path = self.modules[module]
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for node, is_late in _import_statements(path):
            if late or not is_late:
                yield from _imported_names(node, package)


@cache
def _import_statements(path: Path) -> list[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Return a file's import statements, except those for type checkers; true for those in functions.

    Each file is read once: both distributions are computed from all files, several times in a test.
    """
    return list(_statements_below(ast.parse(path.read_text("utf-8")), late=False))


def _statements_below(node: ast.AST, *, late: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, late
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        # Expressions cannot contain statements.
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            within = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _statements_below(child, late=late or within)


def _imported_names(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    """Yield names that may be modules: the one imported from, and those imported."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        parts = package.split(".")
        base = ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])
    yield base
    yield from (f"{base}.{alias.name}" for alias in node.names)


@dataclass(frozen=True, slots=True)
class Distribution:
    """One distribution: its files, by path below the tree, and its metadata from pyproject.toml."""

    name: str
    files: frozenset[str]
    project: Mapping[str, Any]


def distributions(root: Path = ROOT) -> tuple[Distribution, Distribution]:
    """Return the light distribution and the complete one, of the tree at `root`."""
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    project, light = settings["project"], settings["tool"][LIGHT]
    tree = Tree.read(root)
    modules = tree.needed(light["roots"]) | tree.needed(light["commands"], late=False)
    code = {path.relative_to(root).as_posix() for path in tree.modules.values()}
    own = {tree.modules[name].relative_to(root).as_posix() for name in modules}
    data = {path.relative_to(root).as_posix() for path in _data(root, settings)}
    folders = {path.rpartition("/")[0] for path in own}
    own |= {path for path in data if path.rpartition("/")[0] in folders}
    shared = {key: project[key] for key in ("version", "readme", "requires-python", "classifiers")}
    required = [each for each in project["dependencies"] if _name(each) in light["dependencies"]]
    if missing := sorted(set(light["dependencies"]) - {_name(each) for each in required}):
        raise LookupError(f"[tool.{LIGHT}]: the project does not depend on {', '.join(missing)}")
    return (
        Distribution(
            LIGHT,
            frozenset(own),
            {
                "name": LIGHT,
                "description": light["description"],
                "dependencies": required,
                "optional-dependencies": {
                    name: project["optional-dependencies"][name] for name in light["extras"]
                },
                "scripts": project["scripts"],
                **shared,
            },
        ),
        Distribution(
            WHOLE,
            frozenset((code | data) - own),
            {
                "name": WHOLE,
                "description": project["description"],
                "dependencies": [f"{LIGHT}=={project['version']}", *project["dependencies"]],
                "optional-dependencies": {
                    name: extra
                    for name, extra in project["optional-dependencies"].items()
                    if name not in ("dev", "docs", *light["alone"])
                },
                **shared,
            },
        ),
    )


def build(out: Path, root: Path = ROOT) -> list[Path]:
    """Build the wheels of both distributions into `out`. Raises `CalledProcessError`."""
    out.mkdir(parents=True, exist_ok=True)
    for each in distributions(root):
        with tempfile.TemporaryDirectory() as directory:
            _stage(each, root, Path(directory))
            command = [sys.executable, "-c", BUILD, str(out.resolve())]
            subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True)
    names = (LIGHT.replace("-", "_"), WHOLE)
    version = distributions(root)[0].project["version"]
    return [out / f"{name}-{version}-py3-none-any.whl" for name in names]


def _stage(distribution: Distribution, root: Path, directory: Path) -> None:
    """Copy a distribution's files, and write the pyproject.toml that builds them."""
    for path in distribution.files:
        copy = directory / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, copy)
    shutil.copyfile(root / "README.md", directory / "README.md")
    folders = sorted({path.rpartition("/")[0] for path in distribution.files if path.endswith(".py")})
    lines = [
        '[build-system]\nrequires = ["setuptools>=70"]\nbuild-backend = "setuptools.build_meta"\n',
        "[project]",
        *(f"{key} = {_toml(value)}" for key, value in distribution.project.items()),
        "\n[tool.setuptools]",
        f"packages = {_toml([_package(folder) for folder in folders])}",
        f"package-dir = {_toml({_package(folder): folder for folder in folders})}",
        "include-package-data = false",
        "\n[tool.setuptools.package-data]",
        *(f"{_toml(_package(folder))} = {_toml(names)}" for folder, names in _by_package(distribution)),
    ]
    (directory / "pyproject.toml").write_text("\n".join(lines) + "\n", "utf-8")


def _by_package(distribution: Distribution) -> Iterator[tuple[str, list[str]]]:
    """Yield data files by the folder of their package, with paths relative to it."""
    folders = {path.rpartition("/")[0] for path in distribution.files if path.endswith(".py")}
    found: dict[str, list[str]] = {}
    for path in sorted(distribution.files):
        if not path.endswith(".py"):
            folder = path.rpartition("/")[0]
            while folder not in folders:
                folder = folder.rpartition("/")[0]
            found.setdefault(folder, []).append(path.removeprefix(f"{folder}/"))
    yield from found.items()


def _data(root: Path, settings: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the data files named in pyproject.toml."""
    for package, patterns in settings["tool"]["setuptools"]["package-data"].items():
        folders = ROOMS if package == "*" else (package.removeprefix("interlock.").replace(".", "/"),)
        for folder in folders:
            for pattern in patterns:
                found = (
                    (root / folder).rglob(pattern) if package == "*" else (root / folder).glob(pattern)
                )
                yield from (path for path in found if path.is_file())


def _package(folder: str) -> str:
    return f"interlock.{folder.replace('/', '.')}"


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9_.-]", requirement, maxsplit=1)[0]


def _toml(value: object) -> str:
    """Format strings, lists and tables as TOML; strings and lists of strings are written as in JSON."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def main() -> None:
    """Build both distributions into the folder on the command line, `dist` by default."""
    for wheel in build(Path(sys.argv[1] if len(sys.argv) > 1 else "dist")):
        print(f"{wheel}  {wheel.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
