"""Programs that reach other machines: ssh, scp, rsync, socat."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..invocations import Input, Run, Script, ScriptFile, Tool, as_path
from ..words import Word, plain
from .options import UnclearError, by_name, next_word, option_value, options, split
from .shells import from_input, through_shell

SSH_COMMANDS = re.compile(
    r"\s*(?:ProxyCommand|LocalCommand|PermitLocalCommand|KnownHostsCommand|RemoteCommand|PKCS11Provider|"
    r"SecurityKeyProvider|XAuthLocation|Match|Include|ProxyUseFdpass|SmartcardDevice)\b",
    re.IGNORECASE,
)
_SSH = options("46AaCfGgKkMNnqsTtVvXxYy", "BbcDEeFIiJLlmOoPpQRSWw", operands=1)


def _ssh(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """Runs on another machine, which count as if they were made here."""
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
        yield from through_shell(found)
    elif not found.given.keys() & {"N", "V", "G", "Q", "O"}:
        yield from from_input(words[0].text, stdin)


def _ssh_copy(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    yield from ()
    if words[0].text == "sftp" and isinstance(stdin, Word) and "!" in stdin.text:
        raise UnclearError("'sftp' may run what a line of its input says")
    for at, word in enumerate(words[1:], 1):
        value = word.text[2:] or next_word(words, at).text
        if word.text.startswith(("-S", "-D")) or (
            word.text.startswith("-o") and SSH_COMMANDS.match(value)
        ):
            raise UnclearError(f"an option of '{words[0].text}' names a program")


_RSYNC_SHELL = re.compile(
    r"ssh(?: -(?:p|i|l) ?[\w./~@:-]+| -[46CqvxTA]+| -o ?(?:StrictHostKeyChecking|UserKnownHostsFile|"
    r"ConnectTimeout|Port|IdentityFile|BatchMode|Compression|Ciphers|LogLevel|Port)[= ][\w./~-]+)*"
)


def _rsync(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for at, word in enumerate(words[1:], 1):
        name, equals, _ = word.text.partition("=")
        short = (
            re.fullmatch(r"-[a-zA-Z]*e(.*)", word.text, re.DOTALL)
            if not word.text.startswith("--")
            else None
        )
        if short or name in {"--rsh", "--rsync-path"}:
            program = plain(short[1]) if short and short[1] and not equals else option_value(words, at)
            if not (program.known and _RSYNC_SHELL.fullmatch(program.text)):
                yield Script(program)
                raise UnclearError(f"'{name}' of 'rsync' names a program")


def _socat(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for word in words[1:]:
        if found := re.match(r"(?i)(?:exec|system|shell):(.*)", word.text, re.DOTALL):
            yield Script(Word(found[1].strip("'\""), "", word.known))
            raise UnclearError(f"'{words[0].text}' runs a program for what connects")


REMOTE: Mapping[str, Tool] = by_name(
    {"ssh": _ssh, "scp sftp": _ssh_copy, "rsync": _rsync, "socat": _socat}
)
