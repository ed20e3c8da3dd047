"""Runs shell commands that evade a rule, to prove the line of each in the data file.

    python -m tests.support.prove_evasions tests/data/evasions_more.jsonl            compare
    python -m tests.support.prove_evasions tests/data/evasions_more.jsonl --write    record

Every command runs under bwrap with a read-only system, no network, no other processes and a temporary
directory at `/w`, which is also HOME. The programs that rules forbid are stubs there, which write their
name and their arguments to a log: `/usr/bin/rm` as well as the first entries of PATH. `sh` is dash. `git
push` is proved by the refs of the bare repository that `/w` pushes to.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

SHELLS = {"sh": "/usr/bin/dash", "bash": "/usr/bin/bash", "zsh": "/usr/bin/zsh"}
"""Program of each shell in the data file."""

RULES = {
    "rm": r"rm\b",
    "deploy": r"deploy\b",
    "push": r"git .*\bpush\b",
    "curl": r"curl\b",
    "kubectl-delete": r"kubectl .*\bdelete\b",
    "terraform-apply": r"terraform .*\bapply\b",
    "docker-exec": r"docker .*\bexec\b",
    "npm-publish": r"npm .*\bpublish\b",
    "sudo": r"sudo\b",
}
"""Rule of each command, and how the log shows that it was broken."""

_STUBS = ("rm", "curl", "kubectl", "terraform", "docker", "npm", "sudo")
_COVERED = ("/usr/bin/rm", "/usr/bin/curl", "/usr/bin/sudo")
_SECONDS = 2.0
_GRACE = "0.2"

_STUB = r"""
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    int log = open("/w/.log", O_WRONLY | O_APPEND | O_CREAT, 0666), at;
    char line[4096] = NAME;
    for (at = 1; at < count; at++) {
        strncat(line, " ", sizeof line - strlen(line) - 2);
        strncat(line, words[at], sizeof line - strlen(line) - 2);
    }
    strcat(line, "\n");
    return write(log, line, strlen(line)) < 0;
}
"""

_WORLD = r"""
set -e
cd /w
echo kept > victim
mkdir victims home bin
echo kept > victims/a
echo some text > f
printf 'r""m victim\n' > script.sh
printf '#!/bin/sh\necho "deploy $*" >> /w/.log\n' > deploy
printf 'all:\n\t@true\nclean:\n\trm victim\nx:\n\t$(CMD)\n' > Makefile
printf '{"name": "w", "version": "1.0.0"}\n' > package.json
chmod +x script.sh deploy
git config --global user.name Someone
git config --global user.email someone@example.com
git config --global init.defaultBranch main
git config --global init.templateDir ''
git init -q --bare .remote.git
git init -q .
git remote add origin /w/.remote.git
mkdir -p .git/info
printf '.*\n' > .git/info/exclude
git add f Makefile victim
git commit -qm first
git push -qu origin main
git commit -q --allow-empty -m second
"""


class ProofError(Exception):
    """The commands cannot be run here; the message says what is missing."""


@dataclass(frozen=True)
class Sandbox:
    """A directory with the stubs and with the files that are copied for each command."""

    root: Path

    @classmethod
    def built(cls, root: Path) -> Sandbox:
        """Compile the stubs and create the files below `root`."""
        for name in ("bwrap", "cc", "git", *SHELLS.values()):
            if shutil.which(name) is None:
                raise ProofError(f"{name} is missing: apt-get install bubblewrap gcc git dash bash zsh")
        (root / "stubs").mkdir()
        (root / "world").mkdir()
        (root / "stub.c").write_text(_STUB)
        for name in _STUBS:
            define = f'-DNAME="{name}"'
            subprocess.run(["cc", define, "-o", root / "stubs" / name, root / "stub.c"], check=True)
        made = cls(root)
        subprocess.run(made._inside(root / "world", ["/usr/bin/bash", "-c", _WORLD]), check=True, env={})
        return made

    def runs(self, command: str, rule: str, shell: str) -> bool:
        """Return whether `command`, given to `shell`, breaks `rule`."""
        with tempfile.TemporaryDirectory(dir=self.root, ignore_cleanup_errors=True) as name:
            world = Path(name) / "w"
            shutil.copytree(self.root / "world", world, symlinks=True)
            before = _refs(world)
            # Background processes get a moment before the sandbox ends.
            script = f'"$0" -c "$1" </dev/null; test -s /w/.log || sleep {_GRACE}'
            line = ["/usr/bin/dash", "-c", script, SHELLS[shell], command]
            process = subprocess.Popen(
                self._inside(world, line),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
            )
            try:
                process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log = world / ".log"
            said = log.read_text(errors="replace") if log.is_file() else ""
            broken = any(re.match(RULES[rule], entry) for entry in said.splitlines())
            return broken or (rule == "push" and _refs(world) != before)

    def _inside(self, world: Path, command: Sequence[str]) -> list[str]:
        stubs = str(self.root / "stubs")
        line = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
        line += ["--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]
        for link in ("bin", "sbin", "lib", "lib64"):
            line += ["--symlink", f"usr/{link}", f"/{link}"]
        line += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp"]
        line += ["--ro-bind", stubs, "/usr/local/bin"]
        for path in _COVERED:
            if os.path.exists(path):
                line += ["--ro-bind", f"{stubs}/{path.rpartition('/')[2]}", path]
        line += ["--bind", str(world), "/w", "--chdir", "/w", "--clearenv"]
        given = {
            "HOME": "/w",
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "USER": "root",
            "SHELL": "/bin/bash",
        }
        for key, value in given.items():
            line += ["--setenv", key, value]
        return [*line, *command]


def _refs(world: Path) -> list[tuple[str, str]]:
    remote = world / ".remote.git"
    files = [path for path in (remote / "refs").rglob("*") if path.is_file()]
    packed = remote / "packed-refs"
    return sorted((str(path), path.read_text()) for path in [*files, packed] if path.is_file())


def proven(sandbox: Sandbox, entries: Iterable[dict[str, object]]) -> list[list[str]]:
    """Return the shells in which each command breaks its rule, in the order of the entries."""

    def shells(entry: dict[str, object]) -> list[str]:
        command, rule = str(entry["command"]), str(entry["rule"])
        if "\0" in command:
            return []
        return [shell for shell in SHELLS if sandbox.runs(command, rule, shell)]

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(shells, entries))


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare a file's `proven_by_running` with the actual results, or record these."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("file", type=Path)
    options.add_argument("--write", action="store_true", help="record the shells in the file")
    given = options.parse_args(arguments)
    entries = [json.loads(line) for line in given.file.read_text(encoding="utf-8").split("\n") if line]
    with tempfile.TemporaryDirectory(prefix="evasions-", ignore_cleanup_errors=True) as root:
        try:
            sandbox = Sandbox.built(Path(root))
        except ProofError as error:
            print(error, file=sys.stderr)
            return 2
        found = proven(sandbox, entries)
    differing = 0
    for entry, shells in zip(entries, found, strict=True):
        if shells != entry.get("proven_by_running", []):
            differing += 1
            print(json.dumps(entry["command"]), entry.get("proven_by_running"), "->", shells)
        entry["proven_by_running"] = shells
    if given.write:
        text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
        given.file.write_text(text, encoding="utf-8")
    bare = sum(not shells for shells in found)
    print(f"{len(entries)} commands, {bare} not proven, {differing} differ", file=sys.stderr)
    return int(differing > 0 and not given.write)


if __name__ == "__main__":
    sys.exit(main())
