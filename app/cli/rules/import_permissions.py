"""`interlock rules import`: initial rules from the permissions of another program."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ...config.arguments import BAD_INPUT, refuse
from ..options import Parts, add_command, add_switch

COMMAND = "rules import"


def configure(parts: Parts) -> None:
    """Add the subcommand and its options."""
    parser = add_command(
        parts,
        "import",
        "write initial rules from your existing permissions, and list what could not "
        "be converted; exits with 0, or 2 for an error",
    )
    parser.add_argument(
        "source",
        choices=["claude-settings", "codex"],
        help="claude-settings: .claude/settings.json; codex: config.toml and its *.rules",
    )
    parser.add_argument("permissions", metavar="FILE", nargs="+", help="permission files")
    parser.add_argument(
        "-o", "--out", metavar="FILE", help="write the rules to this file (default: print them)"
    )
    add_switch(parser, "--force", "replace the file if there is one")


def run(args: argparse.Namespace) -> int:
    """Print or write the rules, and report the number of entries. Returns 0, or 2 for an error."""
    from ....rules import RuleError, compile_rules
    from ....rules.imports.claude_settings import from_claude_settings
    from ....rules.imports.codex import from_codex
    from ....rules.imports.draft import PermissionsError

    read = from_claude_settings if args.source == "claude-settings" else from_codex
    try:
        draft = read([(name, Path(name).read_text("utf-8")) for name in args.permissions])
        text = draft.text(os.path.basename(name) for name in args.permissions)
        if draft.carried:
            compile_rules(text, file=args.out or "<rules>")
        if args.out is None:
            print(text, end="")
        else:
            with open(args.out, "w" if args.force else "x", encoding="utf-8") as file:
                file.write(text)
    except FileExistsError:
        return refuse(COMMAND, f"'{args.out}' is there already; --force replaces it", BAD_INPUT)
    except UnicodeDecodeError as error:
        return refuse(COMMAND, f"a file is not UTF-8 text: {error}", BAD_INPUT)
    except (OSError, PermissionsError, RuleError) as error:
        return refuse(COMMAND, error, BAD_INPUT)
    skipped = len(draft.skipped)
    print(
        f"{draft.carried:,} of the entries carried over, {skipped:,} not, or only in part"
        f"{': see the end of the rules' if skipped else ''}.",
        file=sys.stderr,
    )
    return 0
