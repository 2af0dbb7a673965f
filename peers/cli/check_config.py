"""`hub check-config`: show the settings that `hub run` would use, and where each came from. Nothing is started."""

from __future__ import annotations

import os
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hub.config import DEFAULT, told
from hub.keys import KEYS, Kind, value_at
from peers.cli.flags import ConfigFile, Flags
from peers.cli.journal.tables import print_json
from peers.daemon.sources import Loaded, flag, load

__all__ = ["check_config"]

_NUMBERS = frozenset({Kind.COUNT, Kind.SIZE, Kind.SECONDS})


def check_config(
    flags: Flags | None = None,
    *,
    config: ConfigFile = None,
    explain: Annotated[
        bool, Parameter(help="Say what each setting is for, what it takes, and its flag.", negative=())
    ] = False,
    json: Annotated[bool, Parameter(help="A JSON object a line, one for each setting.", negative=())] = False,
) -> None:
    """Show the settings that `hub run` would use with the same flags, and where each came from.

    Exit code 0 if they are fine; if not, one line names key, place and cause, and the exit code is 2 where the place is
    a flag, else 1.
    """
    loaded = load((flags or Flags()).layer(), os.environ, config)
    if json:
        print_json(*told(loaded.settings, loaded.origins))
        return
    if explain:
        _explain(loaded)
        return
    table = Table("setting", "value", "unit", "from", box=None, pad_edge=False, header_style="bold")
    for path, key in KEYS.items():
        origin = loaded.origins[path]
        style = "dim" if origin == DEFAULT else ""
        table.add_row(Text(path), Text(_shown(value_at(loaded.settings, path))), key.unit, Text(origin), style=style)
    console = Console()
    if not console.is_terminal:
        console.width = 200  # a pipe has no edge to wrap at
    console.print(table)


def _explain(loaded: Loaded) -> None:
    """Print a paragraph for each setting: flag, purpose, range, value, and where that came from."""
    for path, key in KEYS.items():
        value, unit = _shown(value_at(loaded.settings, path)), f" {key.unit}" if key.kind in _NUMBERS else ""
        print(f"{flag(path)}\n    {key.description}\n    Takes {key.expected}.")
        print(f"    {path} = {value}{unit} ({loaded.origins[path]})\n")


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value) if value != "" else '""'
