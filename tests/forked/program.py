"""`hub ...` as a process that is forked from one that has imported everything (`servers`): 0.1 s rather than 0.3 s.

`Program` is a `subprocess.Popen` of `python -m peers.cli` in all that a test can see. A new interpreter is started
if only that heeds something: a variable such as PYTHONHASHSEED or LANG that differs from that of the tests, or a closed
stream. Commands of a worker share their hash seed, and have modules imported that other commands need; so tests of
imports, memory, start-up and the end of a process start `HUB` itself.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from tests.forked import servers
from tests.forked.request import REFUSED, WORD_BYTES, pack
from tests.forked.servers import PROJECT

__all__ = ["HUB", "MODULE", "PROJECT", "AwaitedProgram", "Origin", "Program", "origins", "run"]
MODULE = "peers.cli"
HUB = [sys.executable, "-m", MODULE]  # The program itself


class Origin(NamedTuple):
    test: str  # During which it was started
    command: str


origins: dict[int, Origin] = {}  # Of all programs that were forked for this process, by id


class Program(subprocess.Popen[Any]):
    """`hub` with arguments, started."""

    # To the server; None for a process that is no fork, and for one that has been waited for.
    _link: socket.socket | None = None

    def __init__(self, *arguments: str, module: str = MODULE, **given: Any) -> None:
        given.setdefault("cwd", PROJECT)
        super().__init__([sys.executable, "-m", module, *arguments], **given)

    def _execute_child(self, *given: Any) -> None:
        asked = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments  # type: ignore[attr-defined]
        streams = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        streams = [number if descriptor == -1 else descriptor for number, descriptor in enumerate(streams)]
        if not all(map(_is_open, streams)) or not self._is_forked(asked, streams):
            super()._execute_child(*given)  # type: ignore[misc]
            return
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(asked[name] for name in pipes))  # type: ignore[attr-defined]
        self._child_created = True
        test = os.environ.get("PYTEST_CURRENT_TEST", "")
        origins[self.pid] = Origin(test, " ".join(["hub", *asked["args"][3:]]))

    def _is_forked(self, asked: dict[str, Any], streams: list[int]) -> bool:
        environment = os.environ if asked["env"] is None else asked["env"]
        packet = pack(
            [*map(os.fsencode, asked["args"][2:])],
            {os.fsencode(name): os.fsencode(value) for name, value in environment.items()},
            os.fsencode(os.path.abspath(asked["cwd"])),  # noqa: PTH100 -- as it stands, links and all
            passed=tuple(asked["pass_fds"]),
            leads=asked["start_new_session"],
        )
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.connect(servers.address_of_commands())
        socket.send_fds(link, [packet], [*streams, *asked["pass_fds"]])
        said = link.recv(WORD_BYTES)
        if said == REFUSED:
            link.close()
            return False
        self._link, self.pid = link, int(said)
        return True

    def _internal_poll(self, _deadstate: int | None = None, *given: Any) -> int | None:
        if self._link is None:
            return super()._internal_poll(_deadstate, *given)  # type: ignore[misc, no-any-return]
        if self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                self._hear(socket.MSG_DONTWAIT)
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._link is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc, no-any-return]
        self._hear(socket.MSG_DONTWAIT if wait_flags else 0)
        if self.returncode is None:
            return 0, 0
        return self.pid, -self.returncode if self.returncode < 0 else self.returncode << 8

    def _hear(self, flags: int) -> None:
        assert self._link is not None
        try:
            said = self._link.recv(WORD_BYTES, flags)
        except BlockingIOError:
            return
        if not said:
            raise RuntimeError("the server that programs are forked from has gone")
        self.returncode = int(said)
        self._link.shutdown(socket.SHUT_WR)
        self._link.recv(WORD_BYTES)
        self._link.close()
        self._link = None


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def run(*arguments: str, stdin: bytes | None, timeout_s: float, **given: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, as `subprocess.run` does, with both of its outputs captured."""
    given |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Program(*arguments, stdin=None if stdin is None else subprocess.PIPE, **given) as process:
        try:
            stdout, stderr = process.communicate(stdin, timeout_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


class AwaitedProgram:
    """A program with the face of an `asyncio.subprocess.Process`, started by `start`."""

    def __init__(
        self, program: Program, stdout: asyncio.StreamReader | None, stderr: asyncio.StreamReader | None
    ) -> None:
        self._program = program
        self.stdout = stdout
        self.stderr = stderr

    @classmethod
    async def start(
        cls, *arguments: str, stdout: int, stderr: int, limit: int, env: Mapping[str, str]
    ) -> AwaitedProgram:
        """Start it in the folder of this process."""
        program = Program(
            *arguments, cwd=Path.cwd(), env=dict(env), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
        )
        return cls(program, await _reader(program.stdout, limit), await _reader(program.stderr, limit))

    @property
    def pid(self) -> int:
        return self._program.pid

    @property
    def returncode(self) -> int | None:
        return self._program.returncode

    def send_signal(self, number: int) -> None:
        self._program.send_signal(number)

    def kill(self) -> None:
        self._program.kill()

    async def wait(self) -> int:
        if self._program.returncode is None:
            loop = asyncio.get_running_loop()
            ended = loop.create_future()
            descriptor = os.pidfd_open(self._program.pid)
            try:
                loop.add_reader(descriptor, ended.set_result, None)
                await ended
            finally:
                loop.remove_reader(descriptor)
                os.close(descriptor)
        return self._program.wait()

    async def communicate(self) -> tuple[bytes, bytes]:
        said = [b"" if stream is None else await stream.read() for stream in (self.stdout, self.stderr)]
        await self.wait()
        return said[0], said[1]


async def _reader(pipe: IO[bytes] | None, limit: int) -> asyncio.StreamReader | None:
    if pipe is None:
        return None
    reader = asyncio.StreamReader(limit)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader
