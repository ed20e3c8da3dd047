"""Programs that run others by options of their own: git, make, tar, editors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ..environment import assigned, matters
from ..invocations import Also, Command, Input, Run, Script, ScriptFile, Tool, as_path
from ..words import Word, plain, texts
from .interpreters import INTERPRETERS, awk, language, sed
from .options import UnclearError, names, options, split

_GIT_FLAGS = names(
    """
    -p --paginate -P --no-pager --bare --no-replace-objects --literal-pathspecs --glob-pathspecs
    --noglob-pathspecs --icase-pathspecs --no-optional-locks --no-lazy-fetch --no-advice --exec-path
    --html-path --man-path --info-path --version --help -v -h
    """
)
_GIT_VALUES = frozenset(
    ["-C", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--attr-source", "--list-cmds"]
)
_GIT_HARMLESS = re.compile(
    r"(?:user|color|advice|safe|commit|push|pull|fetch|branch|tag|log|status|rebase|column|format|gc|pack|stash|"
    r"transfer|checkout|feature|index|maintenance|notes|rerere|receive|versionsort|blame|am|apply|clean|"
    r"i18n|worktree|extensions)\.[\w.-]+"
    r"|core\.(?:quotepath|autocrlf|eol|safecrlf|filemode|ignorecase|longpaths|abbrev|bare|compression|preloadindex|"
    r"symlinks|whitespace|excludesfile|untrackedcache|precomposeunicode|logallrefupdates|pager)"
    r"|diff\.(?:noprefix|mnemonicprefix|algorithm|renames|renamelimit|context|colormoved|wserrorhighlight|submodule)"
    r"|merge\.(?:ff|conflictstyle|renames|stat|log|renamelimit)|init\.defaultbranch|http\.(?:version|postbuffer|"
    r"sslverify|lowspeedlimit|lowspeedtime|extraheader)|protocol\.version|submodule\.recurse|remote\.\w+\.url"
    r"|a\.b|credential\.helper|pager\.\w+",
    re.IGNORECASE,
)
_GIT_HELPERS = re.compile(
    r"|cache|store|osxkeychain|manager|manager-core|libsecret|less(?: -\w+)*|cat|true|false"
)
_GIT_RUNNERS = names(
    """
    --upload-pack --receive-pack --exec --extcmd -x --open-files-in-pager --sendmail-cmd --to-cmd
    --cc-cmd --upload-archive --smtp-server --msg-filter --tree-filter --index-filter --env-filter
    --parent-filter --commit-filter --httpd --access-hook --browser --tag-name-filter --setup
    """
)


_GIT_LISTS = frozenset({"--to", "--cc", "--sen", "--htt"})


def _names_runner(option: str) -> bool:
    """Tell whether an option, which git takes by its first letters too, names a program."""
    if option in _GIT_RUNNERS:
        return True
    short = option.startswith("--") and len(option) > 3 and option not in _GIT_LISTS
    return short and any(runner.startswith(option) for runner in _GIT_RUNNERS)


def _git(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """Leave out the words between `git` and its command; settings that name programs are unclear."""
    at = 1
    reason: str | None = None
    while at < len(words) and words[at].text.startswith("-"):
        text = words[at].text
        name, equals, value = text.partition("=")
        if text in {"-c", "--config-env"}:
            setting = words[at + 1] if at + 1 < len(words) else plain("")
            reason = reason or _setting(*_key(setting), setting.known)
            at += 2
        elif text.startswith("-c") and not text.startswith("--"):
            reason = reason or _setting(*_key(plain(text[2:])), words[at].known)
            at += 1
        elif name == "--config-env":
            reason = reason or _setting(*_key(plain(value)), words[at].known)
            at += 1
        elif name == "--exec-path" and equals:
            reason = reason or "'--exec-path' names the programs that 'git' runs"
            at += 1
        elif text in _GIT_VALUES:
            at += 2
        elif text in _GIT_FLAGS or (equals and name in _GIT_VALUES):
            at += 1
        elif not words[at].known:
            break
        else:
            reason = reason or f"'{text}' is no option known of 'git'"
            at += 1
    if at > 1 and at < len(words):
        yield Also((plain("git"), *words[at:]))
    if at < len(words):
        yield from _git_command(words, at)
    if reason:
        raise UnclearError(reason)


def _key(setting: Word) -> tuple[str, str]:
    key, _, value = setting.text.partition("=")
    return key, value


def _setting(key: str, value: str, known: bool) -> str | None:
    lower = key.lower()
    if lower in {"credential.helper", "core.pager"} or lower.startswith("pager."):
        if known and _GIT_HELPERS.fullmatch(value):
            return None
    elif _GIT_HARMLESS.fullmatch(key) and "::" not in value:
        return None
    return f"git's setting '{key}' may run a program"


def _git_command(words: Sequence[Word], at: int) -> Iterator[Run]:
    name, rest = words[at].text, words[at + 1 :]
    if name in {"send-pack", "http-push"}:
        yield Also((words[0], plain("push"), *rest))
    elif name == "subtree" and rest and rest[0].text == "push":
        yield Also((words[0], *rest))
    said = [word.text for word in rest]
    if name == "config":
        plain_words = [word for word in rest if not word.text.startswith("-")]
        if plain_words and plain_words[0].text == "set":
            plain_words = plain_words[1:]
        reads = any(text.startswith(("--get", "--unset", "--remove")) for text in said)
        if len(plain_words) > 1 and not reads and plain_words[0].text not in {"get", "list", "unset"}:
            key, value = plain_words[:2]
            if reason := _setting(key.text, value.text, value.known):
                raise UnclearError(reason)
    elif name == "submodule" and "foreach" in said:
        inner = [
            word
            for word in rest[said.index("foreach") + 1 :]
            if word.text not in {"--recursive", "--quiet", "-q"}
        ]
        yield Script(Word(texts(inner), "", all(word.known for word in inner)))
    elif name == "bisect" and said[:1] == ["run"] and len(rest) > 1:
        yield Command(rest[1:])
    elif name == "for-each-repo":
        raise UnclearError("what 'git for-each-repo' runs is not known")
    for position, word in enumerate(rest):
        option, equals, value = word.text.partition("=")
        if option == "--":
            break
        if name == "rebase" and option in {"--exec", "-x"}:
            yield Script(
                Word(value, "", word.known)
                if equals
                else rest[position + 1]
                if position + 1 < len(rest)
                else plain("")
            )
        elif name == "rebase" and option.startswith("-x") and len(option) > 2:
            yield Script(Word(word.text[2:], "", word.known))
        elif _names_runner(option) and not (
            option == "-x" and name in {"clean", "cherry-pick", "fetch", "ls-files"}
        ):
            raise UnclearError(f"'{option}' of 'git {name}' names a program")
        elif name == "grep" and option.startswith("-O"):
            raise UnclearError("'-O' of 'git grep' names a program")
        elif (
            name in {"difftool", "ls-remote", "clone", "archive"} and option[:2] in {"-u", "-x"}
        ) or option.startswith("ext::"):
            raise UnclearError(f"'{option}' of 'git {name}' names a program")
        elif name in {"clone", "init", "submodule", "fetch", "pull", "push"} and option in {
            "-c",
            "--config",
            "--template",
        }:
            setting = (
                plain(value)
                if equals and option != "-c"
                else rest[position + 1]
                if position + 1 < len(rest)
                else plain("")
            )
            reason = (
                "'--template' names the hooks of a repository"
                if option == "--template"
                else _setting(*_key(setting), setting.known)
            )
            if reason:
                raise UnclearError(reason)


def git_program(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """`git-push` is `git push`."""
    name = words[0].text.rpartition("/")[2].removeprefix("git-")
    same = (plain("git"), plain(name), *words[1:])
    yield Also(same)
    yield from _git(same, stdin)


def _make(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """The makefile is a file like any other; what the command line adds to it is looked at."""
    rest = words[1:]
    for at, word in enumerate(rest):
        text = word.text
        option, equals, value = text.partition("=")
        following = rest[at + 1] if at + 1 < len(rest) else plain("")
        if option in {"--eval", "-E"} or (re.match(r"-[bBdehikLnpqrRsStvw]*E", text)):
            raise UnclearError("'make' runs the rules on its command line")
        if text in {"-f-", "--file=-", "--makefile=-", "-f/dev/stdin"} or (
            (text in {"-f", "--file", "--makefile"} or re.fullmatch(r"-[a-zA-Z]*f", text))
            and following.text in {"-", "/dev/stdin", "/dev/fd/0"}
        ):
            raise UnclearError("'make' runs the rules that it reads from its input")
        if text in {"-f", "--file", "--makefile"} and following.known:
            yield ScriptFile((as_path(following),))
        elif re.fullmatch(r"-f.+", text):
            yield ScriptFile((as_path(plain(text[2:])),))
        if text in {"-f", "--file", "--makefile"} and not following.known:
            raise UnclearError("'make' runs rules that are known only when it runs")
        if equals and re.fullmatch(r"[A-Za-z_.]\w*[:?+!]*", option):
            name = option.rstrip(":?+!")
            if name in {"SHELL", ".SHELLFLAGS", "MAKE"}:
                raise UnclearError(f"'{name}' is what 'make' runs its commands with")
            if "$(shell" in value or "!" in option[-1:]:
                raise UnclearError("a value given to 'make' runs a program")
            if " " in value and word.known and not value.startswith("-"):
                yield Script(Word(value, ""))
            elif "/" in value:
                yield Also((Word(value, "", word.known),))
            yield from assigned(name, Word(value, "", word.known))


_TAR_RUNNERS = re.compile(
    r"--(?:to-c\w*|che\w*-a\w*|checkpoint-action|use-c\w*|use-compress-program|info-s\w*|new-volume-s\w*|rsh-c\w*|"
    r"rmt-c\w*|to-command|info-script|new-volume-script|rsh-command|rmt-command)(?:=.*)?",
    re.DOTALL,
)
_TAR_COMPRESSORS = re.compile(
    r"(?:p?igz|gzip|p?bzip2|p?xz|zstd|lz4|lzma|zstdmt|pixz|unzstd)(?: -[\w=-]+)*"
)


def _tar(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for at, word in enumerate(words[1:], 1):
        text = word.text
        if text == "--":
            return
        value = words[at + 1].text if at + 1 < len(words) else ""
        program: str | None = None
        if _TAR_RUNNERS.fullmatch(text):
            name, equals, given = text.partition("=")
            if "che" in name[:5] and (given or value).split("=")[0] in {
                "dot",
                "echo",
                "bell",
                "totals",
                ".",
            }:
                continue
            program = given if equals else value
        elif re.fullmatch(r"-[A-HJ-Za-z]*I.*", text) or (
            at == 1 and re.fullmatch(r"[A-HJ-Za-z]*I[A-Za-z]*", text)
        ):
            program = text.partition("I")[2] or value
        elif re.fullmatch(r"-[A-Za-z]*F", text):
            program = value
        if program is not None and not _TAR_COMPRESSORS.fullmatch(program):
            yield Script(Word(program.partition("exec=")[2] or program, "", word.known))
            raise UnclearError(f"'{text.partition('=')[0]}' of 'tar' names a program")


_HARMLESS_PROGRAM = re.compile(r"(?:cat|less|more|gzip|bzip2|xz|zstd|bat|true)(?: -[\w-]+)*")


def _naming(program: str, letters: str, *longs: str) -> Tool:
    """A program of which these options name programs: unclear when one of them is given."""
    known = frozenset(longs)

    def tool(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
        for at, word in enumerate(words[1:], 1):
            text = word.text
            name, equals, value = text.partition("=")
            if text == "--":
                return
            following = words[at + 1] if at + 1 < len(words) else plain("")
            if name in known or (
                text.startswith("--") and len(name) > 4 and any(n.startswith(name) for n in known)
            ):
                given = Word(value, "", word.known) if equals else following
            elif text[:1] == "-" and text[:2] != "--" and any(letter in text[1:] for letter in letters):
                letter = next(letter for letter in text[1:] if letter in letters)
                rest = text[text.index(letter, 1) + 1 :]
                name, given = f"-{letter}", Word(rest, "", word.known) if rest else following
            else:
                continue
            if given.known and _HARMLESS_PROGRAM.fullmatch(given.text):
                continue
            yield Script(given)
            raise UnclearError(f"'{name}' of '{program}' names a program")

    return tool


def _refused(reason: str) -> Tool:
    def tool(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
        yield from ()
        raise UnclearError(f"'{words[0].text}' {reason}")

    return tool


_RSYNC_SHELL = re.compile(
    r"ssh(?: -(?:p|i|l) ?[\w./~@:-]+| -[46CqvxTA]+| -o ?(?:StrictHostKeyChecking|UserKnownHostsFile|"
    r"ConnectTimeout|Port|IdentityFile|BatchMode|Compression|Ciphers|LogLevel|Port)[= ][\w./~-]+)*"
)


def _rsync(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for at, word in enumerate(words[1:], 1):
        name, equals, value = word.text.partition("=")
        short = (
            re.fullmatch(r"-[a-zA-Z]*e(.*)", word.text, re.DOTALL)
            if not word.text.startswith("--")
            else None
        )
        if short or name in {"--rsh", "--rsync-path"}:
            following = words[at + 1] if at + 1 < len(words) else plain("")
            program = (
                Word(value, "", word.known)
                if equals
                else plain(short[1])
                if short and short[1]
                else following
            )
            if not (program.known and _RSYNC_SHELL.fullmatch(program.text)):
                yield Script(program)
                raise UnclearError(f"'{name}' of 'rsync' names a program")


_VIM_QUIET = re.compile(
    r"set (?:ff|fileformat|fenc|fileencoding|ft|filetype|ts|tabstop|sw|shiftwidth)=[\w-]+"
    r"|(?:q|wq|x|qa|qall|wqa|set \w+|%?s/[^|!&]*|\d+|normal \w+|syntax on|version)!?"
)


def _vim(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """Editors run commands of their own, `:!rm` among them."""
    yield from ()
    for at, word in enumerate(words[1:], 1):
        text = word.text
        following = words[at + 1] if at + 1 < len(words) else plain("")
        command: Word | None = None
        if text.startswith("+"):
            command = Word(text[1:], "", word.known)
        elif text == "--cmd" or re.fullmatch(r"-[a-zA-Z]*c", text):
            command = following
        elif (re.fullmatch(r"-[a-zA-Z]*[sS]", text) and "e" not in text) or text in {
            "-u",
            "-U",
            "-S",
            "-l",
            "-V1",
        }:
            raise UnclearError(f"'{words[0].text}' runs the commands of a file")
        elif re.fullmatch(r"-[a-zA-Z]*c.+", text):
            command = Word(text.partition("c")[2], "", word.known)
        if command is not None and not (
            command.known and (not command.text or _VIM_QUIET.fullmatch(command.text))
        ):
            raise UnclearError(f"'{words[0].text}' runs commands of its own")
    said = [word.text for word in words[1:]]
    silent = any(re.fullmatch(r"-[a-zA-Z]*[es][a-zA-Z]*", text) for text in said)
    given = any(re.fullmatch(r"-[a-zA-Z]*c.*|\+.+", text) for text in said)
    if not given and (silent or words[0].text.rpartition("/")[2] in {"ex", "ed", "red"}):
        raise UnclearError(f"'{words[0].text}' runs commands that it reads from its input")


_GDB_QUIET = re.compile(
    r"(?:bt|backtrace|where)(?: full)?|thread apply all bt(?: full)?|info \w+|quit|q|run|r"
    r"|set pagination off|set confirm off|list|frame \d+|set args [\w ./-]*"
)


def _gdb(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    said = [word.text for word in words]
    for mark in ("--args", "-args"):
        if mark in said and said.index(mark) + 1 < len(words):
            yield Command(words[said.index(mark) + 1 :])
    given = [words[at + 1] for at, text in enumerate(said[:-1]) if text in {"-ex", "--ex", "-iex"}]
    options = [word for word in given if word.text.startswith("set args ")]
    operands = [
        word
        for before, word in pairwise(words)
        if not word.text.startswith("-") and before.text not in {"-ex", "--ex", "-iex", "--args", "-args"}
    ]
    if operands and any(word.text in {"run", "r"} for word in given):
        arguments = [plain(text) for word in options for text in word.text.split()[2:]]
        yield Command((operands[0], *arguments))
    batch = "-batch" in said or "--batch" in said
    files = {"-x", "--command", "-ix", "-iex", "--init-command", "-o", "-s", "-O", "-S"} & {*said}
    if said[1:2] in (["--version"], ["-v"], ["--help"], ["-h"]) and len(said) == 2:
        return
    if not (
        batch and given and not files and all(g.known and _GDB_QUIET.fullmatch(g.text) for g in given)
    ):
        raise UnclearError(f"'{said[0]}' runs commands of its own")


def _crontab(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    yield from ()
    if [word.text for word in words[1:]] != ["-l"]:
        raise UnclearError("'crontab' takes commands for later")


def _compgen(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    yield from _callbacks(words, stdin)
    if any("$(" in word.text or "`" in word.text for word in words[1:]):
        raise UnclearError(f"'{words[0].text}' expands the words that it is given")


def _invoking(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """Package managers that run commands around an installation."""
    yield from ()
    if any(re.search(r"(?i)invoke|::.*(?:=|cmd|command)|^-Zx", word.text) for word in words[1:]):
        raise UnclearError(f"an option of '{words[0].text}' names a program")


def _mail(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    yield from ()
    if isinstance(stdin, Word) and "~" in stdin.text:
        raise UnclearError(f"'{words[0].text}' may run what a line of its input says")


def _sg(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """`sg GROUP COMMAND`."""
    rest = [word for word in words[1:] if word.text not in {"-c", "-"}]
    if len(rest) > 1:
        yield Script(rest[1])
    else:
        raise UnclearError("'sg' runs what it reads from its input")


def _script(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """`script -c TEXT`, and `script file` with a shell on the terminal."""
    for at, word in enumerate(words[1:], 1):
        text = word.text
        if text == "--":
            if at + 1 < len(words):
                yield Command(words[at + 1 :])
                return
        elif text.startswith("--command="):
            yield Script(Word(text.partition("=")[2], "", word.known))
            return
        elif text == "--command" or re.fullmatch(r"-[aefqr]*c", text):
            if at + 1 < len(words):
                yield Script(words[at + 1])
                return
        elif re.fullmatch(r"-[aefqr]*c.+", text):
            yield Script(Word(text.partition("c")[2], "", word.known))
            return
    raise UnclearError(f"'{words[0].text}' runs what it reads from its input")


def _run_parts(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    yield from ()
    if not any(word.text in {"--list", "--test"} for word in words):
        raise UnclearError(f"'{words[0].text}' runs the programs of a directory")


def _start_stop_daemon(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    said = [word.text for word in words]
    found = False
    for at, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if name in {"--exec", "--startas", "-x", "-a"}:
            program = (
                Word(value, "", word.known)
                if equals
                else words[at + 1]
                if at + 1 < len(words)
                else plain("")
            )
            following = words[said.index("--") + 1 :] if "--" in said else ()
            found = True
            yield Command((program, *following))
        elif re.fullmatch(r"-[SKbqvomtT]*[xa]", word.text) and at + 1 < len(words):
            found = True
            yield Command((words[at + 1],))
    if not found and not {"--stop", "-K", "--status", "-T"} & {*said}:
        raise UnclearError(f"what '{said[0]}' runs is not known")


_NPX = options(
    "yq",
    "pcwn",
    """
        yes no no-install quiet package= call= workspace= workspaces include-workspace-root
        ignore-existing prefer-offline
        """
    "prefer-online offline node-arg= shell= cache= userconfig= registry= prefix= silent",
)


def _npx(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    found = split(words, _NPX)
    text = found.given.get("c") or found.given.get("call")
    if text is not None:
        yield Script(text)
    elif found.rest:
        name = found.rest[0]
        bare = re.sub(r"(?<=.)@[^/]*$", "", name.text)
        yield Command((Word(bare, bare, name.known, name.single), *found.rest[1:]))


def _parallel(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """GNU parallel and moreutils': the words before `:::`, or lines of the input."""
    rest = words[1:]
    end = next(
        (at for at, word in enumerate(rest) if word.text.startswith(":::") or word.text == "--"), None
    )
    inner = [word for word in (rest if end is None else rest[:end]) if not word.text.startswith("-")]
    if inner:
        yield Script(Word(texts(inner) + ' "$@"', "", all(word.known for word in inner)))
    for word in rest[end + 1 :] if end is not None else ():
        yield Script(word)
    raise UnclearError(f"'{words[0].text}' runs what it reads from its input")


