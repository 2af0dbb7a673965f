"""A program that says what it finds when it starts, as JSON on standard output, and then ends as its argument says."""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import stat
import sys
import threading
from pathlib import Path
from typing import Any

__all__: list[str] = []


def _stream(name: str) -> dict[str, Any]:
    stream = getattr(sys, name)
    assert stream is getattr(sys, f"__{name}__")
    status = os.fstat(stream.fileno())
    return {
        "number": stream.fileno(),
        "kind": stat.S_IFMT(status.st_mode),
        "buffer": type(stream.buffer).__name__,
        "raw": type(getattr(stream.buffer, "raw", stream.buffer)).__name__,
        "terminal": stream.isatty(),
        **{
            one: getattr(stream, one)
            for one in ("name", "mode", "encoding", "errors", "line_buffering", "write_through")
        },
        "newlines": stream.newlines,
    }


def _found() -> dict[str, Any]:
    status = dict(line.partition(":\t")[::2] for line in Path("/proc/self/status").read_text().splitlines())
    main = sys.modules["__main__"]
    return {
        "name": __name__,
        "module": main.__spec__.name if main.__spec__ else None,
        "file": __file__,
        "arguments": sys.argv,
        "all arguments": sys.orig_argv[1:],
        "environment": {**os.environ},
        "folder": str(Path.cwd()),
        "path": sys.path,
        "streams": [_stream(name) for name in ("stdin", "stdout", "stderr")],
        "descriptors": sorted(int(path.name) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()),
        "handlers": {
            number.name: repr(signal.getsignal(number)).split(" at ")[0]
            for number in signal.valid_signals()
            if isinstance(number, signal.Signals)
        },
        "signals": {key: status[key] for key in ("SigBlk", "SigIgn", "SigCgt", "Umask", "Threads")},
        "group": os.getpgrp(),
        "session": os.getsid(0),
        "threads": threading.active_count(),
        "collector": (gc.isenabled(), gc.get_threshold()),
        "wakeup": signal.set_wakeup_fd(-1),
        "optimised": sys.flags.optimize,
        "hooks": (sys.excepthook is sys.__excepthook__, sys.flags.dev_mode),
    }


if __name__ == "__main__":
    how = sys.argv[1]
    sys.stdout.write(json.dumps(_found()) + "\n")
    sys.stdout.flush()
    atexit.register(sys.stdout.write, "the last word\n")
    match how:
        case "waits":
            signal.pause()
        case "returns":
            pass
        case "raises":
            raise ValueError("out")
        case "interrupts itself":
            signal.raise_signal(signal.SIGINT)
        case "stops at once":
            os._exit(7)
        case "aborts":
            os.abort()
        case "reads":
            sys.stdout.write(repr([*sys.stdin]))
        case "cannot write":
            os.close(1)
        case _:
            sys.exit(int(how))
