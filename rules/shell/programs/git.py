"""Git: settings and options that name programs, and subcommands that run others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..invocations import CommandWords, Input, Run, SameCommand, Script, Tool
from ..words import Word, plain, texts
from .options import UnclearError, names, next_word, option_value

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
    """Return whether an option, which git also accepts abbreviated, names a program."""
    if option in _GIT_RUNNERS:
        return True
    short = option.startswith("--") and len(option) > 3 and option not in _GIT_LISTS
    return short and any(runner.startswith(option) for runner in _GIT_RUNNERS)


def _git(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """Skip the words between `git` and its command; settings that name programs are unclear."""
    at = 1
    reason: str | None = None
    while at < len(words) and words[at].text.startswith("-"):
        text = words[at].text
        name, equals, value = text.partition("=")
        if text in {"-c", "--config-env"}:
            setting = next_word(words, at)
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
        yield SameCommand((plain("git"), *words[at:]))
    if at < len(words):
        yield from _git_command(words, at)
    if reason:
        raise UnclearError(reason)


def _key(setting: Word) -> tuple[str, str]:
    key, _, value = setting.text.partition("=")
    return key, value


def _setting(key: str, value: str, is_known: bool) -> str | None:
    lower = key.lower()
    if lower in {"credential.helper", "core.pager"} or lower.startswith("pager."):
        if is_known and _GIT_HELPERS.fullmatch(value):
            return None
    elif _GIT_HARMLESS.fullmatch(key) and "::" not in value:
        return None
    return f"git's setting '{key}' may run a program"


def _git_command(words: Sequence[Word], at: int) -> Iterator[Run]:
    name, arguments = words[at].text, words[at + 1 :]
    if name in {"send-pack", "http-push"}:
        yield SameCommand((words[0], plain("push"), *arguments))
    elif name == "subtree" and arguments and arguments[0].text == "push":
        yield SameCommand((words[0], *arguments))
    word_texts = [word.text for word in arguments]
    if name == "config":
        plain_words = [word for word in arguments if not word.text.startswith("-")]
        if plain_words and plain_words[0].text == "set":
            plain_words = plain_words[1:]
        reads = any(text.startswith(("--get", "--unset", "--remove")) for text in word_texts)
        if len(plain_words) > 1 and not reads and plain_words[0].text not in {"get", "list", "unset"}:
            key, value = plain_words[:2]
            if reason := _setting(key.text, value.text, value.known):
                raise UnclearError(reason)
    elif name == "submodule" and "foreach" in word_texts:
        inner = [
            word
            for word in arguments[word_texts.index("foreach") + 1 :]
            if word.text not in {"--recursive", "--quiet", "-q"}
        ]
        yield Script(Word(texts(inner), "", all(word.known for word in inner)))
    elif name == "bisect" and word_texts[:1] == ["run"] and len(arguments) > 1:
        yield CommandWords(arguments[1:])
    elif name == "for-each-repo":
        raise UnclearError("what 'git for-each-repo' runs is not known")
    yield from _git_options(name, arguments)


_GIT_WITH_SETTINGS = names("clone init submodule fetch pull push")


def _git_options(name: str, words: Sequence[Word]) -> Iterator[Run]:
    """Options of the command `name` that run programs; those that only name one are unclear."""
    for position, word in enumerate(words):
        option, equals, value = word.text.partition("=")
        if option == "--":
            break
        if name == "rebase" and option in {"--exec", "-x"}:
            yield Script(option_value(words, position))
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
        elif name in _GIT_WITH_SETTINGS and option in {"-c", "--config", "--template"}:
            setting = plain(value) if equals and option != "-c" else next_word(words, position)
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
    normalized = (plain("git"), plain(name), *words[1:])
    yield SameCommand(normalized)
    yield from _git(normalized, stdin)


GIT: Mapping[str, Tool] = {"git": _git}
