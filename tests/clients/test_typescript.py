"""The TypeScript client: its package, its types, and its own tests on the Node that is here."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue

from interlock.engine.gate.edit_notice import describe_edit
from interlock.engine.gate.wrapping.failures import returned_failure

from ..docs.blocks import Block, blocks_of
from ..engine.gateway.served import Served, served, until
from ..support.certificates import certified
from ..support.forked import put_interlock
from ..support.typescript import FILE, PACKAGE, current
from .node import STRIPS, compiler, copied, install, node, run, stripped

MANIFEST = json.loads((PACKAGE / "package.json").read_text("utf-8"))
SUITES = sorted((PACKAGE / "test").glob("*.test.js"))
PAGES = (PACKAGE / "README.md", PACKAGE.parents[1] / "docs" / "how-to" / "typescript.md")
PATIENCE = 240
"""Seconds for one file of tests."""


class TestPackage:
    def test_has_no_dependencies(self) -> None:
        """No dependency at run time, and no record of where packages came from."""
        assert "dependencies" not in MANIFEST
        assert not {"install", "postinstall", "preinstall", "prepare"} & MANIFEST["scripts"].keys()
        tracked = run(["git", "ls-files", "."], PACKAGE).split()
        assert not [name for name in tracked if name.startswith(("dist", "node_modules", "package-lock"))]

    def test_has_the_projects_version(self) -> None:
        """The client goes with the server of its version."""
        version = re.search(
            r'^version = "(.+)"$',
            (PACKAGE.parents[1] / "pyproject.toml").read_text("utf-8"),
            re.MULTILINE,
        )
        assert version is not None
        assert MANIFEST["version"] == version[1]


class TestTypes:
    def test_match_the_protocol(self) -> None:
        """`python -m tests.support.typescript` has been run since the protocol changed."""
        assert FILE.read_text("utf-8") == current()

    def test_type_check_in_the_package_and_in_user_code(self, tmp_path: Path) -> None:
        """The sources, and a user's program with what has to be an error in it."""
        run([*compiler(), "--project", "test"], copied(tmp_path))

    def test_are_published(self, tmp_path: Path) -> None:
        """A program in another folder finds the declarations of the package, and gets its types."""
        package = copied(tmp_path)
        run(compiler(), package)
        project = tmp_path / "project"
        install(package, project)
        (project / "node_modules" / "@types").symlink_to(PACKAGE / "node_modules" / "@types")
        program = (PACKAGE / "test" / "types.ts").read_text("utf-8")
        (project / "program.ts").write_text(program.replace("../src/index.ts", "@interlock/client"))
        options = [
            "--strict",
            "--noEmit",
            "--target",
            "es2022",
            "--module",
            "nodenext",
            "--types",
            "node",
        ]
        run([*compiler(), *options, "--lib", "es2022,esnext.disposable", "program.ts"], project)


class TestClient:
    @pytest.mark.slow
    @pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
    def test_passes_its_own_tests(self, suite: Path, tmp_path: Path) -> None:
        """Each file of the package's tests, against servers that it starts."""
        package = stripped(tmp_path)
        put_interlock(tmp_path / "bin")
        certificates = tmp_path / "certificates"
        certificates.mkdir()
        certified(certificates)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")},
            "INTERLOCK": str(tmp_path / "bin" / "interlock"),
            "INTERLOCK_TEST_TLS": str(certificates),
        }
        code, out = suite_output([node(), "--test", f"test/{suite.name}"], package, environment)
        failed = re.findall(r"^ *not ok \d+ - (.+)$", out, re.MULTILINE)
        assert (code, failed) == (0, []), out
        # A file without tests, or one that skips some, would pass as well.
        assert len(re.findall(r"^ *ok \d+ - (?!.*# SKIP)", out, re.MULTILINE)) > 3, out
        assert "# SKIP" not in out


def suite_output(
    command: list[str], folder: Path, environment: Mapping[str, str]
) -> tuple[int | None, str]:
    """Exit code and TAP of Node's tests; whatever they have started ends with them."""
    command = [*command[:2], "--test-reporter=tap", *command[2:]]
    running = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = running.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        out = running.communicate()[0] + f"\nnot ok 0 - ended after {PATIENCE} seconds"
    return running.returncode, out


