"""Ready-made rules files, to use as they are or to start from."""

from __future__ import annotations

from pathlib import Path

LIBRARY = Path(__file__).parent


def library_rules(name: str) -> Path:
    """The file of the ready-made rules `name`, such as `deploy`.

    Raises `ValueError` naming those that exist.
    """
    available = {path.stem: path for path in sorted(LIBRARY.glob("*.rules"))}
    if name not in available:
        raise ValueError(f"no ready-made rules '{name}'. Available: {', '.join(available)}")
    return available[name]
