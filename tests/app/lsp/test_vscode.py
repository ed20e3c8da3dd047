"""The extension for VS Code: its declarations, and colours for the whole language."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from interlock.rules.library import LIBRARY
from tests.support.textmate import EXTENSION, FILE, current, patterns

PACKAGE = json.loads((EXTENSION / "package.json").read_text("utf-8"))


class TestPackage:
    def test_names_files_that_exist(self) -> None:
        """Program, language and grammar are existing files, and valid JSON where required."""
        contributed = PACKAGE["contributes"]
        [language], [colours] = contributed["languages"], contributed["grammars"]
        assert (language["id"], language["extensions"]) == ("interlock-rules", [".rules"])
        assert colours["language"] == language["id"]
        assert (EXTENSION / colours["path"]).resolve() == FILE
        for path in (language["configuration"], colours["path"]):
            assert isinstance(json.loads((EXTENSION / path).read_text("utf-8")), dict)
        assert (EXTENSION / PACKAGE["main"]).is_file()

    def test_workspace_cannot_choose_the_program(self) -> None:
        """A folder's settings cannot choose the program or the files that it reads."""
        settings = PACKAGE["contributes"]["configuration"]["properties"]
        assert {setting["scope"] for setting in settings.values()} == {"machine"}
        assert PACKAGE["capabilities"]["untrustedWorkspaces"]["supported"] == "limited"

    @pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
    def test_program_has_valid_syntax(self) -> None:
        """The program has valid syntax."""
        subprocess.run(["node", "--check", str(EXTENSION / PACKAGE["main"])], check=True)


class TestColours:
    def test_keywords_are_those_of_the_grammars(self) -> None:
        """The keywords are those of the grammars; `python -m tests.support.textmate` writes them."""
        text = FILE.read_text("utf-8")
        assert json.loads(text) == json.loads(current(text))

    def test_keywords_are_found_only_as_statements(self) -> None:
        """Each line of the library begins with a statement. Parts of hyphenated names are no keywords."""
        statement, word = (re.compile(patterns()[name]) for name in ("statement", "word"))
        for path in sorted(LIBRARY.glob("*.rules")):
            for line in path.read_text("utf-8").splitlines():
                if line.strip() and not line.lstrip().startswith("#"):
                    assert statement.match(line), line
        line = "require human-approval before per-session when not input.a in to-do because"
        found = [each[1] for each in word.finditer(line)]
        assert found == ["human-approval", "before", "when", "not", "in", "because"]
