"""Ready-made rules files, to use as they are or to start from."""

from __future__ import annotations

from pathlib import Path


def library_rules(name: str) -> Path:
    """The file of the ready-made rules `name`, such as `deploy`.

    Raises `ValueError` naming those that exist.
    """
    from importlib.resources import files

    available = {Path(f.name).stem: f for f in files(__name__).iterdir() if f.name.endswith(".rules")}
    if name not in available:
        raise ValueError(f"no ready-made rules '{name}'. Available: {', '.join(sorted(available))}")
    return Path(str(available[name]))
