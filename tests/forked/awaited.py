"""`AwaitedProgram`: a forked program with the face of an `asyncio.subprocess.Process`."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tests.forked.program import Program

__all__ = ["AwaitedProgram"]


class AwaitedProgram:
    """`hub` with arguments, started by `start`."""

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
