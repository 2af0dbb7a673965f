"""`hub journal export`: records of a range, of some topics, as JSON lines.

Values become JSON as on the hub's WebSocket, of any size. A value without such a form has `bad` (why) and
`body` (its bytes, base64) in place of `value`. A block whose values all have a form is decoded at once.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from hub.errors import JournalCorruptError, UsageError
from hub.journal.block import Block, Record, pack
from hub.journal.packing import BLOCK_BYTES_LIMIT, skip_value
from hub.messages.frame import BATCH_COUNT, BATCH_LIMIT_MESSAGES, FLAG_BATCH, KIND_MESSAGES, Encoding, encode_frame
from hub.topics import check_prefix
from peers.cli.journal_reading import (
    Damages,
    ExitCode,
    JournalPath,
    Piece,
    Tier,
    opened_history,
    pieces,
    span_of,
    tell_older,
)
from peers.cli.output import shown_bar, write_all
from peers.cli.texts import escaped_lines, moment
from peers.values.conversion import has_nanoseconds, json_of, msgpack_of_broker, without_collecting
from peers.values.msgpack import array_header


class _Line(msgspec.Struct, gc=False):
    offset: int
    time: str
    topic: str
    value: Any


class _Bad(msgspec.Struct, gc=False):
    offset: int
    time: str
    topic: str
    bad: str
    body: bytes


def _extension(code: int, data: memoryview) -> Any:
    from peers.values.conversion import untyped_extension  # noqa: PLC0415 -- rarely needed

    return untyped_extension(code, bytes(data))


_decode = msgspec.msgpack.Decoder(ext_hook=_extension).decode
_to_json = msgspec.json.Encoder()

_NO_FORM = (ValueError, TypeError, OverflowError, RecursionError)


class JsonForm:
    """Writes each record as a line of JSON, escaped if `safe` (for terminals)."""

    def __init__(self, *, safe: bool = False) -> None:
        self.bad_records = 0
        self._safe = safe

    def render(self, block: Block) -> bytes:
        lines = without_collecting(self._lines, block)
        return escaped_lines(lines) if self._safe else lines

    def _lines(self, block: Block) -> bytes:
        if _are_whole(block) and not has_nanoseconds(array := array_header(block.count) + block.values):
            try:
                return _to_json.encode_lines(_whole_lines(block, _decode(array)))
            except _NO_FORM:
                pass  # of one of them at least
        return _to_json.encode_lines(map(self._line, block.records()))

    def _line(self, record: Record) -> _Line | _Bad:
        text = _json(record)
        if text is None:
            self.bad_records += 1
            return _Bad(record.offset, moment(record.time_us), record.topic, _reason(record), record.body)
        return _Line(record.offset, moment(record.time_us), record.topic, msgspec.Raw(text))


def _are_whole(block: Block) -> bool:
    """Return whether each value is exactly one value of msgpack, so that all together are an array of as many.

    Else two broken ones side by side could pass for two others. `pack`, which is compiled, cuts a BATCH frame where
    values end; the same ends must come out.
    """
    if block.encodings is not None or block.count > BATCH_LIMIT_MESSAGES:
        return False
    body = BATCH_COUNT.pack(block.count) + block.values
    frame = encode_frame(KIND_MESSAGES, body, flags=FLAG_BATCH)
    try:
        packed = pack([(0, frame)], 0, block.count, BLOCK_BYTES_LIMIT)
    except ValueError:
        return False
    return Block.parse(packed[0], verify=False).value_ends.tobytes() == block.value_ends.tobytes()


def _whole_lines(block: Block, values: Sequence[Any]) -> list[_Line]:
    written = {time_us: moment(time_us) for time_us in set(block.times)}
    times = map(written.__getitem__, block.times)
    topics = map(block.topics.__getitem__, block.topic_nos)
    return list(map(_Line, block.offsets or range(block.first, block.next), times, topics, values))


def _json(record: Record) -> bytes | None:
    if record.encoding == Encoding.BROKER:
        packed = msgpack_of_broker(record.body)
    else:
        is_value = skip_value(record.body, 0, len(record.body)) == len(record.body)
        packed = record.body if record.encoding == Encoding.MSGPACK and is_value else None
    if packed is None:
        return None
    try:
        if not has_nanoseconds(packed):
            return _to_json.encode(_decode(packed))
    except _NO_FORM:
        pass
    return json_of(packed)  # it knows nanoseconds, and keys that are no text


def _reason(record: Record) -> str:
    from peers.client.values import decode_body  # noqa: PLC0415 -- rarely needed

    try:
        decode_body(record.encoding, record.body)
    except ValueError as error:
        return str(error)
    return "no form of its own here: a foreign extension, or too large"


@contextmanager
def _opened_output(path: str | None, journal: str) -> Iterator[int]:
    """Open a file, or standard output for None, while the block lasts; a file of the journal is refused."""
    if path is None:
        sys.stdout.flush()
        yield sys.stdout.fileno()
        return
    if _is_within(path, journal):
        raise UsageError(f"{path}: that is a file of the journal; choose another one")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_within(path: str, journal: str) -> bool:
    """Return whether a file is one of a journal's, by any path."""
    try:
        if Path(path).resolve().parent.samefile(journal):
            return True
        with os.scandir(journal) as files:
            return any(os.path.samestat(os.stat(path), each.stat()) for each in files)  # noqa: PTH116
    except OSError:  # one of them does not exist
        return False