def examples() -> list[object]:
    """The programs that the package's pages show."""
    found = [(page, block) for page in PAGES for block in blocks_of(page) if block.language == "ts"]
    return [pytest.param(block, id=f"{page.name}:{block.line}") for page, block in found]


@pytest.mark.slow
class TestExamples:
    @pytest.mark.parametrize("block", examples())
    async def test_documented_programs_run(self, block: Block, tmp_path: Path) -> None:
        """Each program on the pages runs as it is; operators approve what it asks for."""
        install(stripped(tmp_path), tmp_path / "project")
        (tmp_path / "project" / "program.ts").write_text(block.text, encoding="utf-8")
        async with served(tmp_path, rules="require human-approval before refund") as server:
            running = await asyncio.create_subprocess_exec(
                node(STRIPS),
                "program.ts",
                cwd=tmp_path / "project",
                env={"INTERLOCK_URL": server.url, "INTERLOCK_TOKEN": server.agent},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            answering = asyncio.create_task(approve_all(server))
            try:
                async with asyncio.timeout(60):
                    out, _ = await running.communicate()
            finally:
                answering.cancel()
            assert (running.returncode, block.reason) == (0, None), out.decode()
            expected = re.findall(r"^// prints: (.+)$", block.text, re.MULTILINE)
            assert expected
            assert out.decode().splitlines() == expected


async def approve_all(server: Served) -> None:
    """Approve every request, until it is cancelled."""
    while True:
        for request in await until(server.hub.approvals):
            await server.hub.decide(request.id, approved=True, by="ada", reason=None)


CASES: tuple[tuple[dict[str, JsonValue], dict[str, JsonValue]], ...] = (
    ({"a": 1}, {"a": 1}),
    ({"a": 1, "b": {"c": [1, 2]}}, {"b": {"c": [1, 2]}, "a": 1}),
    ({"env": "prod"}, {"env": "staging"}),
    ({"a": 1, "b": 2, "c": 3}, {"a": 2, "c": 3, "d": "new"}),
    ({"text": "x" * 300 + "old" + "y" * 300}, {"text": "x" * 300 + "new" + "y" * 300}),
    ({"text": "😀" * 250}, {"text": "😀" * 249 + "é"}),
    ({"a": None}, {}),
    ({}, {"long": "z" * 1000}),
    ({"a": True}, {"a": 1}),
)
VALUES: tuple[JsonValue, ...] = (
    "fine",
    " Error: no",
    "error: no",
    "errors: 3",
    "Traceback (most recent call last):\n  …",
    '{"ok": false}',
    ' {"error": "no"}',
    '{"error": ',
    "[1]",
    {"ok": True},
    {"success": False},
    {"isError": True},
    {"is_error": True},
    {"isError": "true"},
    {"error": ""},
    {"error": []},
    {"error": {}},
    {"error": {"code": 1}},
    {"error": None},
    {"error": 0},
    [{"error": "no"}],
    None,
    0,
)


class TestBothClients:
    def test_models_get_the_same_texts(self, tmp_path: Path) -> None:
        """Edits and failures are the same for the clients in Python and TypeScript."""
        package = stripped(tmp_path)
        given = json.dumps({"edits": CASES, "values": VALUES})
        (tmp_path / "given.json").write_text(given, encoding="utf-8")
        module = json.dumps(str(package / "dist" / "results.js"))
        program = f"""
            import {{ readFileSync }} from "node:fs";
            import {{ editNotice, returnedFailure }} from {module};
            const {{ edits, values }} = JSON.parse(readFileSync("given.json", "utf8"));
            const notices = edits.map(([before, after]) => editNotice(before, after));
            const failures = values.map((value) => returnedFailure("tool", value));
            console.log(JSON.stringify({{ notices, failures }}));
        """
        (tmp_path / "both.mjs").write_text(program, encoding="utf-8")
        found = json.loads(run([node(), "both.mjs"], tmp_path))
        edits = [describe_edit(before, after) for before, after in CASES]
        assert found["notices"] == [edit and f"{edit} before it ran." for edit in edits]
        assert found["failures"] == [returned_failure("tool", value) for value in VALUES]
