"""Variables that make a program run another one, and what assigning them runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .invocations import Run, Script
from .programs.options import UnclearError, names
from .words import Word

COMMANDS = names(
    """
    PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER BAT_PAGER PSQL_PAGER AWS_PAGER GH_PAGER DELTA_PAGER
    EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR FCEDIT SUDO_EDITOR KUBE_EDITOR SVN_EDITOR HGEDITOR
    SYSTEMD_EDITOR PSQL_EDITOR CSCOPE_EDITOR BROWSER GH_EDITOR GH_BROWSER CRONTAB_EDITOR
    """
)
"""Variables that hold a command line."""

LOADERS = re.compile(
    r"BASH_ENV|LD_[A-Z_]+|DYLD_\w+|SHELLOPTS|BASHOPTS|BASH_FUNC_.*|BASH_LOADABLES_PATH|BASH_ALIASES|BASH_CMDS"
    r"|GIT_(?:SSH|SSH_COMMAND|SSH_VARIANT|EXTERNAL_DIFF|ASKPASS|PROXY_COMMAND|EXEC_PATH|TEMPLATE_DIR|SSL_HELPER"
    r"|CONFIG|CONFIG_(?!NOSYSTEM)\w+|DIFFTOOL\w*|MERGETOOL\w*|TRACE2_\w*HOOK)"
    r"|SSH_ASKPASS|SUDO_ASKPASS|LESSOPEN|LESSCLOSE|LESSKEYIN|LESSKEY\w*|PERL5OPT|PERL5DB|PERL5LIB|PERLLIB"
    r"|PYTHONSTARTUP|PYTHONINSPECT|PYTHONBREAKPOINT|PYTHONHOME|PYTHONUSERBASE|RUBYOPT|RUBYLIB|RUBYSHELL"
    r"|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|TAR_OPTIONS|MAKEFILES|RSYNC_RSH|RSYNC_PROXY"
    r"|RSYNC_CONNECT_PROG|CVS_RSH|CVSEDITOR|SVN_SSH|HGRCPATH|HGMERGE|MANOPT|MANROFFOPT|NULLCMD|READNULLCMD|ZDOTDIR|FPATH"
    r"|fpath|aliases|galiases|saliases|dis_aliases|commands|functions|GCONV_PATH|NODE_REPL_EXTERNAL_MODULE"
    r"|OPENSSL_CONF|OPENSSL_ENGINES|VIMINIT|EXINIT|VIMRUNTIME|MYVIMRC|INPUTRC|RUSTC_WRAPPER"
    r"|RUSTC_WORKSPACE_WRAPPER|RUSTC|RUSTDOC|CARGO_TARGET_\w+_(?:RUNNER|LINKER)|CARGO_BUILD_RUSTC\w*"
    r"|npm_config_(?:script_shell|node_options|shell|git|editor|viewer)|NPM_CONFIG_SCRIPT_SHELL|SHELL|ZIPOPT"
    r"|UNZIP|FZF_DEFAULT_(?:COMMAND|OPTS)|FZF_\w+_COMMAND|RIPGREP_CONFIG_PATH|TEXMFCNF|LUA_INIT\w*"
    r"|PROMPT_COMMAND|EMACSLOADPATH|PHPRC|PHP_INI_SCAN_DIR"
    r"|ERL_FLAGS|ELIXIR_ERL_OPTIONS|R_PROFILE\w*|R_ENVIRON\w*|JULIA_LOAD_PATH"
)
"""Variables that make programs load or run something, in ways that are not analysed."""

_TOOLCHAIN = names("CC CXX CPP LD AR AS FC CMD")
"""Variables whose values makefiles run."""
_VIEWERS = re.compile(
    r"(?:cat|less|more|most|true|false|:|tee|head|bat|delta|vim?|nvim|nano|emacs|code|hx)(?: -[\w=-]+)*"
)
_SHOWN = re.compile(r"PS[0-4]|PROMPT|RPROMPT|RPS1|SPROMPT|PROMPT[234]|POSTEDIT")
_EXPANDS = re.compile(r"[(`\[]|@P")
_SHELL_FILE = re.compile(r"[\w-]*")
_OPTIONS_OF_NODE = re.compile(
    r"--(?:max-old-space-size|max_old_space_size|no-warnings|no-deprecation|"
    r"unhandled-rejections|openssl-legacy-provider|enable-source-maps|trace-warnings|"
    r"experimental-vm-modules|inspect)(?:=[\w.:-]*)?"
)
_MAKE_FLAGS = re.compile(
    r"(?:-?[jksBin]?\d*|--(?:no-print-directory|silent|jobs=\d+|output-sync=\w+)|\$.*)"
)


def assigned(name: str, value: Word) -> Iterator[Run]:
    """Runs by other programs because a variable has this value. Raises `UnclearError`."""
    text = value.text
    if not text and value.known:
        return
    if text == "/dev/null" and value.known:
        return
    if name in _TOOLCHAIN:
        yield Script(value)
        return
    if name in COMMANDS:
        yield Script(value)
        if not (value.known and _VIEWERS.fullmatch(text)):
            raise UnclearError(f"'{name}' names a program that others run")
    elif name == "ENV":
        if not (value.known and _SHELL_FILE.fullmatch(text)):
            raise UnclearError("'ENV' names a file that shells run")
    elif _SHOWN.fullmatch(name):
        if not value.known or _EXPANDS.search(text):
            raise UnclearError(f"'{name}' holds commands that a shell runs when it shows it")
    elif name == "NODE_OPTIONS":
        if not (value.known and all(_OPTIONS_OF_NODE.fullmatch(part) for part in text.split())):
            raise UnclearError("'NODE_OPTIONS' may load a program")
    elif name in {"MAKEFLAGS", "GNUMAKEFLAGS", "MFLAGS"}:
        if not all(_MAKE_FLAGS.fullmatch(part) for part in text.split()):
            raise UnclearError(f"'{name}' may hold commands")
    elif LOADERS.fullmatch(name):
        raise UnclearError(f"'{name}' makes programs run what it names")


def matters(name: str) -> bool:
    """Return whether a variable can make other programs run something."""
    return (
        name in COMMANDS
        or name in _TOOLCHAIN
        or name in {"ENV", "NODE_OPTIONS", "MAKEFLAGS", "GNUMAKEFLAGS", "MFLAGS"}
        or _SHOWN.fullmatch(name) is not None
        or LOADERS.fullmatch(name) is not None
    )
