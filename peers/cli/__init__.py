"""The command line `hub`: how it begins, and how each of its commands ends.

| exit code | meaning |
|---|---|
| 1 | an error that has a name: one line on standard error; or the reader of our output has gone |
| 2 | a command line that makes no sense: one line on standard error, and nothing was done |
| 130 | Ctrl-C |

Invariants: no command ends with a traceback unless it has a defect. What a far side has said cannot steer the terminal.
Not here: which commands there are (`commands`), and what cyclopts finds wrong with a command line (`misuse`). Their
packages are extras, so none is imported before `main` runs.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NoReturn, TextIO

from hub.errors import HubError, InvalidNameError, InvalidTopicError
from peers.cli.flag_values import FlagError

_STREAMS = {"stdout": 1, "stderr": 2}
"""The names of the streams in `sys`, and their descriptors."""


def open_closed_streams() -> None:
    """Have a stream that whoever started us has closed (`>&-`) write to nowhere: nobody wants to read it."""
    for name, descriptor in _STREAMS.items():
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(descriptor, "w"))


def flush_output() -> None:
    """Write what standard output still holds.

    Raises:
        OSError: It could not be written (BrokenPipeError: its reader has gone).
    """
    sys.stdout.flush()


def discard(*streams: TextIO) -> None:
    """Have the interpreter flush what streams still hold to nowhere: it cannot be written, and it would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        with suppress(OSError, ValueError):  # one that is closed, or has no descriptor
            os.dup2(nowhere, stream.fileno())


EXIT_ERROR = 1
EXIT_SENSELESS = 2
EXIT_INTERRUPTED = 130

_SENSELESS = (FlagError, InvalidNameError, InvalidTopicError)
"""Topics and names come from the command line, too: those in files are errors of the lines there."""

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""How a disk refuses output. Commands that open files translate these errors themselves, so what arrives here is about
standard output."""

_EXTRAS = {
    "cyclopts": "cli",
    "rich": "cli",
    "apsw": "server",
    "backports": "server",
    "cryptography": "server",
    "jwt": "server",
    "prometheus_client": "server",
    "structlog": "server",
}
"""Which extra of pyproject.toml brings a package."""


def main() -> None:
    """Run the command that the arguments name, and end the process with its exit code."""
    gc.disable()  # until the command begins: all that is imported stays, and would be walked over ten times
    open_closed_streams()
    try:
        sys.exit(_run())
    except HubError as error:
        _end(str(error), EXIT_SENSELESS if _is_senseless(error) else EXIT_ERROR)
    except ImportError as error:
        # Where a command is loaded when it is called, cyclopts raises an error of its own from the one that says why.
        package = (getattr(error.__cause__ or error, "name", None) or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        install = f"pip install '.[{_EXTRAS[package]}]'"
        _end(f"this needs {package}, which is not installed: {install} in a clone of topichub", EXIT_ERROR)
    except BrokenPipeError:
        discard(sys.stdout, sys.stderr)  # they may be the same pipe
        sys.exit(EXIT_ERROR)
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        discard(sys.stdout)
        _end(f"standard output cannot be written: {os.strerror(error.errno)}", EXIT_ERROR)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    finally:
        gc.freeze()  # else all that was imported is walked over once more for garbage, as the process ends: 20 ms


def _run() -> int | None:
    """Run the command; what it has printed is written out before it counts as done.

    Returns:
        Its exit code; None for 0.
    """
    command = _command()
    gc.freeze()
    gc.enable()
    try:
        code = command()
    except SystemExit:
        flush_output()
        raise
    flush_output()
    return code


def _command() -> Callable[[], int | None]:
    """Return the command that the arguments name, with what they say."""
    from cyclopts import CycloptsError  # noqa: PLC0415 -- it may not be installed

    from peers.cli.commands import app  # noqa: PLC0415 -- what it needs may not be installed

    try:
        command, bound, _ = app.parse_args()
    except CycloptsError as error:
        from peers.cli.misuse import told  # noqa: PLC0415 -- only where something is wrong

        raise FlagError(told(error)) from error
    return partial(command, *bound.args, **bound.kwargs)


def _is_senseless(error: HubError) -> bool:
    """Return whether it is the command line that must be changed, not a file, a variable or a hub."""
    if isinstance(error, _SENSELESS):
        return True
    from hub.settings.config import ConfigError  # noqa: PLC0415 -- only where something is wrong
    from peers.transport.endpoints import InvalidEndpointError  # noqa: PLC0415 -- the same

    if isinstance(error, InvalidEndpointError):  # addresses, too, come from the command line
        return True
    return isinstance(error, ConfigError) and error.source.startswith("flag ")


def _end(text: str, code: int) -> NoReturn:
    """End the process with one line on standard error."""
    from peers.cli.texts import escaped  # noqa: PLC0415 -- 10 ms that most commands take anyway

    print(escaped(f"hub: {text}"), file=sys.stderr)
    sys.exit(code)
