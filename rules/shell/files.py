"""Files that a command writes, and files that it runs (G-64).

The contents of files are not read. If a command runs a file that the same command may have written, it is
unknown what runs, and the command is unclear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from .programs.options import names
from .words import Word

_SHELLS = names("sh bash dash zsh ksh mksh ash rbash yash fish")
_STARTED = names(
    """
    .bashrc .bash_profile .bash_login .bash_logout .profile .zshenv .zshrc .zprofile .zlogin
    .zlogout .kshrc .mkshrc .inputrc .shrc .shinit profile bashrc
    """
)
_HOOKS = re.compile(r"(?:^|/)\.git/(?:hooks/|config$|modules/)|(?:^|/)\.?hooks/")
_SYSTEM = re.compile(r"/(?:usr|s?bin|lib\w*|opt|dev|proc)/")

_MAKERS = names(
    """
    cp mv ln link install rsync curl wget tee dd scp sed perl sort openssl uudecode ed patch xxd
    update-alternatives truncate unzip sponge gzexe bzexe uniq gzip gunzip bzip2 bunzip2 xz unxz zstd
    unzstd lz4 shuf iconv gpg xmllint xsltproc pandoc yq shar ptx zip
    """
)
"""Programs that write the files named in their arguments."""

_DERIVERS = names(
    """
    tar gtar bsdtar unzip cpio pax ar 7z 7za gunzip bunzip2 unxz unzstd gzip bzip2 xz zstd lz4 patch
    uudecode gcc cc g++ c++ clang clang++ tcc rustc go ghc ocamlopt ld as javac jar csplit split git
    """
)
"""Programs that create files from others, with names that are not in their arguments."""

_ALWAYS = names("make npm yarn pnpm")
"""Programs that run commands from a file in the working directory."""
WRITERS = (_MAKERS | _DERIVERS | _ALWAYS) - {"git"}
"""Programs that must be reported to `Files.program`."""
PATCHES = frozenset(("apply", "am"))
"""Commands of git that must be reported to `Files.program`."""
_PRINTERS = names("echo printf print cat base64 base32 xxd uudecode openssl awk tr rev")
_BUILDERS = names(
    """
    make gmake ninja cmake cargo go rustc gcc cc g++ c++ clang clang++ javac meson bazel npm pnpm yarn
    bun deno tsc esbuild webpack vite tox nox poetry pip pip3 uv gradle mvn docker podman kubectl helm
    """
)
_READERS = names(
    """
    cat head tail less more bat ls stat file wc nl od hexdump strings grep egrep fgrep rg ag ack diff
    cmp comm md5sum sha1sum sha256sum sha512sum b2sum cksum sum chmod chown chgrp touch mkdir test [ [[
    echo printf true false : cd pushd popd rm rmdir which type command whereis realpath readlink
    basename dirname du df find tree shellcheck shfmt black ruff isort flake8 pylint mypy pyright
    prettier eslint gofmt rustfmt clang-format pytest coverage kill pgrep pkill ps wait sleep export
    set unset local declare exit return systemctl service journalctl jq cut column fold awk
    """
)
"""Programs that do not write to the files named in their arguments, or no text of the caller's choice."""

_SOURCES = re.compile(r"\.(?:py|pyi|pth|[cm]?[jt]sx?|pl|pm|rb|php|lua|tcl|java|go|rs)$")
_LANGUAGES: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for programs, pattern in (
        (
            "python python2 python3 pypy pypy3 pytest py.test pip pip3 tox nox ipython uv poetry",
            r"\.pyi?$|\.pth$",
        ),
        (
            "node nodejs npm npx yarn pnpm tsx ts-node deno bun jest vitest mocha eslint",
            r"\.[cm]?[jt]sx?$",
        ),
        ("perl prove", r"\.p[lm]$|\.t$"),
        ("ruby rake bundle rspec irb", r"\.rb$"),
        ("php composer phpunit", r"\.php$"),
        ("lua luajit", r"\.lua$"),
        ("tclsh expect", r"\.tcl$"),
        ("java", r"\.java$|\.jar$|\.class$"),
        ("go", r"\.go$"),
        ("cargo", r"\.rs$"),
    )
    for name in programs.split()
}
"""Files that programs of a language load by themselves, if a command writes them as text."""

_CONFIGURED: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for programs, pattern in (
        ("make", r"(?:GNUm|[mM])akefile|.*\.mk"),
        ("ninja", r".*\.ninja"),
        ("cmake ctest cpack", r"CMakeLists\.txt|.*\.cmake"),
        ("npm npx yarn pnpm bun", r"package\.json|\.npmrc|\.yarnrc(?:\.yml)?|\.pnpmfile\.cjs"),
        ("cargo rustc", r"Cargo\.toml|config\.toml|build\.rs"),
        ("go", r"go\.(?:mod|work)"),
        ("mvn", r"pom\.xml"),
        ("gradle gradlew", r".*\.gradle(?:\.kts)?|gradle\.properties"),
        ("ant", r".*\.xml"),
        (
            "docker docker-compose podman buildah nerdctl",
            r".*(?:Docker|Container)file.*|.*compose.*\.ya?ml",
        ),
        ("just", r"\.?justfile"),
        ("task", r"[Tt]askfile\.ya?ml"),
        ("rake", r"[Rr]akefile"),
        ("bundle gem", r"Gemfile|.*\.gemspec"),
        ("vagrant", r"Vagrantfile"),
        ("terraform tofu terragrunt", r".*\.(?:tf|hcl|tofu)"),
        (
            "pip pip3 python python3 tox uv poetry hatch pdm",
            r"setup\.(?:py|cfg)|pyproject\.toml|tox\.ini",
        ),
        ("nox", r"noxfile\.py"),
        ("pytest py.test", r"conftest\.py|pytest\.ini"),
        ("composer", r"composer\.json"),
        ("pre-commit", r"\.pre-commit-config\.yaml"),
        ("ansible-playbook ansible", r".*\.ya?ml|ansible\.cfg"),
        ("direnv", r"\.envrc"),
        ("mise", r"\.?mise\.toml"),
        ("vi vim nvim view ex", r"\.?_?n?g?vimrc|\.exrc|init\.(?:vim|lua)"),
        ("ssh scp sftp rsync git", r"config|ssh_config"),
        ("gdb", r"\.gdbinit"),
        ("psql", r"\.psqlrc"),
        ("mysql", r"\.my\.cnf"),
        ("curl", r"\.curlrc"),
        ("wget", r"\.wgetrc"),
        ("tmux", r"\.tmux\.conf"),
        ("screen", r"\.screenrc"),
        ("less man", r"\.lesskey|\.lessfilter"),
        ("sqlite3", r"\.sqliterc"),
        ("kubectl aws gcloud", r".*config"),
        ("systemctl", r".*\.(?:service|timer|path|socket)"),
        ("meson", r"meson\.build"),
        ("bazel", r"BUILD(?:\.bazel)?|WORKSPACE|.*\.bzl"),
        ("scons", r"SConstruct|SConscript"),
        ("procmail", r"\.procmailrc"),
        ("git", r"\.gitconfig|\.gitattributes|\.gitmodules"),
        ("overmind foreman honcho", r"Procfile.*"),
    )
    for name in programs.split()
}
"""Files that define what these programs run."""

_MATTERS = re.compile(
    r"\.(?:pyi?|pth|[cm]?[jt]sx?|p[lm]|t|rb|php|lua|tcl|jar|class|java|go|rs|mk|ninja|cmake|json|ya?ml|toml|xml"
    r"|gradle|kts|properties|tf|hcl|tofu|ini|cfg|service|timer|path|socket|build|bazel|bzl|mod|work|gemspec)$"
    r"|[fF]ile|Lists\.txt|rc$|^BUILD|WORKSPACE|SCons|config|compose|\.\w+rc\b|\.git|\.my\.cnf|\.tmux|\.gdb|\.less|mise",
    re.MULTILINE,
)
"""Parts of the names in the tables above, for a quick check before the tables are searched."""
_EXPANSION = re.compile(r"\$\{?(\w+)\}?")
_SPECIAL = re.compile(r"[$`*?\[\]{}()~]")
_AGAIN = re.compile(
    r"\b(?:for|while|until|repeat|select|trap|alias|function|coproc)\b|\(\)|(?<![&>])&(?![&>])"
)
_AT_ONCE = re.compile(r"\|(?!\|)")
"""Constructs that make commands run in another order than written: repeatedly, or concurrently."""
_SUFFIXES = re.compile(r"\.(?:gz|bz2|xz|zst|Z|lz4|lzma)$")


def last(path: str) -> str:
    """Name of a file without its directory."""
    return path.rpartition("/")[2]


class Files:
    """The files of one command, by their base names.

    `ran` are programs and files that run; `hooks` says that a file of git's own is written. Files whose
    names are known only when the command runs are kept as patterns, with the number of files that had
    been run before.
    """

    def __init__(self) -> None:
        self.made: set[str] = set()
        self.ran: set[str] = set()
        self.hooks = False
        self._texts: set[str] = set()
        self._unknown: list[tuple[Word, int, bool]] = []
        self._run: list[str] = []
        self._sources: set[str] = set()
        self._fed = False
        self._scripts = False

    def makes(self, path: str) -> None:
        """Record a file that a command writes or moves somewhere."""
        base = last(path)
        self.made.add(base)
        if ".git" in path and (_HOOKS.search(path) or base == ".gitconfig"):
            self.hooks = True

    def writes(self, target: Word, at: int) -> None:
        """Record a file into which text is written; `at` files had been run when that began."""
        base = last(target.text)
        if target.known or not _SPECIAL.search(base):
            if not target.text.startswith("/dev/"):
                self.makes(target.text)
                self._texts.add(base)
        else:
            self._unknown.append((target, at, False))

    @property
    def runs(self) -> int:
        """Number of files that have been run so far."""
        return len(self._run)

    def execute(self, path: str) -> None:
        """Record a file that is run by its path or by an interpreter."""
        if not _SYSTEM.match(path):
            self._run.append(path)
            self._scripts = True
        self.ran.add(last(path))

    def program(self, name: str, words: Sequence[str], unknown: Sequence[Word], fed: bool) -> None:
        """Record the files in the arguments of one of `WRITERS`.

        `unknown` are the words that are not fully known; `fed` says that the command contains its own
        input.
        """
        if name in _ALWAYS:
            self._run.append(name)
            return
        if name in _MAKERS:
            if name not in _READERS_UNLESS:
                outputs = words
            elif _writes(name, words, unknown):
                outputs = [*_outputs(words)] if name in _TO_OPTION else words
            else:
                return
            for word in outputs:
                if word[:1] == "-" and "=" not in word:
                    continue
                path = word.rpartition("=")[2] if "=" in word else word
                base = path.rpartition("/")[2]
                self.made.add(base)
                if "." in path:
                    self.makes(path)
                    if _SUFFIXES.search(path):
                        self.made.add(_SUFFIXES.sub("", base))
                if name == "tee":
                    self._texts.add(base)
            for target in unknown:
                self._unknown.append((target, len(self._run), name == "tee"))
        if name in _DERIVERS:
            self._sources.update(map(last, words))
            self._fed = self._fed or fed
            if name in {"tar", "gtar", "bsdtar"} and words and "c" in words[0]:
                self.made.update(map(last, words[1:]))
            elif name in {"split", "csplit"} and words:
                self._unknown.append((Word(f"{words[-1]}*", "", known=False), len(self._run), False))

    def reason(
        self, text: str, path: bool, commands: Iterable[Sequence[str]], launches: Callable[[str], bool]
    ) -> str | None:
        """Reason why `text` may run what it writes.

        `path` says that it changes where programs are searched for. `commands` are the texts of its
        commands; `launches` returns whether a program runs others.
        """
        created, ran = self.made, self.ran
        if not (created or self._unknown or self._fed or self._scripts):
            return None
        if created and created & _STARTED and ran & _SHELLS:
            return "it writes a file that shells run when they start"
        if "git" in ran and (self.hooks or (path and any(m.startswith("git-") for m in created))):
            return "it writes what 'git' runs"
        if both := created & ran:
            return f"it runs '{min(both)}', which it makes"
        if created and _MATTERS.search("\n".join(created)):
            for name in ran:
                if (found := _CONFIGURED.get(name)) and any(map(found.fullmatch, created)):
                    return f"it runs '{name}' on what it makes"
                if (found := _LANGUAGES.get(name)) and any(map(found.search, self._texts)):
                    return "it runs a program that it writes"
        if self._unknown and (file := self._matching(text)):
            return f"it runs '{file}', which it may have made"
        if not self._run:
            return None
        if (self._sources & created) or (
            self._fed or (self._sources and ran & _PRINTERS and "|" in text)
        ):
            return "it runs a file that it may have made from another"
        if any(part in created for file in self._run for part in file.split("/")[:-1]):
            return "it runs a file of a directory that it makes"
        return self._mentioned(commands, launches) if self._scripts else None

    def _matching(self, text: str) -> str | None:
        """A file that is run and that a name known only at run time may match."""
        at_once = _AT_ONCE.search(text) is not None
        is_recursive = _AGAIN.search(text) is not None
        for target, at, last_in_pipe in self._unknown:
            pattern, sure = _pattern(target.text, text)
            if sure and any(map(pattern.fullmatch, _STARTED)) and _STARTS.search(text):
                return "a shell's own start file"
            for path in self._run if is_recursive or (at_once and not last_in_pipe) else self._run[at:]:
                if path in _ALWAYS:
                    found = _CONFIGURED[path]
                    if sure and any(map(pattern.fullmatch, _EXAMPLES[path])) and found:
                        return path
                elif pattern.fullmatch(last(path)):
                    return path
        return None

    def _mentioned(
        self, commands: Iterable[Sequence[str]], launches: Callable[[str], bool]
    ) -> str | None:
        """A file that is run and that another program, which may write to it, gets as an argument."""
        run = {last(path) for path in self._run} - _ALWAYS
        if not run:
            return None
        for texts in commands:
            said = texts[-1].split()
            name = last(said[0]) if said else ""
            option = _OUTPUT.get(name)
            if option is None and (name in _READERS or name in _BUILDERS or launches(name)):
                continue
            if any(last(text.split()[0]) in run for text in texts if text.strip()):
                continue
            words = said[1:]
            if option is not None:
                words = [
                    after
                    for before, after in pairwise(said)
                    if option.match(before) or option.match(after)
                ]
            if found := next((base for base in _bases(words) if base in run), None):
                return f"it runs '{found}', which '{name}' may have made"
        return None


_OUTPUT = {"git": re.compile(r"-o|--out"), "find": re.compile("-fprint|-fls"), "awk": re.compile("-o")}
"""Options of programs that write files, while their other words name files that they read."""
_STARTS = re.compile(r"\b(?:ba|da|k)?sh\b[^;|&\n]* -\w*[il]|--login|\bzsh\b")
"""A shell that reads files of the user's own when it starts."""
_EXAMPLES = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "npm": ("package.json",),
    "yarn": ("package.json",),
    "pnpm": ("package.json",),
}


