"""Name of an operator: shown above the screens and recorded with every decision."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def operator_name(text: str) -> str:
    """A name as it is recorded: one line without deceptive characters or surrounding blanks.

    Names that look alike are one: two people who must approve are distinguished by their names. Raises
    `argparse.ArgumentTypeError`, to which the command line and settings add where the name was found.
    """
    from ...engine.core.people import checked_name

    try:
        return checked_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def login_name(login: Callable[[], str]) -> str:
    """Login name of the current user; `operator` if there is none.

    Raises `argparse.ArgumentTypeError` for one that cannot be an operator's.
    """
    try:
        found = login()
    except (KeyError, OSError):
        return "operator"
    try:
        return operator_name(found)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"the login name: {error}. Give one with --as NAME") from error
