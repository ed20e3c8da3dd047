"""Pages that are made from the code: commands, options, keys, ready-made rules and Python names."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.app.config.arguments import CommandParser

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = "reference/library.md"
"""The page of the ready-made rules."""
PACKAGES = ("engine", "engine.flows", "engine.gateway", "rules")
"""The packages whose public names are documented, one page each."""
AUTHORS = "interlock.engine"
"""The package for authors: a name that another one has as well is described there alone."""


def made() -> Iterator[tuple[str, str]]:
    """The pages, each with its path in docs/ and its text."""
    yield "reference/cli.md", _commands()
    yield "reference/options.md", _options()
    yield "reference/keys.md", _keys()
    yield LIBRARY, _library()
    for package in PACKAGES:
        yield f"reference/api/{package.replace('.', '-')}.md", _names(f"interlock.{package}")


def _parser() -> CommandParser:
    from interlock.app.cli.main import parser

    return parser()


def _commands() -> str:
    """Every command with its arguments and options."""
    top = _parser()
    parts = [
        "# Command line",
        f"{top.description} This page is made from the command's own parsers.",
        "An option is also a setting: see [Options as settings](options.md). "
        "Exit codes are 0 for done, 1 for work that failed and 2 for wrong input; of a console also 129 "
        "when its terminal is gone (SIGHUP) and 143 when it is told to end (SIGTERM): its sessions are "
        "ended in order before. `interlock explain` ends with 0 for a call that is allowed, 3 for one "
        "that needs approval and 4 for one that is blocked.",
    ]
    for command in _all_commands(top):
        parts += [f"{'#' * len(command.prog.split())} `{command.prog}`", command.description or ""]
        parts.append(f"```text\n{_usage(command)}\n```")
        arguments = [action for action in command._actions if _is_shown(action)]
        if arguments:
            rows = [f"| {_written(a)} | {_cell(_help(command, a))} |" for a in arguments]
            parts.append("\n".join(["| argument | meaning |", "| --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"


def _all_commands(top: CommandParser) -> Iterator[CommandParser]:
    """The commands, each followed by its parts."""
    for command in top.commands.values():
        yield command
        yield from _all_commands(command)


def _is_shown(action: argparse.Action) -> bool:
    hidden = action.help is argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction)
    return not hidden and action.dest != "help"


def _usage(command: argparse.ArgumentParser) -> str:
    formatter = argparse.HelpFormatter(command.prog, width=100)
    groups = command._mutually_exclusive_groups
    formatter.add_usage(command.usage, command._actions, groups, prefix="")
    return formatter.format_help().strip()


def _written(action: argparse.Action) -> str:
    """An argument as it is written on the line."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    value = str(action.metavar or choices)
    if not action.option_strings:
        return f"`{_bar(value or action.dest)}`"
    takes = f" {value}" if value and action.nargs != 0 else ""
    return ", ".join(f"`{_bar(option + takes)}`" for option in action.option_strings)


def _help(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    return command._get_formatter()._expand_help(action) if action.help else ""


def _cell(text: str) -> str:
    """A text as it is, in a cell of a table."""
    return _bar(text).replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def _bar(text: str) -> str:
    return text.replace("|", "\\|")


def _options() -> str:
    """Every option as a setting: its names, and the commands that have it."""
    from interlock.app.config.loader import option_names

    rows: dict[tuple[str, str], dict[str, None]] = {}
    for command in _all_commands(_parser()):
        for action in command.options:
            if _is_shown(action):
                keys = option_names(action)
                option = next((o for o in action.option_strings if o.startswith("--")), "")
                row = rows.setdefault((option, ", ".join(f"`{key}`" for key in keys)), {})
                row[command.prog.removeprefix("interlock ")] = None
    lines = [
        f"| `{option}` | {keys} | {', '.join(f'`{each}`' for each in commands)} |"
        for (option, keys), commands in sorted(rows.items())
    ]
    return "\n".join(
        [
            "# Options as settings",
            "",
            "Each option is a key of `interlock.toml`, at the top or in a table with its command's name, "
            "and an environment variable: `INTERLOCK_` and the key in capitals. [Settings](settings.md) "
            "says which file counts and what a working directory's may say.",
            "",
            "| option | key | commands |",
            "| --- | --- | --- |",
            *lines,
            "",
        ]
    )


def _keys() -> str:
    """Every action that has a key: its name in `[keys]`, the usual keys, and what it does."""
    from interlock.app.terminal.keymap import bindings_of, display_key
    from interlock.app.terminal.keymap_check import classes_with_keys

    rows: dict[str, tuple[list[str], str]] = {}
    for owner in classes_with_keys():
        for binding in bindings_of(owner):
            if binding.id:
                keys, _ = rows.setdefault(binding.id, ([], binding.tooltip or binding.description))
                for key in binding.key.split(","):
                    shown = display_key(key, binding.key_display)
                    if shown not in keys:
                        keys.append(shown)
    lines = [
        f"| `{name}` | {' '.join(f'`{_bar(key)}`' for key in keys)} | {_cell(does)} |"
        for name, (keys, does) in sorted(rows.items())
    ]
    return "\n".join(
        [
            "# Keys",
            "",
            "Every action that a key does in the console, by the name that `[keys]` in "
            "[`interlock.toml`](settings.md#keys) gives other keys to. In the console `?` lists those of "
            "the screen.",
            "",
            "| action | keys | what it does |",
            "| --- | --- | --- |",
            *lines,
            "",
        ]
    )


def with_keys(text: str) -> str:
    """A page with the keys of each table of settings that it names."""
    return _KEYS_OF.sub(lambda named: _table_keys(named[1]), text)


_KEYS_OF = re.compile(r"<!-- keys of \[(\w+)\] -->")


def _table_keys(table: str) -> str:
    """The keys of a table of settings."""
    from interlock.app.config.approvals import ApprovalSettings
    from interlock.app.config.gateway import GatewayTable
    from interlock.app.config.hooks import HookSettings
    from interlock.app.config.loader import declared_keys
    from interlock.app.config.notifications import AttentionSettings, NotifySettings
    from interlock.app.config.oidc import OidcSettings
    from interlock.app.config.operators import OperatorSettings
    from interlock.app.hosting.audit.settings import AuditSettings

    declarations = {
        "approvals": ApprovalSettings,
        "attention": AttentionSettings,
        "audit": AuditSettings,
        "gateway": GatewayTable,
        "hook": HookSettings,
        "notify": NotifySettings,
        "oidc": OidcSettings,
        "operators": OperatorSettings,
    }
    rows = [
        f"| `{name}` | {_bar(key.meaning)} | {key.project or 'no'} |"
        for name, key in declared_keys(declarations[table]).items()
    ]
    head = ["| key | value | in a working directory's file |", "| --- | --- | --- |"]
    return "\n".join([*head, *rows])


def _library() -> str:
    """The ready-made rule files, and what their scenarios test."""
    parts = [
        "# Ready-made rules",
        "Files to copy and start from, in `rules/library`. Each has scenarios beside it, which "
        "`interlock test` runs.",
    ]
    for path in sorted((ROOT / "rules" / "library").glob("*.rules")):
        if not path.stem.endswith("_test"):
            tests = path.with_name(f"{path.stem}_test.rules")
            parts += [f"## {path.name}", f"```text\n{path.read_text(encoding='utf-8').rstrip()}\n```"]
            scenarios = re.findall(r'^scenario "(.*)"', tests.read_text(encoding="utf-8"), re.MULTILINE)
            parts.append(f"`{tests.name}` tests: " + "; ".join(map(_cell, scenarios)) + ".")
    return "\n\n".join(parts) + "\n"


def _names(package: str) -> str:
    """The public names of a package, each described by its docstring."""
    module = importlib.import_module(package)
    summary = (module.__doc__ or "").split("\n\n")[0]
    parts = [f"# {package}", summary]
    own = (n for n, value in vars(module).items() if n[0] != "_" and not inspect.ismodule(value))
    elsewhere: list[str] = []
    for name in getattr(module, "__all__", sorted(own)):
        identifier = _identifier(package, name, getattr(module, name))
        if package != AUTHORS and getattr(importlib.import_module(AUTHORS), name, None) is getattr(
            module, name
        ):
            elsewhere.append(f"[{name}](engine.md#{identifier})")
        else:
            parts.append(f"::: {identifier}")
    if elsewhere:
        parts.insert(2, f"Also here, and described with `{AUTHORS}`: {', '.join(elsewhere)}.")
    return "\n\n".join(parts) + "\n"


def _identifier(package: str, name: str, value: object) -> str:
    """The dotted path of a public name: where it is defined, since a module may have the same name."""
    home, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    return f"{home}.{name}" if home and qualified == name else f"{package}.{name}"
