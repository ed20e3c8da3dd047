"""Commands that a program runs in turn: `sudo rm x` runs `rm x`, `bash -c 'rm x'` runs the text.

Programs that are not listed are ordinary commands. What they do with their words is not analysed, and
maps see those words like all others (`python -c`, `docker exec`, `make`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import dropwhile

from ..environment import assigned
from ..invocations import CommandWords, Input, Run, SameCommand, Script, Tool
from ..words import Word, plain, texts
from .build import BUILD
from .builtins import BUILTINS
from .git import GIT, git_program
from .interactive import INTERACTIVE
from .interpreters import LANGUAGES, interpreter
from .launchers import ARCHITECTURES, LAUNCHERS, LOADER, SUBCOMMANDS
from .option_programs import OPTION_PROGRAMS
from .options import Split, UnclearError, by_name, names, options, split
from .remote import REMOTE
from .shells import SHELL_TOOLS, from_input, through_shell
from .starters import STARTERS

_REST = Word("", "", known=False, single=False)


def runs(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """Runs of a command besides itself. Raises `UnclearError` if they cannot be found."""
    name = program(words[0].text)
    if name in _WITH_VERBS:
        yield from _without_options(words)
    if special := _special(name):
        if name in _WITH_SUBCOMMANDS:
            yield from _loosely(words, name)
        yield from special(words, stdin)
    elif (launcher := LAUNCHERS.get(name)) and not launcher.loose:
        found = split(words, launcher)
        yield from assignments(found.assigned)
        for option in ("o", "output"):
            if (output := found.given.get(option)) and output.text[:1] in {"|", "!"}:
                # For strace and ltrace: the output goes to a command.
                yield Script(output._replace(text=output.text[1:]))
        if found.rest:
            yield CommandWords(found.rest)
            yield from _elsewhere(found)
        elif name in _START_SHELLS and not found.given.keys() & {"help", "version", "h", "V", "list"}:
            yield from from_input(words[0].text, stdin)
    elif launcher or name in SUBCOMMANDS:
        yield from _loosely(words, name)


@lru_cache(maxsize=1024)
def runs_others(path: str) -> bool:
    """Return whether the program at `path` runs others."""
    name = program(path)
    is_launcher = name in LAUNCHERS or name in SUBCOMMANDS or name in _WITH_VERBS
    return is_launcher or _special(name) is not None


_WITH_SUBCOMMANDS = names("npm pnpm yarn cargo gcloud")
"""Programs that have their own options as well as words after which a command follows."""
_WITH_VERBS = names(
    """
    kubectl oc docker podman nerdctl npm pnpm yarn terraform tofu helm aws gcloud az gh systemctl
    vault consul nomad pulumi flyctl brew
    """
)


def _without_options(words: Sequence[Word]) -> Iterator[Run]:
    """`kubectl -n prod delete` is `kubectl delete`, `docker container exec` is `docker exec`.

    An option may take the next word or not, so each word that may be the first after the options counts.
    """
    option = False
    for at, word in enumerate(words[1:], 1):
        text = word.text
        if text.startswith("-"):
            option = "=" not in text
            continue
        if at > 1:
            yield SameCommand((words[0], *words[at:]))
        if not option and text not in {"container", "image", "compose", "global"}:
            return
        option = False


_STARTS = names("ld i3 i4 i5 i6 x8 li aa ar un pp")
"""First letters of dynamic loaders and of programs that select an architecture."""


@lru_cache(maxsize=1024)
def _special(name: str) -> Tool | None:
    if found := _TOOLS.get(name):
        return found
    if name[-1:].isdigit() or name[:2] in _STARTS:
        if LOADER.fullmatch(name):
            return _dynamic_loader
        if ARCHITECTURES.fullmatch(name):
            return _architecture
    if name.startswith("git-"):
        return git_program
    return interpreter(name)


def assignments(words: Sequence[Word]) -> Iterator[Run]:
    """Runs by other programs because of the words `NAME=value` before a command."""
    for word in words:
        name, _, value = word.text.partition("=")
        yield from assigned(name, Word(value, "", word.known, word.single))


def _loosely(words: Sequence[Word], name: str) -> Iterator[Run]:
    """Commands that may follow unknown options, from each word where one may begin."""
    arguments = words[1:]
    word_texts = [word.text for word in arguments]
    verbs = SUBCOMMANDS.get(name)
    if verbs:
        at = next((at for at, word in enumerate(arguments) if word.text in verbs), None)
        if at is None:
            return
        arguments = arguments[at + 1 :]
    if "--" in word_texts[:-1]:
        yield CommandWords(words[word_texts.index("--") + 2 :])
    sure = len(words) if name in _ANYWHERE else 1 if name in _WITH_TARGET else 0
    option = False
    for at, word in enumerate(arguments):
        text = word.text
        if text.startswith("-"):
            if text.startswith("--shell"):
                raise UnclearError(f"'{text}' names a program")
            if text == "--":
                sure, option = 0, False
            elif text in {"-c", "--command", "--exec", "-x", "-C"} and at + 1 < len(arguments):
                yield Script(arguments[at + 1])
                option = False
            elif text.startswith(("--command=", "--exec=")):
                yield Script(Word(text.partition("=")[2], "", word.known))
            else:
                option = "=" not in text
            continue
        if word.known and (_PROGRAM.fullmatch(text) or " " in text):
            yield CommandWords(arguments[at:]) if " " not in text else Script(word)
        elif not word.known and not option and sure == 0:
            raise UnclearError(f"what '{name}' runs is known only when it runs")
        if not option:
            sure -= 1
            if sure < 0:
                return
        option = False


_START_SHELLS = names("fakeroot unshare nsenter setarch chroot fakechroot doas setpriv torsocks")
_ANYWHERE = names("bwrap firejail nsjail proot systemd-nspawn minijail0 prlimit capsh valgrind")
_PROGRAM = re.compile(r"[A-Za-z_./~][\w./+@~-]*")
_WITH_TARGET = names(
    """
    switch_root docker podman nerdctl docker-compose kubectl oc lxc lxc-attach multipass heroku
    machinectl ip vagrant minikube rsh mosh pdsh ansible salt devcontainer rustup direnv chroot fly
    flyctl gcloud
    """
)


def _dynamic_loader(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """`ld.so [options] program`."""
    at = 1
    while at < len(words) and words[at].text.startswith("--"):
        at += 1 if words[at].text in {"--verify", "--list", "--inhibit-cache"} else 2
    if at < len(words):
        yield CommandWords(words[at:])


def _architecture(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    if arguments := [*dropwhile(lambda word: word.text.startswith("-"), words[1:])]:
        yield CommandWords(arguments)


def program(path: str) -> str:
    """Name of a program without its directory."""
    return path.rpartition("/")[2]


def _env(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    found = split(words, _ENV)
    text = found.given.get("S") or found.given.get("split-string")
    arguments = found.rest
    yield from assignments(found.assigned)
    if arguments and arguments[0].text == "-":
        yield from assignments([word for word in arguments[1:] if "=" in word.text])
        arguments = [*dropwhile(lambda word: "=" in word.text, arguments[1:])]
    if text is not None:
        if _ESCAPED.search(text.text):
            raise UnclearError("'env -S' has escapes of its own")
        text = text._replace(text=text.text.replace("\\_", " "))
        word_texts = Word(
            texts([plain("env"), text, *arguments]), "", text.known and all(w.known for w in arguments)
        )
        yield Script(word_texts)
    elif arguments:
        yield CommandWords(arguments)
        yield from _elsewhere(found)


def _elsewhere(found: Split) -> Iterator[Run]:
    """`env -C /bin ./rm` is `rm`: a path within the directory to which a launcher changes."""
    name = found.rest[0]
    if "/" in name.text and found.given.keys() & _DIRECTORIES:
        yield CommandWords(
            (name._replace(text=program(name.text), bare=program(name.bare)), *found.rest[1:])
        )


_DIRECTORIES = names("C D chdir wd working-directory d w")


def _sudo(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    found = split(words, _SUDO)
    yield from assignments(found.assigned)
    if found.given.keys() & {"e", "edit"}:
        return
    if found.rest:
        yield CommandWords(found.rest)
        yield from _elsewhere(found)
    elif found.given.keys() & {"s", "i", "shell", "login"}:
        yield from from_input(words[0].text, stdin)


def _su(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """`su` also accepts options after the user's name."""
    for at, word in enumerate(words[1:], 1):
        if word.text in {"-c", "--command", "--session-command"} and at + 1 < len(words):
            yield Script(words[at + 1])
            return
        if word.text.startswith(("-c", "--command=", "--session-command=")):
            value = word.text.partition("=")[2] if word.text.startswith("--") else word.text[2:]
            yield Script(Word(value, "", word.known))
            return
    if any(word.text in {"-u", "--user"} or word.text.startswith("--user=") for word in words):
        found = split(words, _RUNUSER)
        yield CommandWords(found.rest or (_REST,))
    else:
        yield from from_input(words[0].text, stdin)