def _outputs(words: Sequence[str]) -> Iterator[str]:
    """Values of the options of a program that name its output."""
    for word, following in pairwise((*words, "")):
        if found := _OUTPUT_OPTION.match(word):
            yield word[found.end() :] or following


def _writes(name: str, words: Sequence[str], unknown: Sequence[Word]) -> bool:
    """Return whether a program that mostly reads is called to write: `sed -i`, `sort -o`."""
    option = _IN_PLACE if name in _IN_PLACE_ONLY else _OUTPUT_OPTION
    for word in words:
        if word[:1] == "-" and option.match(word):
            return True
    return any(option.match(word.text) for word in unknown)


_IN_PLACE = re.compile(r"-[a-zA-Z]*i|--in-place")
_IN_PLACE_ONLY = frozenset(("sed", "perl"))
_TO_OPTION = names("sort shuf iconv gpg xmllint xsltproc pandoc ptx openssl")
_READERS_UNLESS = _IN_PLACE_ONLY | _TO_OPTION
_OUTPUT_OPTION = re.compile(r"--?out(?:put)?=?|-[a-zA-Z]*o")


def _bases(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        base = last(word.rpartition("=")[2])
        yield base
        if word.startswith("-") and not word.startswith("--"):
            yield last(word[2:])


def _pattern(target: str, text: str) -> tuple[re.Pattern[str], bool]:
    """Pattern of the values of a name with expansions, and whether the command itself sets them."""
    base = last(target) if not re.search(r"[(`]", target) else target
    variables = _EXPANSION.findall(base)
    sure = any(
        not name.isidentifier() or re.search(rf"(?<![\w${{]){name}\b|\{{{name}[^}}\w]", text)
        for name in variables
    )
    remaining = _EXPANSION.sub("\0", base)
    if _SPECIAL.search(remaining.replace("*", "")) or not (variables or "*" in remaining):
        return _ANY, True
    return re.compile(
        re.escape(remaining.replace("*", "\0")).replace("\0", ".*"), re.DOTALL
    ), sure or "*" in remaining


_ANY = re.compile(".*", re.DOTALL)
