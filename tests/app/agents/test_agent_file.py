"""Agent files: the settings of a valid file, and the errors of a faulty one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from interlock.app.agents.agent_file import MAX_FILE_BYTES, load_agent_file
from interlock.app.agents.builder import prepare
from interlock.app.agents.spec import AgentSpec, AgentSpecError

from ...docs.blocks import titled
from .files import problems, write


class TestFile:
    def test_every_key_is_read(self, here: Path) -> None:
        """Every key is read; paths are relative to the file, not to the working directory."""
        write(here / "a/prompt.txt", "Be brief.")
        path = write(
            here / "a/release-bot.toml",
            """
            model = "openai://gpt-4o"
            api_base = "http://127.0.0.1:1/v1"
            system_prompt_file = "prompt.txt"
            tools = ["bash", "mine:deploy"]
            rules = ["deploy.rules", "../more.rules"]
            active = ["block-rm"]
            mode = "shadow"
            labels = ["nightly", "ci"]
            send_mode = "queue"
            explain_blocks = true
            task = "Ship it"
            [runtime]
            kind = "sandbox"
            workdir = "work"
            network = true
            read_only = ["/opt/sdk"]
            env = ["CI"]
            [limits]
            max_steps = 7
            max_cost = 2.5
            compact_at = 90000
            """,
        )
        spec = load_agent_file(path)
        assert spec.model_dump(mode="json", exclude_unset=True) == {
            "name": "release-bot",
            "model": "openai://gpt-4o",
            "api_base": "http://127.0.0.1:1/v1",
            "system_prompt": "Be brief.",
            "tools": ["bash", "mine:deploy"],
            "rules": [str(here / "a/deploy.rules"), str(here / "more.rules")],
            "active": ["block-rm"],
            "mode": "shadow",
            "labels": ["ci", "nightly"],
            "send_mode": "queue",
            "explain_blocks": True,
            "task": "Ship it",
            "runtime": {
                "kind": "sandbox",
                "workdir": str(here / "a/work"),
                "network": True,
                "read_only": ["/opt/sdk"],
                "env": ["CI"],
            },
            "limits": {"max_steps": 7, "max_cost": 2.5, "compact_at": 90000},
            "import_from": [str(here / "a")],
        }

    @pytest.mark.parametrize("kind", ["local", "sandbox", "just-bash", "vercel"])
    def test_runtime_by_name(self, here: Path, kind: str) -> None:
        """A runtime without options is given by its name."""
        spec = load_agent_file(write(here / "a.toml", f"runtime = '{kind}'"))
        assert spec.runtime is not None
        assert spec.runtime.kind == kind

    def test_runtime_without_a_kind_is_local(self, here: Path) -> None:
        """A runtime table without a kind is for the local runtime."""
        spec = load_agent_file(write(here / "a.toml", "[runtime]\nworkdir = '.'"))
        assert spec.runtime is not None
        assert (spec.runtime.kind, spec.runtime.workdir) == ("local", here)

    @pytest.mark.parametrize(
        "more",
        [
            "runtime = {kind = 'sandbox', workdir = 'w'}",
            "runtime = {kind = 'just-bash', files = {a = 'x'}, env = ['CI']}",
            "subagents.r = {description = 'd', tools = ['read'], limits = {max_steps = 3}}",
        ],
    )
    def test_spec_reads_back_from_the_journal(self, here: Path, more: str) -> None:
        """A spec written as JSON is read back equal in another directory, to start its session again."""
        text = f"model = 'openai/m'\nrules = ['a.rules']\n{more}"
        spec = load_agent_file(write(here / "a.toml", text))
        kept = json.loads(json.dumps(spec.model_dump(mode="json")))
        (here / "elsewhere").mkdir()
        os.chdir(here / "elsewhere")
        assert AgentSpec.model_validate(kept) == spec

    def test_is_frozen(self, here: Path) -> None:
        """A spec cannot be changed."""
        spec = load_agent_file(write(here / "a.toml", "model = 'openai/m'"))
        with pytest.raises(ValidationError, match="frozen"):
            spec.model = "openai/other"


class TestFaultyFile:
    def test_quoted_key_is_located(self, here: Path) -> None:
        """A quoted key is located, even if it contains separators."""
        path = write(
            here / "a.toml",
            """\
            [runtime]
            kind = 'just-bash'
            [runtime.files]
            "notes.txt" = "x"
              "a/b = c.txt" = 1
            'd.txt' = 2
            """,
        )
        first_lines = [line for line in problems(path).split("\n") if not line.startswith(" ")]
        assert first_lines == [
            f'{path}:5:3: runtime.files."a/b = c.txt": expected text in quotes, found 1',
            f'{path}:6:1: runtime.files."d.txt": expected text in quotes, found 2',
        ]

    def test_all_problems_at_once(self, here: Path) -> None:
        """Each error has its line and column, what was found and what was expected."""
        path = write(
            here / "a.toml",
            '''\
            modle = "openai/m"
            system_prompt = """
            mode = 3
            """
            name = "a b"
            tools = "bash"
            mode = "strict"
            rules = ["a.rules", 1]
            active = []
              explain_blocks = "yes"
            [limits]
            max_steps = 0
            [runtime]
            kind = "sandbox"
            netwrk = true
            workdir = 4
            ''',
        )
        first_lines = [line for line in problems(path).split("\n") if not line.startswith(" ")]
        assert first_lines == [
            f"{path}:1:1: unknown key 'modle'",
            f"{path}:5:1: name: expected up to 64 letters, digits, '.', '_' and '-', found 'a b'",
            f"{path}:6:1: tools: expected a list, in [ ], found 'bash'",
            f"{path}:7:1: mode: expected 'enforce' or 'shadow', found 'strict'",
            f"{path}:8:1: rules[1]: expected a path in quotes, found 1",
            f"{path}:9:1: active: expected at least one",
            f"{path}:10:3: explain_blocks: expected true or false, found 'yes'",
            f"{path}:12:1: limits.max_steps: expected a number from 1, found 0",
            f"{path}:15:1: unknown key 'runtime.netwrk'",
            f"{path}:16:1: runtime.workdir: expected a path in quotes, found 4",
        ]

    def test_caret(self, here: Path) -> None:
        """A caret points at the key, and the remedy is below."""
        path = here / "a.toml"
        path.write_text("  mdel = 'openai/m'")
        assert problems(path).split("\n") == [
            f"{path}:1:3: unknown key 'mdel'",
            "      mdel = …",
            "      ^^^^",
            "    did you mean 'model' or 'mode'?",
        ]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("modelle = 'x'", "did you mean 'model' or 'mode'?"),
            ("workdir = 'x'", "it belongs in the table [runtime] with kind = 'local'"),
            ("max_steps = 3", "it belongs in the table [limits]"),
            ("[runtime]\nnetwork = true", "it belongs in the table [runtime] with kind = 'sandbox'"),
            ("private = true", "it belongs in the table [web_fetch]"),
            ("web_fetch = {privat = true}", "unknown key 'web_fetch.privat'"),
            ("web_fetch = {private = 1}", "web_fetch.private: expected true or false, found 1"),
            ("zzz = 1", "known: name, agent, model,"),
            ("[limits]\nzzz = 1", "known: max_steps, max_cost, compact_at"),
            ("compact_at = 3", "it belongs in the table [limits]"),
            ("limits = {compact_at = 0}", "limits.compact_at: expected a number from 1, found 0"),
            ("limits = {compact_at = 9.5}", "limits.compact_at: expected a whole number, found 9.5"),
            (
                "subagents.a = {description = 'A', limits = {compact_at = 9}}",
                "unknown key 'subagents.a.limits.compact_at'",
            ),
            ("max_cost = 3", "it belongs in the table [limits]"),
            ("limits = {max_cost = 0}", "limits.max_cost: expected more than 0, found 0"),
            ("limits = {max_cost = '$5'}", "limits.max_cost: expected a number, found '$5'"),
            ("limits = {max_cost = true}", "limits.max_cost: expected a number, found true or false"),
            ("limits = {max_cost = inf}", "limits.max_cost: expected a finite number, found inf"),
            ("runtime = 'docker'", "runtime: unknown runtime 'docker'"),
            ("runtime = 3", "runtime: expected a table"),
            ("limits = 3", "limits: expected a table, found 3"),
            (
                "limits = {max_steps = true}",
                "limits.max_steps: expected a whole number, found true or false",
            ),
            ("limits = {max_steps = '9'}", "limits.max_steps: expected a whole number, found '9'"),
            ("model = 'gpt-4o'", "write openai://gpt-4o, or provider/model"),
            ("model = 'bard://x'", "unknown provider 'bard'"),
            ("model = 3", "model: expected text in quotes, found 3"),
            ("api_base = 'localhost:1'", "api_base: expected a URL such as http://127.0.0.1:8080/v1"),
            ("agent = 'x'", "agent: expected package.module:name, found 'x'"),
            ("[runtime]\nkind = 'vercel'\nworkdir = 'x'", "runtime.workdir: expected a path that starts"),
            ("[runtime]\nkind = 'vercel'\nfiles = {}", "in the table [runtime] with kind = 'just-bash'"),
            ("runtime = {kind = 'just-bash', files = ['a']}", "runtime.files: expected a table"),
            ("runtime = {kind = 'just-bash', files = {'' = 'x'}}", "runtime.files: expected paths of"),
            (
                "runtime = {kind = 'just-bash', files = {'a/' = ''}}",
                "expected paths of files, found 'a/'",
            ),
            (
                "runtime = {kind = 'just-bash', files = {'a/b' = '', a = ''}}",
                "runtime.files: 'a' cannot be a file: 'a/b' needs a directory there",
            ),
            (
                "runtime = {kind = 'just-bash', workdir = '/w/x', files = {'//w' = ''}}",
                "runtime.files: '//w' cannot be a file: the working directory needs a directory there",
            ),
            (
                "runtime = {kind = 'just-bash', files = {'x/../a' = '', a = ''}}",
                "runtime.files: 'x/../a' and 'a' are the same file",
            ),
            ('rules = ["a\\u0000b"]', "rules[0]: a path cannot hold a NUL character"),
            ("task = ' '", "task: expected some text"),
            ("tools = ['']", "tools[0]: expected some text, found none"),
            ("model = 'openai/m", "a.toml:1:18: "),
            ("x = 1\n[limits", "a.toml:2:8: Expected ']'"),
            ("mode = 'shadow'\nmode = 'enforce'", "a.toml:2:17: Cannot overwrite a value"),
        ],
    )
    def test_each_mistake_has_its_message(self, here: Path, text: str, message: str) -> None:
        """Each kind of mistake has its own message."""
        assert message in problems(write(here / "a.toml", text))

    @pytest.mark.parametrize(
        "text",
        [
            "api_key = 'sk-12345'",
            "model = 'openai://sk-12345@gpt-4o'",
            "model = 'openai://gpt-4o?base_url=http://me:sk-12345@host/'",
            "model = 'openai://gpt-4o?api_key=sk-12345'",
            "api_base = 'http://me:sk-12345@host/v1'",
            "[limits]\ntoken = 'sk-12345'",
            "model = 'sk-12345",
        ],
    )
    def test_secret_is_refused_and_not_shown(self, here: Path, text: str) -> None:
        """A secret in a file is an error that does not repeat the secret."""
        said = problems(write(here / "a.toml", text))
        assert "sk-12345" not in said

    def test_missing(self, here: Path) -> None:
        """A missing file is named."""
        assert problems(here / "no.toml").startswith(
            f"{here}/no.toml: no such file, expected an agent file"
        )

    def test_directory(self, here: Path) -> None:
        """A directory is refused."""
        (here / "d.toml").mkdir()
        assert "d.toml: is a directory, expected an agent file" in problems(here / "d.toml")

    def test_pipe(self, here: Path) -> None:
        """A pipe is refused without waiting."""
        os.mkfifo(here / "p.toml")
        assert "p.toml: is a pipe or a device" in problems(here / "p.toml")

    def test_other_encoding(self, here: Path) -> None:
        """Another encoding is reported with the byte and its place."""
        (here / "a.toml").write_bytes("name = 'x'\ntask = 'Grüße'".encode("latin-1"))
        assert "is not UTF-8 text: byte 0xfc at line 2, column 11" in problems(here / "a.toml")

    def test_size(self, here: Path) -> None:
        """A file of a million bytes is read, a larger one is refused."""
        comment = "model = 'openai/m'\n#"
        path = write(here / "a.toml", comment + "x" * (MAX_FILE_BYTES - len(comment)))
        assert load_agent_file(path).model == "openai/m"
        path.write_text(path.read_text() + "x")
        assert "is larger than 1,000,000 bytes" in problems(path)

    def test_deep(self, here: Path) -> None:
        """Excessive nesting is reported as an error."""
        assert "nested too deeply" in problems(write(here / "a.toml", f"a = {'[' * 50_000}"))

    def test_prompt_twice(self, here: Path) -> None:
        """A prompt together with a prompt file is an error."""
        text = "system_prompt = 'x'\nsystem_prompt_file = 'y'"
        assert "a.toml:2:1: system_prompt_file: there is a system_prompt too" in problems(
            write(here / "a.toml", text)
        )

    def test_unreadable_prompt_file(self, here: Path) -> None:
        """A prompt file that cannot be read is named, with the place of its key."""
        said = problems(write(here / "a.toml", "system_prompt_file = 'y.txt'"))
        assert f"a.toml:1:1: system_prompt_file: {here}/y.txt: no such file" in said

    @given(st.text())
    def test_arbitrary_text_is_read_or_refused(self, text: str) -> None:
        """Any text is read as a spec, or refused with an error that names the file."""
        path = Path("any.toml")
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        said: tuple[str, ...] = ()
        try:
            load_agent_file(path)
        except AgentSpecError as error:
            said = error.problems
        assert all(problem.startswith("any.toml") for problem in said)


@pytest.mark.slow
class TestDocumentation:
    def test_example_can_be_prepared(self, here: Path) -> None:
        """The documentation's agent file loads and can be prepared."""
        spec = load_agent_file(write(here / "agent.toml", titled("how-to/agents.md", "agent.toml")))
        write(here / "deploy.rules", titled("how-to/rules.md", "deploy.rules"))
        write(here / "release_tools.py", "def announce(text: str) -> None:\n    'Say it.'\n")
        prepared = prepare(spec)
        assert [net.name for net in prepared.rules] != []
        assert spec.task == "Ship it"
        assert [*spec.subagents] == ["reviewer"]
