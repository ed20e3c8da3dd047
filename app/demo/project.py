"""The demo's project: a small shop with lint, test and deploy scripts, in a fresh git repository.

One test fails: the discount is added instead of taken off. The agent has to find and fix the line.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import dedent

FILES = {
    "README": """\
        A shop that adds up prices. Before a deploy: ./lint, then ./test, then ./deploy staging.
        """,
    "shop/__init__.py": "",
    "tests/__init__.py": "",
    "shop/price.py": '''\
        """Prices in cents."""


        def total(prices: list[int], discount: int = 0) -> int:
            """The sum of `prices` after a discount in percent."""
            return round(sum(prices) * (100 + discount) / 100)
        ''',
    "tests/test_price.py": """\
        import unittest

        from shop.price import total


        class Total(unittest.TestCase):
            def test_sum(self):
                self.assertEqual(total([250, 750]), 1000)

            def test_discount(self):
                self.assertEqual(total([250, 750], discount=10), 900)
        """,
    "lint": """\
        #!/bin/sh
        # Every file compiles and no line ends in blanks.
        set -eu
        python3 -c 'import ast, sys; [ast.parse(open(p).read(), p) for p in sys.argv[1:]]' \\
            shop/*.py tests/*.py
        if grep -nE '[[:blank:]]+$' shop/*.py tests/*.py; then
            echo "lint: trailing blanks"
            exit 1
        fi
        echo "lint: 4 files clean"
        """,
    "test": """\
        #!/bin/sh
        # A suite takes its time, in which the console shows what waits for its result.
        sleep 0
        exec python3 -B -m unittest discover -s tests -t . 2>&1
        """,
    "deploy": """\
        #!/bin/sh
        # A pretend target: a file per environment says which commit it runs.
        set -eu
        target=${1:?usage: ./deploy ENVIRONMENT}
        commit=$(git rev-parse --short HEAD 2>/dev/null || echo unversioned)
        mkdir -p deployed
        echo "$commit" >> "deployed/$target"
        echo "deployed $commit to $target"
        """,
    ".gitignore": """\
        __pycache__/
        build/
        deployed/
        """,
    "build/shop.tar": "an old build\n",
}
SCRIPTS = ("lint", "test", "deploy")
IDENTITY = (
    "-c",
    "user.name=Interlock demo",
    "-c",
    "user.email=demo@localhost",
    "-c",
    "commit.gpgsign=false",
)
"""Git options with which commits work on any machine."""


def create_project(root: Path | None = None, *, test_seconds: int = 0) -> Path:
    """Create the project in `root`, or in a new temporary directory. Raises `OSError`.

    Its tests take `test_seconds`. Without git it is a plain directory, and the deploy script prints
    `unversioned`.
    """
    root = root or Path(tempfile.mkdtemp(prefix="interlock-demo-"))
    # The interpreter that runs Interlock is the only one that is certain to exist.
    python = shlex.quote(sys.executable)
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        script = dedent(text).replace("python3", python).replace("sleep 0", f"sleep {test_seconds}")
        path.write_text(script, encoding="utf-8")
    for name in SCRIPTS:
        (root / name).chmod(0o755)
    if shutil.which("git") is not None:
        git(root, "init", "-q")
        git(root, "add", "-A")
        git(root, *IDENTITY, "commit", "-qm", "A shop with a discount")
    return root


def git(root: Path, *arguments: str) -> None:
    """Run git in `root`."""
    subprocess.run(("git", *arguments), cwd=root, check=True, capture_output=True)
