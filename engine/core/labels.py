"""Labels of sessions: short words that people assign and that conditions can test.

They come from the person who starts an agent here, or from the token of an external agent. An agent
cannot set its own labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST_LABELS = 20
"""Most labels of one session."""
LONGEST_LABEL = 64

# ASCII only, so that two labels that look the same are the same.
_LABEL = re.compile(rf"[A-Za-z0-9._:-]{{1,{LONGEST_LABEL}}}")


def checked_label(text: str) -> str:
    """`text`, if it is a valid label. Raises `ValueError`."""
    if _LABEL.fullmatch(text) is None:
        raise ValueError(
            f"a label has 1 to {LONGEST_LABEL} letters a-z, digits, '-', '_', '.' or ':', "
            f"found {text!r:.80}"
        )
    return text


def checked_labels(given: Iterable[str]) -> tuple[str, ...]:
    """The labels `given`, sorted, each once. Raises `ValueError` for an invalid label, or too many."""
    labels = tuple(sorted(set(map(checked_label, given))))
    if len(labels) > MOST_LABELS:
        raise ValueError(f"a session has at most {MOST_LABELS} labels, found {len(labels)}")
    return labels
