"""`Place`: the folder or S3 bucket of a tier.

A folder must exist: created where none is mounted, it would fill another file system. AWS's own settings provide the
keys of S3. A written file is complete and survives a power loss; before that its name does not exist. All calls block.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from hub.errors import JournalUnavailableError, UsageError
from peers.journal.folder import making

_S3 = "s3"
_OPTIONS = frozenset({"region", "endpoint"})


class Patience(NamedTuple):
    """Timeouts of a server."""

    connect_s: float  # for a connection, seconds
    request_s: float  # for an answer, seconds
    attempts: int  # tries of a request whose error may be temporary


PATIENT = Patience(connect_s=5.0, request_s=30.0, attempts=3)  # for the copier, and tasks of Spark
HASTY = Patience(connect_s=2.0, request_s=10.0, attempts=1)  # for a reader process, where other clients wait
_FOLDER_MODE = 0o700
_CAUSE_CHARACTERS = 300  # most that is shown of an error of a server


class TierUnavailableError(JournalUnavailableError):
    """The tier cannot be read or written now."""


class AbsentError(TierUnavailableError):
    """A file does not exist."""


def check_address(address: str) -> None:
    """Check an address without connecting; raises `UsageError`."""
    parts = urlsplit(address)
    if not parts.scheme:
        return
    if parts.scheme != _S3 or not parts.netloc:
        raise UsageError(f"{address}: a tier is a folder or s3://bucket/prefix")
    if "@" in parts.netloc:
        raise UsageError("journal.tier: keys do not belong into an address; set AWS_ACCESS_KEY_ID and the like")
    unknown = set(dict(parse_qsl(parts.query))) - _OPTIONS
    if unknown:
        raise UsageError(f"{address}: {min(unknown)} is not known; there are {', '.join(sorted(_OPTIONS))}")
    endpoint = urlsplit(dict(parse_qsl(parts.query)).get("endpoint", "https://host"))
    if endpoint.scheme not in {"http", "https"} or not endpoint.netloc:
        raise UsageError(f"{address}: an endpoint is http://host:port or https://host:port")


def check_installed() -> None:
    try:
        import numpy  # noqa: F401, ICN001, PLC0415 -- an extra
        import pyarrow.parquet  # noqa: F401, PLC0415 -- the same
    except ImportError as error:
        missing = error.name.partition(".")[0] if error.name else "pyarrow"
        raise UsageError(f"a tier needs {missing}, which is not installed: pip install 'topichub[tier]'") from error


class Place:
    """A folder or a bucket. Names are relative, with slashes. All methods raise `TierUnavailableError`."""

    def __init__(self, address: str, patience: Patience) -> None:
        self.address = address
        parts = urlsplit(address)
        self._is_folder = not parts.scheme
        self._root = str(Path(address).absolute()) if self._is_folder else (parts.netloc + parts.path).rstrip("/")
        self._options = dict(parse_qsl(parts.query))
        self._patience = patience

    @cached_property
    def _system(self) -> Any:
        """The file system of pyarrow, made on first use."""
        from pyarrow.fs import AwsStandardS3RetryStrategy, LocalFileSystem, S3FileSystem  # noqa: PLC0415 -- an extra

        if self._is_folder:
            return LocalFileSystem()
        endpoint = urlsplit(self._options.get("endpoint", ""))
        wanted = {"region": self._options.get("region"), "endpoint_override": endpoint.netloc}
        return S3FileSystem(
            scheme=endpoint.scheme or "https",
            connect_timeout=self._patience.connect_s,
            request_timeout=self._patience.request_s,
            retry_strategy=AwsStandardS3RetryStrategy(max_attempts=self._patience.attempts),
            background_writes=False,
            **{name: value for name, value in wanted.items() if value},
        )

    @contextmanager
    def _at(self, name: str) -> Iterator[str]:
        """Yield the path of a file; translate errors to `AbsentError` or `TierUnavailableError`."""
        path = f"{self._root}/{name}".rstrip("/")
        shown = path if self._is_folder else f"{_S3}://{path}"
        try:
            yield path
        except FileNotFoundError as error:
            raise AbsentError(f"{shown}: there is no such file") from error
        except OSError as error:
            cause = " ".join((error.strerror or str(error)).split())
            raise TierUnavailableError(f"{shown}: {cause[:_CAUSE_CHARACTERS]}") from error

    def _listed(self, folder: str) -> list[Any]:
        from pyarrow.fs import FileSelector  # noqa: PLC0415 -- an extra

        with self._at(folder) as path:
            self._check()
            found: list[Any] = self._system.get_file_info(FileSelector(path, allow_not_found=True))
            return found

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the files in a folder and their sizes, bytes; none for a missing folder."""
        return {each.base_name: each.size for each in self._listed(folder) if each.is_file}

    def folders(self) -> list[str]:
        return sorted(each.base_name for each in self._listed("") if not each.is_file)

    def read(self, name: str) -> bytes:
        with self._at(name) as path, self._system.open_input_file(path) as file:
            data: bytes = file.read()
            return data

    def open(self, name: str) -> Any:
        """Return a file for pyarrow, to be closed; it raises `OSError`."""
        from pyarrow import OSFile  # noqa: PLC0415 -- an extra

        with self._at(name) as path:
            return OSFile(path) if self._is_folder else self._system.open_input_file(path)

    def write(self, name: str, data: bytes | memoryview) -> None:
        with self._at(name) as path:
            if not self._is_folder:
                with self._system.open_output_stream(path) as file:  # it appears when all of it was sent
                    file.write(data)
                return
            self._check()
            folder = Path(path).parent
            _make(folder)
            with making(path) as descriptor, open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            os.close(descriptor)
            _sync(folder)

    def delete(self, name: str) -> None:
        with suppress(AbsentError), self._at(name) as path:
            self._system.delete_file(path)

    def _check(self) -> None:
        if self._is_folder and not Path(self._root).is_dir():
            raise TierUnavailableError(f"{self.address}: there is no such folder; make it, or mount it")


def _make(folder: Path) -> None:
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=_FOLDER_MODE)
        _sync(folder.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def place_at(address: str, patience: Patience = PATIENT) -> Place:
    check_address(address)
    return Place(address, patience)
