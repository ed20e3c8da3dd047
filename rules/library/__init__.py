"""Ready-made rules files, to use as they are or to start from; each has its scenarios next to it."""

from __future__ import annotations

from pathlib import Path

LIBRARY = Path(__file__).parent
_TESTS = "_test"


def library_rules(name: str) -> Path:
    """The file of the ready-made rules `name`, such as `deploy`.

    Raises `ValueError` naming those that exist.
    """
    files = sorted(path for path in LIBRARY.glob("*.rules") if not path.stem.endswith(_TESTS))
    available = {path.stem: path for path in files}
    if name not in available:
        raise ValueError(f"no ready-made rules '{name}'. Available: {', '.join(available)}")
    return available[name]