def _command(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    found = split(words, _COMMAND)
    if found.rest and not found.given.keys() & {"v", "V"}:
        yield CommandWords(found.rest)


def _time(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    arguments = split(words, _TIME).rest
    while arguments and arguments[0].text == "!":
        arguments = arguments[1:]
    if arguments:
        yield CommandWords(arguments)


def _flock(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    arguments = split(words, _FLOCK).rest
    if len(arguments) > 1 and arguments[0].text in {"-c", "--command"}:
        yield Script(arguments[1])
    elif arguments:
        yield CommandWords(arguments)


def _xargs(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    found = split(words, _XARGS)
    if not found.rest:
        return
    mark = next((found.given[name] for name in ("I", "J", "i", "replace") if name in found.given), None)
    if mark is None:
        yield CommandWords((*found.rest, _REST))
    else:
        yield CommandWords(_filled(found.rest, mark.text or "{}"))


def _find(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    at = 1
    unknown = ""
    while at < len(words):
        word = words[at]
        if word.text not in {"-exec", "-execdir", "-ok", "-okdir"}:
            if word.text == ";" or (word.text == "+" and words[at - 1].text == "{}"):
                raise UnclearError("what 'find' runs is known only when it runs")
            if not word.known and not _TAKES_VALUE.match(words[at - 1].text):
                # Between two unknown words there may be a program.
                if unknown and words[at - 1].known and not words[at - 1].text.startswith("-"):
                    raise UnclearError(f"what {unknown!r} is to 'find' is known only when it runs")
                unknown = word.text
            at += 1
            continue
        end = at + 1
        while end < len(words) and not _ends(words, end):
            end += 1
        if end > at + 1:
            inner = _filled(words[at + 1 : end], "{}")
            yield CommandWords(inner)
            if word.text.endswith("dir") and "/" in inner[0].text:
                yield CommandWords((inner[0]._replace(text=program(inner[0].text)), *inner[1:]))
        at = end + 1


_TAKES_VALUE = re.compile("-[a-z]")


def _ends(words: Sequence[Word], at: int) -> bool:
    return words[at].text == ";" or (words[at].text == "+" and words[at - 1].text == "{}")


def _filled(words: Sequence[Word], mark: str) -> list[Word]:
    """Words in which `mark` stands for what is known only when the command runs."""
    return [word._replace(known=word.known and mark not in word.text) for word in words]


_ESCAPED = re.compile(r"\\[^_\"'\\ ]")
_ENV = options(
    "0iv",
    "uCSa",
    "ignore-environment null debug list-signal-handling block-signal default-signal ignore-signal "
    "unset= chdir= split-string= argv0=",
    assignments=True,
)
_SUDO = options(
    "AbBEeHiKklnNPSsVv",
    "CDghpRrtTuU",
    "askpass background bell preserve-env edit set-home login remove-timestamp reset-timestamp list "
    "non-interactive preserve-groups stdin shell validate version help no-update close-from= chdir= "
    "group= host= prompt= chroot= role= type= command-timeout= user= other-user=",
    assignments=True,
)
_RUNUSER = options("lmp", "ugGsw", "login preserve-environment user= group= supp-group= shell=")
_COMMAND = options("pvV")
_TIME = options("apqvVl", "fo", "append portability quiet verbose format= output=")
_FLOCK = options(
    "sxuneoFv",
    "wE",
    "shared exclusive unlock nonblock no-fork close verbose timeout= wait= conflict-exit-code=",
    operands=1,
)
_WATCH = options(
    "bcCdegrtwx", "nq", "beep color no-color differences errexit chgexit no-title exec interval="
)
_XARGS = options(
    "0oprtx",
    "adEIJLnPRs",
    "null interactive no-run-if-empty verbose exit open-tty show-limits replace max-lines eof "
    "arg-file= delimiter= max-args= max-procs= max-chars= process-slot-var=",
    optional="eil",
)
_TOOLS: Mapping[str, Tool] = {
    **SHELL_TOOLS,
    **LANGUAGES,
    **BUILTINS,
    **GIT,
    **BUILD,
    **STARTERS,
    **INTERACTIVE,
    **REMOTE,
    **OPTION_PROGRAMS,
    **by_name(
        {
            "su runuser": _su,
            "env": _env,
            "sudo": _sudo,
            "command": _command,
            "time": _time,
            "flock": _flock,
            "watch": lambda words, _: through_shell(split(words, _WATCH)),
            "xargs": _xargs,
            "find": _find,
        }
    ),
}
"""Programs that run others in special ways, by name."""

_RUNS_NO_OTHER: Mapping[str, re.Pattern[str]] = {
    "git": re.compile(
        r"git (?:status|diff|log|show|add|commit|push|pull|fetch|checkout|switch|branch|stash|rev-parse|"
        r"remote|reset|restore|tag|merge|blame|ls-files|mv|rm|describe|cherry-pick|worktree|init)"
        r"(?: (?!--(?:ex|up|re[cp]|tem|conf|op|setup)|-[a-zA-Z]*[cxOu]\b|ext:)[\w./:@=^+-]*)*"
    ),
    "make": re.compile(r"make(?: -j ?\d*| -[ksBn]| -C [\w./-]+| [\w./][\w./-]*)*"),
    "sort": re.compile(r"sort(?: -[a-zA-Z0-9,.]*| [\w./][\w./-]*)*"),
    "find": re.compile(r"find(?: (?!-exec|-ok|-fprint|-fls|[;+])[^ ]*)*"),
    "printf": re.compile(r"printf(?: [\w./][\w./-]*)*"),
    "go": re.compile(r"go(?: (?!--?(?:exec|toolexec|vettool))-[a-z]+(?:=[\w./]+)?| [\w.][\w./-]*)*"),
}


def runs_no_other(name: str, text: str) -> bool:
    """Return whether a command of plain words has a common form that runs nothing else."""
    form = _RUNS_NO_OTHER.get(name)
    return form is not None and form.fullmatch(text) is not None
