"""`hub completion`: the script by which a shell completes `hub`: commands, flags, their choices, names of contexts."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

__all__ = ["completion"]


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish", "powershell"], Parameter(help="For which shell.")], /
) -> None:
    """Write the script to standard output: put it where the shell looks for such, as docs/command-line.md says."""
    from peers.cli.commands import app  # noqa: PLC0415 -- it knows this command, too

    print(app.generate_completion(shell=shell))
