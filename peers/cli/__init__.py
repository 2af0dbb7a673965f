"""The command line `hub`: how it begins, and how each of its commands ends.

| exit code | meaning |
|---|---|
| 1 | an error that has a name: one line on standard error; or the reader of our output has gone |
| 2 | flags that make no sense |
| 130 | Ctrl-C |

Invariants: no command ends with a traceback unless it has a defect. What a far side has said cannot steer the terminal.
Not here: which commands there are (`commands`). Their packages are extras, so none is imported before `main` runs.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from hub.errors import HubError, InvalidNameError, InvalidTopicError
from peers.cli.errors import FlagError
from peers.transport.endpoints import InvalidEndpointError

__all__ = ["main"]

EXIT_ERROR = 1
EXIT_SENSELESS = 2
EXIT_INTERRUPTED = 130

_SENSELESS = (FlagError, InvalidEndpointError, InvalidNameError, InvalidTopicError)
"""Topics, names and addresses come from the command line, too: those in files are errors of the lines there."""

_EXTRAS = {
    "cyclopts": "cli",
    "rich": "cli",
    "apsw": "server",
    "prometheus_client": "server",
    "structlog": "server",
}
"""Which extra of pyproject.toml brings a package."""


def main() -> None:
    """Run the command that the arguments name, and end the process with its exit code."""
    try:
        from peers.cli.commands import app  # noqa: PLC0415 -- what it needs may not be installed

        app()
    except HubError as error:
        from peers.cli.formats import escaped  # noqa: PLC0415 -- 10 ms that most commands take anyway

        print(escaped(f"hub: {error}"), file=sys.stderr)
        sys.exit(EXIT_SENSELESS if isinstance(error, _SENSELESS) else EXIT_ERROR)
    except ImportError as error:
        # Where a command is loaded when it is called, cyclopts raises an error of its own from the one that says why.
        package = (getattr(error.__cause__ or error, "name", None) or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        install = f"pip install '.[{_EXTRAS[package]}]'"
        print(f"hub: this needs {package}, which is not installed: {install} in a clone of topichub", file=sys.stderr)
        sys.exit(EXIT_ERROR)
    except BrokenPipeError:
        _discard_output()
        sys.exit(EXIT_ERROR)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def _discard_output() -> None:
    """Have the interpreter flush what is left to nowhere: its reader has gone, and it would complain of that."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # one that is closed, or has no descriptor
            os.dup2(nowhere, stream.fileno())
