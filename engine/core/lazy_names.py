"""Public names that are imported on first use, and the distributions that contain them.

`interlock-gate` has the gate, the rules and the client for agents; the rest comes with `interlock`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

WHOLE = "interlock"
LIGHT = "interlock-gate"


def import_name(package: str, name: str, *modules: str) -> object:
    """The value of `name` in the first of these modules of `package` that has it.

    Raises `AttributeError` if none has it, and `ImportError` with the remedy if only the light
    distribution is installed.
    """
    try:
        for module in modules:
            home = import_module(module, package)
            if hasattr(home, name):
                value: object = getattr(home, name)
                return value
    except ModuleNotFoundError as missing:
        if (remedy := missing_part(missing)) is None:
            raise
        raise ImportError(f"{package}.{name} is not installed: {remedy}", name=name) from missing
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def lazy(
    package: str, homes: Mapping[str, str], *others: str
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose names are each in one of its modules, by
    `homes`.

    A name is imported on first use and is then set in the package. `others` are names that the package
    already has.
    """

    def find(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f".{home}", package), name)
        setattr(import_module(package), name, value)
        return value

    def names() -> list[str]:
        return sorted((*homes, *others))

    return find, names


def missing_part(missing: ModuleNotFoundError) -> str | None:
    """Remedy for a module that the light distribution lacks; `None` if the whole one is installed."""
    if is_installed(WHOLE) or not is_installed(LIGHT):
        return None
    return f"{LIGHT} has no module '{missing.name}'; install all of it: pip install {WHOLE}"


def is_installed(distribution: str) -> bool:
    """Return whether a distribution is installed."""
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def installed_version() -> str:
    """Installed version of Interlock; `0` for a source tree that is not installed."""
    for distribution in (WHOLE, LIGHT):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "0"