def _strings(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """`hyperfine 'make test'`: each word that is no option is a command line."""
    for word in words[1:]:
        if not word.text.startswith("-") and not re.fullmatch(r"[\d.:,]+", word.text):
            yield Script(word)


_TERMINAL_QUIET = names(
    """
    ls list-sessions list-windows lsw list-panes lsp has-session has -V -ls capture-pane capturep
    kill-session kill-server display-message info -list show-options list-keys -v kill-window
    kill-pane select-window attach attach-session detach
    """
)


def _terminal(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """tmux and screen start programs, and type into those that run."""
    rest = list(words[1:])
    while rest:
        end = next((at for at, word in enumerate(rest) if word.text in {";", "\\;"}), len(rest))
        part, rest = rest[:end], rest[end + 1 :]
        verb = next((word.text for word in part if not word.text.startswith("-")), "")
        if verb in _TERMINAL_QUIET or {word.text for word in part} & {"-ls", "-V", "-v", "-list"}:
            continue
        said = [word for word in part if re.search(r"[ /]", word.text) and not word.text.startswith("-")]
        for word in said:
            yield Script(word)
        typed = verb in {"send-keys", "send"} and part[-1].text in {"Enter", "C-m"} and len(said) == 1
        started = verb in {"new-session", "new", "new-window", "neww", "split-window", "splitw"}
        if not all(word.known for word in part) or not (
            typed or (started and _named_only(part, verb, said))
        ):
            raise UnclearError(f"'{words[0].text}' types commands or starts them")


def _named_only(part: Sequence[Word], verb: str, said: Sequence[Word]) -> bool:
    """Tell whether all words behind a verb are its options, their values, or one text that is read."""
    left = [word for word in part[[word.text for word in part].index(verb) + 1 :] if word not in said]
    option = False
    for word in left:
        if not word.text.startswith("-") and not option:
            return False
        option = word.text.startswith("-")
    return True


def _sqlite(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    yield from ()
    said = [word.text for word in words[1:]]
    texts_given = [*said, stdin.text if isinstance(stdin, Word) else ""]
    if any(
        re.search(
            r"(?m)^\s*\.(?!tables|schema|mode|headers?|quit|exit|dbinfo|indexes|indices|databases)|load_extension|"
            r"edit\s*\(|writefile",
            text,
        )
        for text in texts_given
    ) or any(text in {"-init", "--init"} for text in said):
        raise UnclearError(f"'{words[0].text}' may run programs by commands of its own")
    operands = [text for text in said if not text.startswith("-")]
    if stdin is None and len(operands) < 2 and not {"-version", "--version", "-help", "--help"} & {*said}:
        raise UnclearError(f"'{words[0].text}' runs what it reads from its input")


def _psql(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    yield from ()
    given = [*(word.text for word in words[1:]), stdin.text if isinstance(stdin, Word) else ""]
    if any(
        re.search(
            r"^--pager=|\\[!gowi|]|\bprogram\b|^\s*system\b|;\s*system\b|\\copy", text, re.IGNORECASE
        )
        for text in given
    ):
        raise UnclearError(f"'{words[0].text}' may run programs by commands of its own")


def _cmake(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    said = [word.text for word in words]
    if "-P" in said and {*said} & {"-", "/dev/stdin"}:
        raise UnclearError("'cmake' runs what it reads from its input")
    if "-E" in said:
        rest = words[said.index("-E") + 1 :]
        if rest and rest[0].text in {"env", "time"}:
            yield Command(
                [w for w in rest[1:] if "=" not in w.text and w.text != "--"] or [plain("true")]
            )
        elif rest and rest[0].text == "chdir":
            yield Command(rest[2:] or [plain("true")])
        elif rest:
            as_program = {
                "remove": "rm",
                "remove_directory": "rm -r",
                "copy": "cp",
                "rename": "mv",
                "rm": "rm",
            }
            yield Command((plain(as_program.get(rest[0].text, rest[0].text)), *rest[1:]))
    if any(
        text.startswith(("-DCMAKE_C_COMPILER_LAUNCHER", "-DCMAKE_CXX_COMPILER_LAUNCHER")) for text in said
    ):
        raise UnclearError("a setting of 'cmake' names a program")


def _hash(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for at, word in enumerate(words[1:], 1):
        if word.text == "-p" and at + 1 < len(words):
            yield Script(Word(f'{as_path(words[at + 1]).text} "$@"', "", words[at + 1].known))
        elif "=" in word.text:
            yield Script(Word(f'{word.text.partition("=")[2]} "$@"', "", word.known))


def _enable(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    yield from ()
    if any(re.match(r"-[a-z]*f", word.text) for word in words[1:]):
        raise UnclearError("'enable -f' loads a program")


_DECLARED = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=(.*)", re.DOTALL)


def _declare(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """Assignments by a builtin."""
    for word in words[1:]:
        if found := _DECLARED.fullmatch(word.text):
            yield from assigned(found[1], Word(found[2], "", word.known))
            if matters(found[2]):
                raise UnclearError(f"'{found[1]}' may stand for '{found[2]}'")
        elif not word.known:
            raise UnclearError(f"what '{words[0].text}' assigns is known only when it runs")


def _reads(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """`read`, `printf -v`, `getopts` and `mapfile` assign variables, too."""
    yield from ()
    name = words[0].text
    if name == "printf" and not any(word.text.startswith("-v") for word in words[1:3]):
        return
    for word in words[1:]:
        if matters(word.text.removeprefix("-v")) or (name == "printf" and word.text == "PATH"):
            raise UnclearError(f"'{name}' gives '{word.text}' a value")


def _callbacks(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    for option, value in pairwise(words):
        if option.text == "-C":
            yield Script(value)
        elif re.fullmatch(r"-C.+", option.text):
            yield Script(Word(option.text[2:], "", option.known))
    yield from _reads(words, stdin)


def _bind(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    yield from ()
    if any(re.match(r"-[a-z]*[xf]", word.text) for word in words[1:]):
        raise UnclearError(f"'{words[0].text}' binds keys to commands")


def _jobs(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """`jobs -x PROGRAM WORDS`."""
    if len(words) > 2 and words[1].text == "-x":
        yield Command(words[2:])


def _socat(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for word in words[1:]:
        if found := re.match(r"(?i)(?:exec|system|shell):(.*)", word.text, re.DOTALL):
            yield Script(Word(found[1].strip("'\""), "", word.known))
            raise UnclearError(f"'{words[0].text}' runs a program for what connects")


def _print(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    yield from ()
    if any(re.match(r"-[a-zA-Z]*[PzsS]", word.text) for word in words[1:]):
        raise UnclearError("'print' may run what it is given")


def _go(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for at, word in enumerate(words[1:], 1):
        name, equals, value = word.text.lstrip("-").partition("=")
        if word.text.startswith("-") and name in {"exec", "toolexec", "vettool"}:
            yield Script(
                Word(value, "", word.known)
                if equals
                else words[at + 1]
                if at + 1 < len(words)
                else plain("")
            )
            raise UnclearError(f"'-{name}' of 'go' names a program")


def _fzf(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    yield from ()
    if any(
        re.match(r"--(?:preview|bind|with-shell|become|execute)(?!-window)", word.text)
        for word in words[1:]
    ):
        raise UnclearError("'fzf' runs commands of its own")


def _dc(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    yield from ()
    given = " ".join([*(word.text for word in words[1:]), stdin.text if isinstance(stdin, Word) else ""])
    if "!" in given or (stdin is None and len(words) == 1):
        raise UnclearError("'dc' may run programs")


def _deno(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """`deno eval` and `bun -e` run a program, and `bun x` is `npx`."""
    said = [word.text for word in words[1:]]
    if said[:1] == ["x"]:
        yield from _npx(words[1:], stdin)
    elif said[:1] in (["eval"], ["repl"], ["-e"], ["-p"], ["--eval"], ["--print"], ["exec"]) or said[
        :2
    ] == ["run", "-"]:
        raise UnclearError(f"what the program given to '{words[0].text}' runs is not known")


def _ssh_copy(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    yield from ()
    if words[0].text == "sftp" and isinstance(stdin, Word) and "!" in stdin.text:
        raise UnclearError("'sftp' may run what a line of its input says")
    for at, word in enumerate(words[1:], 1):
        following = words[at + 1].text if at + 1 < len(words) else ""
        value = word.text[2:] or following
        if word.text.startswith("-S") or (word.text.startswith("-o") and SSH_COMMANDS.match(value)):
            raise UnclearError(f"an option of '{words[0].text}' names a program")
        if word.text.startswith("-D"):
            raise UnclearError(f"an option of '{words[0].text}' names a program")


SSH_COMMANDS = re.compile(
    r"\s*(?:ProxyCommand|LocalCommand|PermitLocalCommand|KnownHostsCommand|RemoteCommand|PKCS11Provider|"
    r"SecurityKeyProvider|XAuthLocation|Match|Include|ProxyUseFdpass|SmartcardDevice)\b",
    re.IGNORECASE,
)


def _busybox(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    rest = words[1:]
    if rest and not rest[0].text.startswith("-"):
        yield Command(rest)


def _settings(pattern: str, option: str = "") -> Tool:
    """A program of which words that match `pattern` name programs; `option` is one that takes a text."""
    naming = re.compile(pattern, re.DOTALL)

    def tool(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
        for at, word in enumerate(words[1:], 1):
            if found := naming.match(word.text):
                following = words[at + 1] if at + 1 < len(words) else plain("")
                value = word.text[found.end() :]
                yield Script(Word(value, "", word.known) if value else following)
                if not option:
                    raise UnclearError(f"'{found[0]}' of '{words[0].text}' names a program")

    return tool


def _ctest(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """`ctest --build-and-test … --test-command PROGRAM WORDS`."""
    said = [word.text for word in words]
    for option in ("--test-command", "--build-makeprogram"):
        if option in said[:-1]:
            yield Command(words[said.index(option) + 1 :])
    if {"-S", "-SP", "--script", "--script-new-process"} & {*said}:
        raise UnclearError("'ctest' runs the commands of a file")


def _ninja(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for at, word in enumerate(words[1:], 1):
        file = (
            plain(word.text[2:]) if len(word.text) > 2 else words[at + 1] if at + 1 < len(words) else None
        )
        if word.text.startswith("-f") and file is not None:
            if not file.known:
                raise UnclearError("'ninja' runs rules that are known only when it runs")
            yield ScriptFile((as_path(file),))


def _package(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """`npm pkg set scripts.test=TEXT` and `npm set-script test TEXT` say what is run later."""
    said = [word.text for word in words[1:]]
    if "set-script" in said or ("pkg" in said and "set" in said):
        for word in words[2:]:
            name, equals, value = word.text.partition("=")
            if equals and name.startswith("scripts"):
                yield Script(Word(value, "", word.known))
            elif " " in word.text and not equals:
                yield Script(word)
            elif not word.known:
                raise UnclearError(f"the script that '{words[0].text}' sets is known only when it runs")
    if any(re.match(r"--(?:script-shell|shell|node-options|git|editor|viewer)\b", text) for text in said):
        raise UnclearError(f"an option of '{words[0].text}' names a program")


def _cmd(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """`cmd.exe /c TEXT`."""
    for at, word in enumerate(words[1:], 1):
        if word.text.lower() in {"/c", "/k", "/s", "//c"} and at + 1 < len(words):
            yield Script(Word(texts(words[at + 1 :]), "", all(w.known for w in words[at + 1 :])))
            return
    if len(words) == 1:
        raise UnclearError(f"'{words[0].text}' runs what it reads from its input")


def _zip(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for at, word in enumerate(words[1:], 1):
        if re.match(r"-[a-zA-Z]*TT|--unzip-command", word.text):
            if at + 1 < len(words):
                yield Script(words[at + 1])
            raise UnclearError("'-TT' of 'zip' names a program")


TOOLS: Mapping[str, Tool] = {
    **INTERPRETERS,
    **dict[str, Tool].fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), awk),
    **dict[str, Tool].fromkeys(("sed", "gsed"), sed),
    **dict[str, Tool].fromkeys(("tar", "gtar", "bsdtar"), _tar),
    **dict[str, Tool].fromkeys(("make", "gmake"), _make),
    **dict[str, Tool].fromkeys(
        names(
            """
            vim vi view nvim ex ed red vimdiff rvim
            """
        ),
        _vim,
    ),
    **dict[str, Tool].fromkeys(("gdb", "lldb"), _gdb),
    **dict[str, Tool].fromkeys(
        (
            "npx",
            "bunx",
            "pnpx",
            "uvx",
        ),
        _npx,
    ),
    **dict[str, Tool].fromkeys(("parallel", "rush"), _parallel),
    **dict[str, Tool].fromkeys(
        ("mispipe", "hyperfine", "concurrently", "npm-run-all", "multitime"), _strings
    ),
    **dict[str, Tool].fromkeys(("tmux", "screen", "byobu", "abduco", "dtach", "zellij"), _terminal),
    **dict[str, Tool].fromkeys(("psql", "mysql", "mariadb", "mycli", "pgcli", "duckdb"), _psql),
    **dict[str, Tool].fromkeys(("sqlite3", "sqlite"), _sqlite),
    **dict[str, Tool].fromkeys(
        ("export", "declare", "typeset", "readonly", "local", "private", "integer"), _declare
    ),
    **dict[str, Tool].fromkeys(("read", "getopts", "vared", "printf"), _reads),
    **dict[str, Tool].fromkeys(("mapfile", "readarray"), _callbacks),
    **dict[str, Tool].fromkeys(("complete", "compgen"), _compgen),
    **dict[str, Tool].fromkeys(("apt", "apt-get", "aptitude", "dpkg", "dpkg-deb"), _invoking),
    **dict[str, Tool].fromkeys(("bind", "bindkey"), _bind),
    **dict[str, Tool].fromkeys(("deno", "bun"), _deno),
    **dict[str, Tool].fromkeys(("scp", "sftp"), _ssh_copy),
    **dict[str, Tool].fromkeys(
        ("nc", "ncat", "netcat"), _naming("nc", "ec", "--exec", "--sh-exec", "--lua-exec")
    ),
    **dict[str, Tool].fromkeys(
        names(
            """
            emulate setopt unsetopt zmodload autoload zle sched fc zargs zmv zstyle zparseopts
            zcompile compdef zselect zpty zsystem ztcp foreach
            """
        ),
        _refused("is a builtin of zsh that may run what it is given"),
    ),
    **dict[str, Tool].fromkeys(
        names(
            """
            m4 expect osascript Rscript R julia elixir groovy scala pwsh powershell guile sbcl emacs
            octave ghci irb clojure clj bb janet racket wish gnuplot jshell ipython swipl ocaml erl
            iex escript cscript tcc gjs qjs csi dotnet-script maxima gp sage busted newlisp picolisp
            ipython3 bpython xonsh nu elvish csh tcsh rc es scsh ion
            """
        ),
        language,
    ),
    **dict[str, Tool].fromkeys(
        names(
            """
            visudo vipw vigr newgrp login telnet ftp lftp tftp rlogin
            """
        ),
        _refused("runs commands that are not given here"),
    ),
    "git": _git,
    "crontab": _crontab,
    "sg": _sg,
    "prove": _naming("prove", "e", "--exec"),
    "rake": _naming("rake", "epE", "--execute", "--execute-print", "--execute-continue"),
    "execlineb": _naming("execlineb", "c"),
    "groff": _naming("groff", "U"),
    "troff": _naming("troff", "U"),
    "nroff": _naming("nroff", "U"),
    "pic": _naming("pic", "U"),
    "mutt": _naming("mutt", "e"),
    "w3m": _naming("w3m", "o"),
    "lynx": _naming("lynx", "", "-editor"),
    "debugfs": _naming("debugfs", "R"),
    "mongosh": _naming("mongosh", "", "--eval"),
    "mongo": _naming("mongo", "", "--eval"),
    "cpio": _naming("cpio", "", "--rsh-command"),
    "install": _naming("install", "", "--strip-program"),
    "mail": _mail,
    "mailx": _mail,
    "nix-shell": _naming("nix-shell", "", "--run", "--command"),
    "nano": _naming("nano", "s", "--speller"),
    "ghc": _naming("ghc", "eF", "--interactive"),
    "jrunscript": _naming("jrunscript", "e"),
    "swift": _naming("swift", "e"),
    "emacsclient": _naming("emacsclient", "e", "--eval"),
    "dpkg-architecture": _naming("dpkg-architecture", "c", "--command"),
    "dpkg-buildpackage": _naming(
        "dpkg-buildpackage", "rp", "--root-command", "--sign-command", "--check-command"
    ),
    "ssh-keygen": _naming("ssh-keygen", "Dw"),
    "busctl": _naming("busctl", "", "call"),
    "rsync": _rsync,
    "script": _script,
    "run-parts": _run_parts,
    "start-stop-daemon": _start_stop_daemon,
    "cmake": _cmake,
    "hash": _hash,
    "jobs": _jobs,
    "enable": _enable,
    "socat": _socat,
    "print": _print,
    "go": _go,
    "fzf": _fzf,
    "dc": _dc,
    "busybox": _busybox,
    "toybox": _busybox,
    "zip": _zip,
    "ctest": _ctest,
    "ninja": _ninja,
    **dict[str, Tool].fromkeys(("npm", "pnpm", "yarn"), _package),
    **dict[str, Tool].fromkeys(("cmd", "cmd.exe"), _cmd),
    "java": _settings(r"-XX:On\w+=|-agentpath:|-agentlib:(?!jdwp)|-javaagent:"),
    "cargo": _settings(
        r"(?:--config=?)?.*(?:wrapper|runner|linker|credential-provider|rustc|alias)\w*\"? ?="
    ),
    "mvn": _settings(r"-D(?:exec\.(?:executable|args|arguments)|jvm|java\.home)=|exec:"),
    "aws": _settings(r"(?:--parameters=?)?\W*commands\W*[=:]|--user-data"),
    **dict[str, Tool].fromkeys(
        ("postgres", "pg_ctl", "postmaster"),
        _settings(r"(?:.*-c ?)?\w*(?:_command|_library|_libraries)\s*=|-o"),
    ),
    "gcloud": _settings(r"--command=", "text"),
    "sort": _naming("sort", "", "--compress-program"),
    "split": _naming("split", "", "--filter"),
    "wget": _naming("wget", "", "--use-askpass"),
    "rg": _naming("rg", "", "--pre", "--hostname-bin"),
    "ag": _naming("ag", "", "--pager"),
    "bat": _naming("bat", "", "--pager"),
    "man": _naming("man", "PH", "--pager", "--html", "--preprocessor-cmd"),
    "tcpdump": _naming("tcpdump", "z"),
    "gcc": _naming("gcc", "", "-wrapper"),
    "less": _naming("less", "k", "--lesskey-file", "--lesskey-content"),
    "openssl": _naming("openssl", "", "-engine", "-provider", "-provider-path"),
    "logrotate": _refused("runs the commands of a file"),
    "xterm": _naming("xterm", "e"),
}
"""Programs that run others in ways of their own, by name."""

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
    """Tell whether a command of plain words is of a form that is often written and runs nothing else."""
    form = _RUNS_NO_OTHER.get(name)
    return form is not None and form.fullmatch(text) is not None
