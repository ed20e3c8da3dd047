"""Name of an operator: shown above the screens and recorded with every decision."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def operator_name(text: str) -> str:
    """Validate a name, and return it as one line without deceptive characters or surrounding spaces.

    Similar-looking names count as one: people are distinguished by name where two must approve. Raises
    `argparse.ArgumentTypeError`; command line and settings add where the name was found.
    """
    from ...engine.core.people import checked_name

    try:
        return checked_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def login_name(login: Callable[[], str]) -> str:
    """Return the login name of the current user; `operator` if there is none.

    Raises `argparse.ArgumentTypeError` if an operator cannot have this name.
    """
    try:
        found = login()
    except (KeyError, OSError):
        return "operator"
    try:
        return operator_name(found)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"the login name: {error}. Give one with --as NAME") from error