@contextmanager
def stoppable() -> Iterator[Callable[[], None]]:
    """Have Ctrl-C wait for the next call of the function that is yielded; the second one ends the block at once."""
    asked = False

    def check() -> None:
        if asked:
            raise KeyboardInterrupt

    def ask(*_: object) -> None:
        nonlocal asked
        check()
        asked = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


def export(  # noqa: PLR0913 -- one flag each
    path: JournalPath,
    /,
    *,
    prefix: Annotated[list[str] | None, Parameter(help="Only topics with this prefix; repeatable.")] = None,
    start: Annotated[
        str | None, Parameter(help="First offset, or time (UTC unless a zone is given). Default: the oldest record.")
    ] = None,
    end: Annotated[str | None, Parameter(help="Stop before this offset or time. Default: the current end.")] = None,
    output: Annotated[
        str | None, Parameter(name=["--output", "-o"], help="Write to this file instead of standard output.")
    ] = None,
    skip_damaged: Annotated[bool, Parameter(help="Skip damaged records, and report the missing ones.")] = False,
    tier: Tier = None,
) -> int:
    """Write records of a journal to standard output or a file.

    Stops at damage with exit code 1; with --skip-damaged it continues, and the exit code is 3. Exit code 1 also if the
    hub has meanwhile deleted some of the records because of its limits of age or size.
    """
    prefixes = tuple(check_prefix(one) for one in prefix or [""])
    with opened_history(path, tier) as history:
        span = span_of(history, start, end)
        if span.start == history.view.extent.first:
            tell_older("export", history)
        with _opened_output(output, path) as descriptor:
            form = JsonForm(safe=os.isatty(descriptor))
            account = _Account(path, on_stdout=output is not None, skip_damaged=skip_damaged)
            try:
                with stoppable() as check, shown_bar(visible=not os.isatty(descriptor)) as tell:
                    for piece in pieces(history, span, prefixes):
                        account.note(piece)
                        for block in piece.blocks:
                            _write(form.render(block), descriptor, output or "standard output")
                            account.records += block.count
                            check()
                        check()
                        tell(f"{account.records:,} records", piece.next - span.start, span.end - span.start)
            finally:
                account.tell(form.bad_records)
    return account.exit_code


def _write(written: bytes, descriptor: int, name: str) -> None:
    try:
        write_all(descriptor, written)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error


class _Account:
    """Counts exported and missing records, and prints both at the end."""

    def __init__(self, path: str, *, on_stdout: bool, skip_damaged: bool) -> None:
        self.records = 0
        self._deleted_records = 0
        self._damages = Damages("export")
        self._path = path
        self._on_stdout = on_stdout
        self._skip_damaged = skip_damaged
        self._begun_s = time.monotonic()

    @property
    def exit_code(self) -> ExitCode:
        return self._damages.exit_code or (ExitCode.INCOMPLETE if self._deleted_records else ExitCode.DONE)

    def note(self, piece: Piece) -> None:
        if piece.deleted is not None:
            self._deleted_records += piece.deleted.end - piece.deleted.start
        if piece.damage is not None:
            if not self._skip_damaged:
                raise JournalCorruptError(f"{self._path}: {piece.damage}; --skip-damaged continues after them")
            self._damages.add(piece.damage)

    def tell(self, bad_records: int) -> None:
        elapsed_s = time.monotonic() - self._begun_s
        if bad_records:
            text = f"{bad_records:,} values have no such form: they are marked `bad`"
            print(f"hub journal export: {text}", file=sys.stderr)
        if self._deleted_records:
            text = f"the hub deleted {self._deleted_records:,} records, of all topics, before they were read"
            print(f"hub journal export: {text}", file=sys.stderr)
        self._damages.tell()
        if self._on_stdout:
            rate = f", {self.records / elapsed_s:,.0f} records/s" if elapsed_s else ""
            print(f"exported {self.records:,} records in {elapsed_s:.2f} s{rate}", flush=True)
