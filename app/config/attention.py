"""`[attention]`: signals of the console for an operator who is not looking."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, StrictBool

from .loader import Key
from .quantities import length_of_time
from .tables import SettingsTable


class AttentionSettings(SettingsTable):
    """Switches for bell and notification, and the least time between two of them."""

    table: ClassVar = "attention"

    bell: Annotated[StrictBool, Key("the terminal's bell; `true` by default")] = True
    every: Annotated[
        timedelta,
        BeforeValidator(length_of_time),
        Key('shortest time between two signals, `"30s"` by default'),
    ] = timedelta(seconds=30)
    notify: Annotated[StrictBool, Key("the desktop's notification; `true` by default")] = True


def attention_settings(
    *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> AttentionSettings:
    """The user's `[attention]`, or that of a file that is named. Raises `SettingsError`."""
    return AttentionSettings.read(environ, directory)[1] or AttentionSettings()
