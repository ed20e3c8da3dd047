"""Commands that a program runs in turn: `sudo rm x` runs `rm x`, `bash -c 'rm x'` runs the text.

Programs that are not here are commands like any other: what they make of their words is not followed,
and maps see those words as they see every word (`python -c`, `docker exec`, `make`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import dropwhile

from ..environment import assigned
from ..invocations import Also, Command, FromFile, Input, Run, Script, ScriptFile, Tool, as_path
from ..words import Word, plain, texts
from .interpreters import interpreter
from .launchers import ARCHITECTURES, LAUNCHERS, LOADER, SUBCOMMANDS
from .options import Split, UnclearError, may_be_option, names, options, split
from .tools import SSH_COMMANDS, TOOLS, git_program

_STDIN = re.compile(r"/dev/(?:stdin|fd/\d+)|/proc/[^/]+/fd/\d+")
_REST = Word("", "", known=False, single=False)


def runs(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """The runs of a command besides itself. Raises `UnclearError` when they cannot be found."""
    name = program(words[0].text)
    if name in _WITH_VERBS:
        yield from _without_options(words)
    if special := _special(name):
        if name in _WITH_SUBCOMMANDS:
            yield from _loosely(words, name)
        yield from special(words, stdin)
    elif (known := LAUNCHERS.get(name)) and not known.loose:
        found = split(words, known)
        yield from assignments(found.assigned)
        for option in ("o", "output"):
            if (output := found.given.get(option)) and output.text[:1] in {"|", "!"}:
                # Of strace and ltrace: what is shown goes to a command.
                yield Script(output._replace(text=output.text[1:]))
        if found.rest:
            yield Command(found.rest)
            yield from _elsewhere(found)
        elif name in _START_SHELLS and not found.given.keys() & {"help", "version", "h", "V", "list"}:
            yield from _from_input(words[0].text, stdin)
    elif known or name in SUBCOMMANDS:
        yield from _loosely(words, name)


@lru_cache(maxsize=1024)
def runs_others(path: str) -> bool:
    """Tell whether the program at `path` is one that runs others."""
    name = program(path)
    known = name in LAUNCHERS or name in SUBCOMMANDS or name in _WITH_VERBS
    return known or _special(name) is not None


_WITH_SUBCOMMANDS = names("npm pnpm yarn cargo gcloud")
"""Programs that have both options of their own and words behind which a command stands."""
_WITH_VERBS = names(
    """
    kubectl oc docker podman nerdctl npm pnpm yarn terraform tofu helm aws gcloud az gh systemctl
    vault consul nomad pulumi flyctl brew
    """
)


def _without_options(words: Sequence[Word]) -> Iterator[Run]:
    """`kubectl -n prod delete` is `kubectl delete`, `docker container exec` is `docker exec`.

    An option may take the next word or not: each word that may be the first behind the options counts.
    """
    option = False
    for at, word in enumerate(words[1:], 1):
        text = word.text
        if text.startswith("-"):
            option = "=" not in text
            continue
        if at > 1:
            yield Also((words[0], *words[at:]))
        if not option and text not in {"container", "image", "compose", "global"}:
            return
        option = False


@lru_cache(maxsize=1024)
def _special(name: str) -> Tool | None:
    if found := _SPECIAL.get(name):
        return found
    if name[-1:].isdigit() or name[:2] in {
        "ld",
        "i3",
        "i4",
        "i5",
        "i6",
        "x8",
        "li",
        "aa",
        "ar",
        "un",
        "pp",
    }:
        if LOADER.fullmatch(name):
            return _dynamic_loader
        if ARCHITECTURES.fullmatch(name):
            return _architecture
    if name.startswith("git-"):
        return git_program
    return interpreter(name)


def assignments(words: Sequence[Word]) -> Iterator[Run]:
    """The runs that other programs make of the words `NAME=value` before a command."""
    for word in words:
        name, _, value = word.text.partition("=")
        yield from assigned(name, Word(value, "", word.known, word.single))


def _loosely(words: Sequence[Word], name: str) -> Iterator[Run]:
    """The commands that may follow options that are not known, from each word where one may begin."""
    rest = words[1:]
    said = [word.text for word in rest]
    verbs = SUBCOMMANDS.get(name)
    if verbs:
        at = next((at for at, word in enumerate(rest) if word.text in verbs), None)
        if at is None:
            return
        rest = rest[at + 1 :]
    if "--" in said[:-1]:
        yield Command(words[said.index("--") + 2 :])
    sure = len(words) if name in _ANYWHERE else 1 if name in _WITH_TARGET else 0
    option = False
    for at, word in enumerate(rest):
        text = word.text
        if text.startswith("-"):
            if text.startswith("--shell"):
                raise UnclearError(f"'{text}' names a program")
            if text == "--":
                sure, option = 0, False
            elif text in {"-c", "--command", "--exec", "-x", "-C"} and at + 1 < len(rest):
                yield Script(rest[at + 1])
                option = False
            elif text.startswith(("--command=", "--exec=")):
                yield Script(Word(text.partition("=")[2], "", word.known))
            else:
                option = "=" not in text
            continue
        if word.known and (_PROGRAM.fullmatch(text) or " " in text):
            yield Command(rest[at:]) if " " not in text else Script(word)
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
        yield Command(words[at:])


def _architecture(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        at += 1
    if at < len(words):
        yield Command(words[at:])


def program(path: str) -> str:
    """The name of a program without its directory."""
    return path.rpartition("/")[2]


def _shell(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    at, letters = 1, ""
    while at < len(words):
        word = words[at]
        text = word.text
        if may_be_option(word):
            if "n" in letters and at == len(words) - 1 and word.single:
                return
            raise UnclearError(f"an option of '{words[0].text}' is known only when it runs")
        if len(text) < 2 or text[0] not in "-+":
            break
        at += 1
        if text == "--":
            break
        if text in {"--version", "--help"}:
            return
        if text.startswith("--"):
            at += _long_of_shell(text, words[0].text)
        else:
            letters += text[1:] if text[0] == "-" else ""
            at += sum(letter in "oO" for letter in text[1:])
    rest = words[at:]
    if rest and rest[0].text == "-":
        rest = rest[1:]
    if "c" in letters:
        if not rest:
            raise UnclearError(f"'{words[0].text} -c' runs a text that is not there")
        yield Script(rest[0])
    elif "s" in letters or not rest:
        yield from _from_input(words[0].text, stdin)
    else:
        yield from _file(words[0].text, rest, stdin)


def _long_of_shell(option: str, shell: str) -> int:
    """The number of words that a long option of a shell takes after itself."""
    if option.partition("=")[0] in {"--rcfile", "--init-file"}:
        raise UnclearError(f"'{option}' names a file that '{shell}' runs")
    if option not in {"--login", "--norc", "--noprofile", "--posix", "--restricted", "--verbose"}:
        raise UnclearError(f"'{option}' is no option known of '{shell}'")
    return 0


def _file(shell: str, rest: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """A shell that runs a file: the same as running the file, or one of that name that PATH leads to."""
    file = rest[0]
    if _STDIN.fullmatch(file.text):
        yield from _from_input(shell, None if "fd/" in file.text else stdin)
    elif not file.single or not file.known or file.text.startswith(("<(", "$(", "`")):
        raise UnclearError(f"what '{shell}' runs is known only when it runs")
    else:
        yield ScriptFile((as_path(file), *rest[1:]))
        if "/" not in file.text:
            yield Also((file, *rest[1:]))


def _from_input(shell: str, stdin: Input) -> Iterator[Run]:
    match stdin:
        case Word():
            yield Script(stdin)
        case FromFile(name):
            yield ScriptFile((as_path(name),))
        case None:
            raise UnclearError(f"'{shell}' runs what it reads from its input")


def _source(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    rest = _after_dashes(words)
    if rest:
        yield from _file(words[0].text, rest, stdin)


def _eval(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    rest = _after_dashes(words)
    if rest:
        yield Script(Word(texts(rest), "", all(word.known for word in rest)))


def _trap(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    rest = _after_dashes(words)
    if len(rest) > 1 and rest[0].text not in {"", "-", "-p", "-l"}:
        yield Script(rest[0])


def _alias(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for word in words[1:]:
        if re.match(r"-[a-zA-Z]*[gs]", word.text):
            raise UnclearError("an alias in it may stand for a part of any command")
        value = word.text.partition("=")[2]
        if value:
            # What stands behind the alias where it is used becomes words of its command.
            yield Script(Word(f'{value} "$@"', "", word.known))


def _after_dashes(words: Sequence[Word]) -> Sequence[Word]:
    return words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]


def _env(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    found = split(words, _ENV)
    text = found.given.get("S") or found.given.get("split-string")
    rest = found.rest
    yield from assignments(found.assigned)
    if rest and rest[0].text == "-":
        yield from assignments([word for word in rest[1:] if "=" in word.text])
        rest = [*dropwhile(lambda word: "=" in word.text, rest[1:])]
    if text is not None:
        if _ESCAPED.search(text.text):
            raise UnclearError("'env -S' has escapes of its own")
        text = text._replace(text=text.text.replace("\\_", " "))
        said = Word(texts([plain("env"), text, *rest]), "", text.known and all(w.known for w in rest))
        yield Script(said)
    elif rest:
        yield Command(rest)
        yield from _elsewhere(found)


def _elsewhere(found: Split) -> Iterator[Run]:
    """`env -C /bin ./rm` is `rm`: a path within the directory that a launcher goes to."""
    name = found.rest[0]
    if "/" in name.text and found.given.keys() & _DIRECTORIES:
        yield Command((name._replace(text=program(name.text), bare=program(name.bare)), *found.rest[1:]))


_DIRECTORIES = names("C D chdir wd working-directory d w")


def _sudo(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    found = split(words, _SUDO)
    yield from assignments(found.assigned)
    if found.given.keys() & {"e", "edit"}:
        return
    if found.rest:
        yield Command(found.rest)
        yield from _elsewhere(found)
    elif found.given.keys() & {"s", "i", "shell", "login"}:
        yield from _from_input(words[0].text, stdin)


def _su(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """`su` takes options after the user's name too."""
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
        yield Command(found.rest or (_REST,))
    else:
        yield from _from_input(words[0].text, stdin)


