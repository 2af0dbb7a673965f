"""`hub journal export`: records of a range, of some topics, as JSON lines, msgpack or frames.

```
History ─ block ─▶ form ─ whole lines ─▶ target   what has no form, was deleted meanwhile, is damaged ─▶ standard error
```

| exit code | meaning |
|---|---|
| 0 | all that was wanted is written |
| 1 | not all of it: it has stopped, at damage too, or records were deleted before they were read |
| 3 | with `--skip-damaged`: something is damaged; the rest is written |
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Annotated, Literal, assert_never

from cyclopts import Parameter

from hub.errors import JournalCorruptError
from hub.topics import check_prefix
from peers.cli.flag_values import FlagError
from peers.cli.journal.bar import shown_bar
from peers.cli.journal.damages import Damages, ExitCode
from peers.cli.journal.forms import Form, JsonForm, MsgpackForm, RawForm
from peers.cli.journal.older import Tier, tell_older
from peers.cli.journal.reading import JournalPath, Piece, Span, opened_history, pieces, span_of
from peers.cli.journal.target import Target, stoppable

__all__ = ["export"]

Format = Literal["json", "msgpack", "raw"]


def export(  # noqa: PLR0913 -- one flag each
    path: JournalPath,
    /,
    *,
    prefix: Annotated[
        list[str] | None, Parameter(help="Only topics with this prefix; repeatable.", negative_iterable=())
    ] = None,
    start: Annotated[
        str | None, Parameter(help="Offset, or time (UTC unless it names a zone), of the first. Default: the oldest.")
    ] = None,
    end: Annotated[
        str | None, Parameter(help="The same, of what is not wanted any more. Default: the end, as it is now.")
    ] = None,
    format: Annotated[  # noqa: A002 -- the flag's name
        Format, Parameter(help="json: one object a line; msgpack: maps back to back; raw: MESSAGES frames.")
    ] = "json",
    output: Annotated[
        str | None, Parameter(name=["--output", "-o"], help="Write to this file, not to standard output.")
    ] = None,
    skip_damaged: Annotated[
        bool, Parameter(help="Go on behind damage, and tell what is missing.", negative=())
    ] = False,
    tier: Tier = None,
) -> int:
    """Write records of a journal to standard output or a file.

    It stops at damage, with exit code 1; with --skip-damaged it goes on, and the exit code is 3. Exit code 1 also if
    the hub has deleted some records meanwhile, because they were too old or too much.
    """
    prefixes = tuple(check_prefix(one) for one in prefix or [""])
    with opened_history(path, tier) as history:
        span = span_of(history, start, end)
        if span.start == history.view.extent.first:
            tell_older("export", history)
        with Target.opened(output, path) as target:
            form = _form(format, target)
            account = _Account(path, span, on_stdout=output is not None, skip_damaged=skip_damaged)
            try:
                _write(pieces(history, span, prefixes), form, target, account)
            finally:
                account.tell(form.bad_records)
    return account.exit_code


def _form(chosen: Format, target: Target) -> Form:
    if chosen != "json" and target.is_terminal:
        raise FlagError(f"--format {chosen} is nothing for a terminal; give -o FILE, or a pipe")
    match chosen:
        case "json":
            return JsonForm(safe=target.is_terminal)
        case "msgpack":
            return MsgpackForm()
        case "raw":
            return RawForm()
    assert_never(chosen)


class _Account:
    """Counts what was exported and what is missing, and tells it at the end.

    Args:
        path: Path of the journal.
        span: The range that is exported.
        on_stdout: Whether to tell the sum on standard output, which must be free for that.
        skip_damaged: Whether to go on behind damage.
    """

    def __init__(self, path: str, span: Span, *, on_stdout: bool, skip_damaged: bool) -> None:
        self.span = span
        # How many records were written.
        self.records = 0
        # How many were deleted by the hub before they were read; of all topics, as nobody knows theirs.
        self._deleted_records = 0
        self._damages = Damages("export")
        self._path = path
        self._on_stdout = on_stdout
        self._skip_damaged = skip_damaged
        self._begun_s = time.monotonic()

    @property
    def exit_code(self) -> ExitCode:
        """The exit code that the command ends with."""
        return self._damages.exit_code or (ExitCode.INCOMPLETE if self._deleted_records else ExitCode.DONE)

    def note(self, piece: Piece) -> None:
        """Take in what is missing before a piece.

        Raises:
            JournalCorruptError: Something is damaged, and the command does not go on behind it.
        """
        if piece.deleted is not None:
            self._deleted_records += piece.deleted.end - piece.deleted.start
        if piece.damage is not None:
            if not self._skip_damaged:
                raise JournalCorruptError(f"{self._path}: {piece.damage}; --skip-damaged goes on behind them")
            self._damages.add(piece.damage)

    def tell(self, bad_records: int) -> None:
        """Print what is missing on standard error, and the sum on standard output where that is free."""
        elapsed_s = time.monotonic() - self._begun_s
        if bad_records:
            self._complain(f"{bad_records:,} values have no such form: they are marked `bad`")
        if self._deleted_records:
            self._complain(f"the hub deleted {self._deleted_records:,} records, of all topics, before they were read")
        self._damages.tell()
        if self._on_stdout:
            rate = f", {self.records / elapsed_s:,.0f} records/s" if elapsed_s else ""
            print(f"exported {self.records:,} records in {elapsed_s:.2f} s{rate}", flush=True)

    @staticmethod
    def _complain(text: str) -> None:
        print(f"hub journal export: {text}", file=sys.stderr)


def _write(found: Iterable[Piece], form: Form, target: Target, account: _Account) -> None:
    """Write what was found until all is written, or Ctrl-C comes."""
    start, end = account.span
    with stoppable() as stop, shown_bar(visible=not target.is_terminal) as tell:
        for piece in found:
            account.note(piece)
            for block in piece.blocks:
                target.write(form.render(block))
                account.records += block.count
                stop.check()
            stop.check()
            tell(f"{account.records:,} records", piece.next - start, end - start)
