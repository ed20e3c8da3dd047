"""Every adapter's tests with its real framework, in a separate environment for each.

    python -m tests.adapters.environments [NAME ...]

The frameworks conflict with each other, and some with the console. The environments are in
`.venv-adapters`. Changed requirements renew them, with the newest versions that the extras allow.
Versions that pass are written to the table of adapters.
"""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from .table import PAGE, ROOT, ROWS, Row, text, written_versions

FOLDER = ROOT / ".venv-adapters"
TESTING = ("hypothesis", "pytest", "pytest-asyncio", "pytest-timeout")
"""Packages of `dev` that the tests need."""
FAKES = {"autogen": ("autogen-ext",), "ag2": ("ag-ui-protocol>=1.0,<2",)}
"""Packages with a framework's fake model, or with the protocol that serves it."""


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of one framework's tests."""

    row: Row
    version: str
    passed: int
    failed: int
    skipped: int
    seconds: float

    @property
    def is_good(self) -> bool:
        return self.passed > 0 and self.failed == 0

    def __str__(self) -> str:
        counts = f"{self.passed:4} passed {self.failed:3} failed {self.skipped:3} skipped"
        return f"{self.row.title:<26} {self.version:<10} {counts} {self.seconds:5.0f} s"


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with Interlock, one framework and the packages for its tests."""

    row: Row

    @property
    def folder(self) -> Path:
        return FOLDER / self.row.page

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def make(self) -> None:
        """Install the environment's packages unless they are installed. Raises `CalledProcessError`."""
        known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
        extras = known["project"]["optional-dependencies"]
        testing = [each for each in extras["dev"] if each.startswith(TESTING)]
        framework = [*extras[self.row.page], *FAKES.get(self.row.page, ())]
        steps = [["--editable", str(ROOT), *testing, *framework]]
        if self.row.page in known["tool"]["interlock-gate"]["alone"]:
            # Its requirements override those of the console, which its tests do not need.
            steps = [["--editable", str(ROOT), *testing], framework]
        requirements = (*known["project"]["dependencies"], *(each for step in steps for each in step))
        stamp, wanted = self.folder / "made", "\n".join(requirements)
        if stamp.exists() and stamp.read_text("utf-8") == wanted:
            return
        print(f"Installing {self.row.title} into {self.folder.relative_to(ROOT)}", flush=True)
        if not self.python.exists():
            subprocess.run([sys.executable, "-m", "venv", self.folder], check=True)
        for step in steps:
            pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "--upgrade", *step], check=True)
        stamp.write_text(wanted, "utf-8")

    def test(self) -> Result:
        """Run the adapter's tests. A file that cannot be imported counts as one failure."""
        report, begun = self.folder / "report.xml", time.monotonic()
        report.unlink(missing_ok=True)
        name = f"test_{self.row.page.replace('-', '_')}.py"
        what = [str(ROOT / "tests" / "adapters" / name), "--junitxml", str(report)]
        pytest = [self.python, "-m", "pytest", "-q", "--show-capture=no", "-p", "no:warnings"]
        subprocess.run([*pytest, *what], cwd=ROOT, check=False)
        tests, failures, errors, skipped = 1, 0, 1, 0
        if report.exists():
            suite = ET.parse(report).getroot()[0]
            names = ("tests", "failures", "errors", "skipped")
            tests, failures, errors, skipped = (int(suite.get(name) or 0) for name in names)
        failed = failures + errors
        seconds = time.monotonic() - begun
        return Result(self.row, self.version(), tests - failed - skipped, failed, skipped, seconds)

    def version(self) -> str:
        """Return the installed version of the framework."""
        ask = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
        asked = [self.python, "-c", ask, self.row.distribution]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def main(names: list[str]) -> int:
    """Test the named adapters, or all. Returns 1 if one is not installed or fails."""
    pages = [row.page for row in ROWS]
    if unknown := [name for name in names if name not in pages]:
        print(f"No adapter is called {', '.join(unknown)}, expected some of {', '.join(pages)}")
        return 2
    results: list[Result | str] = []
    for row in ROWS:
        if names and row.page not in names:
            continue
        environment = Environment(row)
        try:
            environment.make()
        except subprocess.CalledProcessError as error:
            results.append(f"{row.title:<26} was not installed: {error}")
        else:
            results.append(environment.test())
    print("", *results, sep="\n")
    tested = {
        each.row.title: each.version for each in results if isinstance(each, Result) and each.is_good
    }
    if (made := text(written_versions() | tested)) != PAGE.read_text("utf-8"):
        PAGE.write_text(made, "utf-8")
        print(f"\nThe versions in {PAGE.relative_to(ROOT)} are those that were tested now")
    return 0 if all(isinstance(each, Result) and each.is_good for each in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
