"""Programs with options or words that name other programs: tar, zip, sort, man, java."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..invocations import Input, Run, Script, Tool
from ..words import Word
from .options import UnclearError, by_name, names, names_program, next_word, refused, settings

_TAR_RUNNERS = re.compile(
    r"--(?:to-c\w*|che\w*-a\w*|checkpoint-action|use-c\w*|use-compress-program|info-s\w*|new-volume-s\w*|rsh-c\w*|"
    r"rmt-c\w*|to-command|info-script|new-volume-script|rsh-command|rmt-command)(?:=.*)?",
    re.DOTALL,
)
_TAR_COMPRESSORS = re.compile(
    r"(?:p?igz|gzip|p?bzip2|p?xz|zstd|lz4|lzma|zstdmt|pixz|unzstd)(?: -[\w=-]+)*"
)

_TAR_QUIET = names("dot echo bell totals .")


def _tar(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for at, word in enumerate(words[1:], 1):
        text = word.text
        if text == "--":
            return
        value = next_word(words, at).text
        program: str | None = None
        if _TAR_RUNNERS.fullmatch(text):
            name, equals, given = text.partition("=")
            if "che" in name[:5] and (given or value).split("=")[0] in _TAR_QUIET:
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


def _zip(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for at, word in enumerate(words[1:], 1):
        if re.match(r"-[a-zA-Z]*TT|--unzip-command", word.text):
            if at + 1 < len(words):
                yield Script(words[at + 1])
            raise UnclearError("'-TT' of 'zip' names a program")


_NAMING: Mapping[str, tuple[str, str]] = by_name(
    {
        "prove": ("e", "--exec"),
        "rake": ("epE", "--execute --execute-print --execute-continue"),
        "execlineb": ("c", ""),
        "groff troff nroff pic": ("U", ""),
        "mutt jrunscript swift xterm": ("e", ""),
        "w3m": ("o", ""),
        "lynx": ("", "-editor"),
        "debugfs": ("R", ""),
        "mongosh mongo": ("", "--eval"),
        "cpio": ("", "--rsh-command"),
        "install": ("", "--strip-program"),
        "nix-shell": ("", "--run --command"),
        "nano": ("s", "--speller"),
        "ghc": ("eF", "--interactive"),
        "emacsclient": ("e", "--eval"),
        "dpkg-architecture": ("c", "--command"),
        "dpkg-buildpackage": ("rp", "--root-command --sign-command --check-command"),
        "ssh-keygen": ("Dw", ""),
        "busctl": ("", "call"),
        "sort": ("", "--compress-program"),
        "split": ("", "--filter"),
        "wget": ("", "--use-askpass"),
        "rg": ("", "--pre --hostname-bin"),
        "ag bat": ("", "--pager"),
        "man": ("PH", "--pager --html --preprocessor-cmd"),
        "tcpdump": ("z", ""),
        "gcc": ("", "-wrapper"),
        "less": ("k", "--lesskey-file --lesskey-content"),
        "openssl": ("", "-engine -provider -provider-path"),
    }
)
"""Programs with options that name programs: their letters and their long names."""

OPTION_PROGRAMS: Mapping[str, Tool] = {
    **by_name(
        {
            "tar gtar bsdtar": _tar,
            "zip": _zip,
            "java": settings(r"-XX:On\w+=|-agentpath:|-agentlib:(?!jdwp)|-javaagent:"),
            "cargo": settings(
                r"(?:--config=?)?.*(?:wrapper|runner|linker|credential-provider|rustc|alias)\w*\"? ?="
            ),
            "mvn": settings(r"-D(?:exec\.(?:executable|args|arguments)|jvm|java\.home)=|exec:"),
            "aws": settings(r"(?:--parameters=?)?\W*commands\W*[=:]|--user-data"),
            "postgres pg_ctl postmaster": settings(
                r"(?:.*-c ?)?\w*(?:_command|_library|_libraries)\s*=|-o"
            ),
            "gcloud": settings(r"--command=", "text"),
            "logrotate": refused("runs the commands of a file"),
            "visudo vipw vigr newgrp login telnet ftp lftp tftp rlogin": refused(
                "runs commands that are not given here"
            ),
        }
    ),
    **by_name({"nc ncat netcat": names_program("nc", "ec", "--exec", "--sh-exec", "--lua-exec")}),
    **{
        program: names_program(program, letters, *longs.split())
        for program, (letters, longs) in _NAMING.items()
    },
}
