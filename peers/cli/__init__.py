"""The command line `hub`: how it begins, and how each of its commands ends.

Exit codes: 1 is an error with one line on standard error, or a reader of our output that has gone; 2 a command line
that makes no sense; 130 Ctrl-C. A traceback is a defect. Packages of extras are not imported before `main` runs.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, TextIO

from hub.errors import HubError, InvalidNameError, InvalidTopicError
from peers.cli.texts import FlagError

_STREAMS = {"stdout": 1, "stderr": 2}


def open_closed_streams() -> None:
    """Open streams that the parent process has closed (`>&-`) on /dev/null."""
    for name, descriptor in _STREAMS.items():
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(descriptor, "w"))


def flush_output() -> None:
    sys.stdout.flush()


def discard(*streams: TextIO) -> None:
    """Redirect streams to /dev/null, so that the interpreter can flush unwritable output."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        with suppress(OSError, ValueError):  # one that is closed, or has no descriptor
            os.dup2(nowhere, stream.fileno())


EXIT_ERROR = 1
EXIT_SENSELESS = 2
EXIT_INTERRUPTED = 130

_SENSELESS = (FlagError, InvalidNameError, InvalidTopicError)
"""Topics and names come from the command line; those in files are errors of the lines there."""

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a disk that refuses standard output. Commands translate those of files that they open."""

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
"""The extra of pyproject.toml that brings a package."""


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
        install = f"pip install 'topichub[{_EXTRAS[package]}]'"
        _end(f"this needs {package}, which is not installed: {install}", EXIT_ERROR)
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
    """Run the command and flush its output; return its exit code, None for 0."""
    command = _command()
    gc.freeze()
    gc.enable()
    try:
        code = command()
        if isinstance(code, Coroutine):
            import asyncio  # noqa: PLC0415 -- commands that need no hub do without

            code = asyncio.run(code)
    except SystemExit:
        flush_output()
        raise
    flush_output()
    return code


def _command() -> Callable[[], int | Coroutine[Any, Any, int | None] | None]:
    """Return the command that the arguments name, bound to its flags."""
    from cyclopts import CycloptsError  # noqa: PLC0415 -- it may not be installed

    from peers.cli.commands import app  # noqa: PLC0415 -- packages that it needs may not be installed

    try:
        command, bound, _ = app.parse_args(sys.argv[1:])
    except CycloptsError as error:
        from peers.cli.misuse import told  # noqa: PLC0415 -- only where something is wrong

        raise FlagError(told(error)) from error
    return partial(command, *bound.args, **bound.kwargs)


def _is_senseless(error: HubError) -> bool:
    """Return whether the command line must be changed, not a file, a variable or a hub."""
    if isinstance(error, _SENSELESS):
        return True
    from hub.settings.keys import ConfigError  # noqa: PLC0415 -- only where something is wrong
    from peers.transport.endpoints import InvalidEndpointError  # noqa: PLC0415 -- the same

    if isinstance(error, InvalidEndpointError):  # addresses, too, come from the command line
        return True
    return isinstance(error, ConfigError) and error.source.startswith("flag ")


def _end(text: str, code: int) -> NoReturn:
    from peers.cli.texts import escaped  # noqa: PLC0415 -- 10 ms that most commands take anyway

    print(escaped(f"hub: {text}"), file=sys.stderr)
    sys.exit(code)
