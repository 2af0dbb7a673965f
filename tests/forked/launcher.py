"""Stand for a `python -m MODULE` that another process runs: its arguments, environment, folder, streams and signals.

    FORKED_PYTHON=/path/of/python FORKED_SERVER=address tests/forked/python -m pyspark.worker

This process runs until the forked module has ended, ends as that did, and passes signals on; if it is killed, the
server kills that one. Where the server refuses, the interpreter takes the place of this process. It imports built-in
modules alone, and nothing of `site`: 10 ms of work rather than the 2 s that a worker of Spark imports for.
"""

import _signal
import _socket
import posix
import sys

from request import REFUSED, WORD_BYTES, pack

_PASSED_ON = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGUSR1, _signal.SIGUSR2, _signal.SIGTERM)
_SERVER_HAS_GONE = 70  # Exit code: an internal error, as <sysexits.h> has it


def _launch(arguments: list[str]) -> None:
    ignored = tuple([number for number in _PASSED_ON if _signal.getsignal(number) == _signal.SIG_IGN])
    given = [argument.encode("utf-8", "surrogateescape") for argument in arguments]
    packet = pack(given, posix.environ, posix.getcwdb(), ignored=ignored, bound=True)
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    link.connect(b"\0" + posix.environ[b"FORKED_SERVER"])
    streams = b"".join([number.to_bytes(4, sys.byteorder) for number in (0, 1, 2)])
    link.sendmsg([packet], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    said = link.recv(WORD_BYTES)
    if said == REFUSED:
        python = posix.environ[b"FORKED_PYTHON"]
        posix.execv(python, [python, b"-m", *given])
    pid = int(said)
    for number in _PASSED_ON:
        if number not in ignored:
            _signal.signal(number, lambda number, _frame: posix.kill(pid, number))
    said = link.recv(WORD_BYTES)
    _end(int(said) if said else _SERVER_HAS_GONE)


def _end(code: int) -> None:
    if code < 0:
        if -code not in {_signal.SIGKILL, _signal.SIGSTOP}:
            _signal.signal(-code, _signal.SIG_DFL)
        posix.kill(posix.getpid(), -code)
    posix._exit(code)


if __name__ == "__main__":
    _launch(sys.argv[2:])