def _command(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    found = split(words, _COMMAND)
    if found.rest and not found.given.keys() & {"v", "V"}:
        yield Command(found.rest)


def _time(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    rest = split(words, _TIME).rest
    while rest and rest[0].text == "!":
        rest = rest[1:]
    if rest:
        yield Command(rest)


def _flock(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    rest = split(words, _FLOCK).rest
    if len(rest) > 1 and rest[0].text in {"-c", "--command"}:
        yield Script(rest[1])
    elif rest:
        yield Command(rest)


def _watch(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    yield from _through_shell(split(words, _WATCH))


def _ssh(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """The runs on another machine, which count as if they were made here."""
    found = split(words, _SSH)
    if any(SSH_COMMANDS.match(word.text) for name, word in found.values if name == "o"):
        raise UnclearError("an option of 'ssh' names a program")
    if (settings := found.given.get("F")) and settings.text not in {"none", "/dev/null"}:
        if not settings.known or settings.text.startswith(("/dev/", "/proc/")):
            raise UnclearError("the settings of 'ssh' are known only when it runs")
        yield ScriptFile((as_path(settings),))
    if found.rest and found.rest[0].text == "--":
        found.rest = found.rest[1:]
    if found.rest:
        yield from _through_shell(found)
    elif not found.given.keys() & {"N", "V", "G", "Q", "O"}:
        yield from _from_input(words[0].text, stdin)


def _through_shell(found: Split) -> Iterator[Run]:
    if found.rest:
        yield Script(Word(texts(found.rest), "", all(word.known for word in found.rest)))


def _xargs(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    found = split(words, _XARGS)
    if not found.rest:
        return
    mark = next((found.given[name] for name in ("I", "J", "i", "replace") if name in found.given), None)
    if mark is None:
        yield Command((*found.rest, _REST))
    else:
        yield Command(_filled(found.rest, mark.text or "{}"))


def _find(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    at = 1
    unknown = ""
    while at < len(words):
        word = words[at]
        if word.text not in {"-exec", "-execdir", "-ok", "-okdir"}:
            if word.text == ";" or (word.text == "+" and words[at - 1].text == "{}"):
                raise UnclearError("what 'find' runs is known only when it runs")
            if not word.known and not _TAKES_VALUE.match(words[at - 1].text):
                # Between two words that are not known a program may stand.
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
            yield Command(inner)
            if word.text.endswith("dir") and "/" in inner[0].text:
                yield Command((inner[0]._replace(text=program(inner[0].text)), *inner[1:]))
        at = end + 1


_TAKES_VALUE = re.compile("-[a-z]")


def _ends(words: Sequence[Word], at: int) -> bool:
    return words[at].text == ";" or (words[at].text == "+" and words[at - 1].text == "{}")


def _filled(words: Sequence[Word], mark: str) -> list[Word]:
    """Words in which `mark` is for what is known only when the command runs."""
    return [word._replace(known=word.known and mark not in word.text) for word in words]


def _unclear(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    yield from ()
    raise UnclearError(f"'{words[0].text}' runs what it reads from its input")


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
_SSH = options("46AaCfGgKkMNnqsTtVvXxYy", "BbcDEeFIiJLlmOoPpQRSWw", operands=1)
_XARGS = options(
    "0oprtx",
    "adEIJLnPRs",
    "null interactive no-run-if-empty verbose exit open-tty show-limits replace max-lines eof "
    "arg-file= delimiter= max-args= max-procs= max-chars= process-slot-var=",
    optional="eil",
)

SHELLS = names(
    """
    sh bash dash zsh ksh mksh ash rbash yash fish
    """
)

_SPECIAL: Mapping[str, Tool] = {
    **dict[str, Tool].fromkeys(SHELLS, _shell),
    **dict[str, Tool].fromkeys(("source", "."), _source),
    **dict[str, Tool].fromkeys(("su", "runuser"), _su),
    **dict[str, Tool].fromkeys(("at", "batch"), _unclear),
    "eval": _eval,
    "trap": _trap,
    "alias": _alias,
    "env": _env,
    "sudo": _sudo,
    "command": _command,
    "time": _time,
    "flock": _flock,
    "watch": _watch,
    "ssh": _ssh,
    "xargs": _xargs,
    "find": _find,
    **TOOLS,
}


def hides_substitution(name: str, source: str) -> bool:
    """Tell whether a builtin that evaluates arithmetic gets a quoted substitution: `let 'a[$(rm x)]'`.

    The shell runs a substitution in a subscript even where it was quoted.
    """
    if name == "printf" and " -v" in source:
        return _QUOTED_SUBSTITUTION.search(source) is not None
    return name in _EVALUATING and _QUOTED_SUBSTITUTION.search(source) is not None


_EVALUATING = names(
    "let test [ [[ unset declare typeset export readonly local = read mapfile readarray wait getopts"
)
_QUOTED_SUBSTITUTION = re.compile(r"'[^']*(?:\$\(|`)|\\\$\(|\\`")
