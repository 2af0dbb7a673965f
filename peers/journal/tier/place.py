"""`Place`: the folder or S3 bucket of a tier.

A folder must exist: created where none is mounted, it would fill another file system. AWS's own settings provide the
keys of S3. A written file is complete and survives a power loss; before that its name does not exist. All calls block.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import SplitResult, parse_qsl, urlsplit

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


class TierUnavailableError(JournalUnavailableError):
    """The tier cannot be read or written now."""


class AbsentError(TierUnavailableError):
    """A file does not exist."""


class Place(Protocol):
    """A folder or a bucket. Names are relative, with slashes. All methods raise `TierUnavailableError`."""

    address: str

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the files in a folder and their sizes, bytes; none for a missing folder."""

    def folders(self) -> list[str]: ...
    def read(self, name: str) -> bytes: ...

    def open(self, name: str) -> Any:
        """Return a file for pyarrow, to be closed; it raises `OSError`."""

    def write(self, name: str, data: bytes | memoryview) -> None: ...
    def delete(self, name: str) -> None: ...


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
    """Check that the packages of a tier are installed; raises `UsageError`."""
    try:
        import numpy  # noqa: F401, ICN001, PLC0415 -- an extra
        import pyarrow.parquet  # noqa: F401, PLC0415 -- the same
    except ImportError as error:
        missing = error.name.partition(".")[0] if error.name else "pyarrow"
        raise UsageError(f"a tier needs {missing}, which is not installed: pip install '.[tier]'") from error


def place_at(address: str, patience: Patience = PATIENT) -> Place:
    check_address(address)
    parts = urlsplit(address)
    return _Bucket(address, parts, patience) if parts.scheme else _Folder(address)


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Translate errors of the operating system and of pyarrow to `AbsentError` or `TierUnavailableError`."""
    try:
        yield
    except FileNotFoundError as error:
        raise AbsentError(f"{name}: there is no such file") from error
    except OSError as error:
        cause = error.strerror or str(error)
        raise TierUnavailableError(f"{name}: {' '.join(cause.split())[:_CAUSE_CHARACTERS]}") from error


_CAUSE_CHARACTERS = 300  # most that is shown of an error of a server


class _Folder:
    def __init__(self, address: str) -> None:
        self.address = address
        self._root = str(Path(address).absolute())

    def sizes(self, folder: str) -> dict[str, int]:
        with _told(self._path(folder)):
            self._check()
            try:
                found = os.scandir(self._path(folder))
            except FileNotFoundError:
                return {}
            with found:
                return {each.name: each.stat().st_size for each in found if each.is_file()}

    def folders(self) -> list[str]:
        with _told(self.address):
            self._check()
            with os.scandir(self._root) as found:
                return sorted(each.name for each in found if each.is_dir())

    def read(self, name: str) -> bytes:
        with _told(self._path(name)):
            return Path(self._path(name)).read_bytes()

    def open(self, name: str) -> Any:
        from pyarrow import OSFile  # noqa: PLC0415 -- an extra

        with _told(self._path(name)):
            return OSFile(self._path(name))

    def write(self, name: str, data: bytes | memoryview) -> None:
        path = self._path(name)
        with _told(path):
            self._check()
            folder = os.path.dirname(path)  # noqa: PTH120
            self._make(folder)
            with making(path) as descriptor, open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            os.close(descriptor)
            _sync(folder)

    def delete(self, name: str) -> None:
        with _told(self._path(name)), suppress(FileNotFoundError):
            os.unlink(self._path(name))  # noqa: PTH108

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _check(self) -> None:
        if not os.path.isdir(self._root):  # noqa: PTH112
            raise TierUnavailableError(f"{self.address}: there is no such folder; make it, or mount it")

    def _make(self, folder: str) -> None:
        if not os.path.isdir(folder):  # noqa: PTH112
            parent = os.path.dirname(folder)  # noqa: PTH120
            self._make(parent)
            Path(folder).mkdir(mode=_FOLDER_MODE)
            _sync(parent)


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Bucket:
    """A bucket: a file appears when all of it was sent."""

    def __init__(self, address: str, parts: SplitResult, patience: Patience) -> None:
        self.address = address
        self._patience = patience
        self._root = (parts.netloc + parts.path).rstrip("/")
        self._options = dict(parse_qsl(parts.query))
        self._made: Any = None

    @property
    def _system(self) -> Any:
        """The file system of pyarrow, made on first use."""
        if self._made is None:
            from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem  # noqa: PLC0415 -- an extra

            endpoint = urlsplit(self._options.get("endpoint", ""))
            wanted = {"region": self._options.get("region"), "endpoint_override": endpoint.netloc}
            self._made = S3FileSystem(
                scheme=endpoint.scheme or "https",
                connect_timeout=self._patience.connect_s,
                request_timeout=self._patience.request_s,
                retry_strategy=AwsStandardS3RetryStrategy(max_attempts=self._patience.attempts),
                background_writes=False,
                **{name: value for name, value in wanted.items() if value},
            )
        return self._made

    def sizes(self, folder: str) -> dict[str, int]:
        return {each.base_name: each.size for each in self._listed(f"/{folder}") if each.is_file}

    def folders(self) -> list[str]:
        return sorted(each.base_name for each in self._listed("") if not each.is_file)

    def _listed(self, folder: str) -> list[Any]:
        from pyarrow.fs import FileSelector  # noqa: PLC0415 -- an extra

        selector = FileSelector(self._root + folder, allow_not_found=True)
        found: list[Any] = self._asked(folder or "/", lambda system: system.get_file_info(selector))
        return found

    def read(self, name: str) -> bytes:
        def all_of_it(system: Any) -> bytes:
            with system.open_input_file(f"{self._root}/{name}") as file:
                data: bytes = file.read()
                return data

        found: bytes = self._asked(name, all_of_it)
        return found

    def open(self, name: str) -> Any:
        return self._asked(name, lambda system: system.open_input_file(f"{self._root}/{name}"))

    def write(self, name: str, data: bytes | memoryview) -> None:
        def put(system: Any) -> None:
            with system.open_output_stream(f"{self._root}/{name}") as file:
                file.write(data)

        self._asked(name, put)

    def delete(self, name: str) -> None:
        with suppress(AbsentError):
            self._asked(name, lambda system: system.delete_file(f"{self._root}/{name}"))

    def _asked(self, name: str, act: Callable[[Any], Any]) -> Any:
        with _told(f"{_S3}://{self._root}/{name.lstrip('/')}"):
            return act(self._system)
