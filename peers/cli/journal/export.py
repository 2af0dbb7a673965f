"""`hub journal export`: records of a range, of some topics, as JSON lines, msgpack or frames.

```
View ─ block ─▶ form ─ whole lines ─▶ target          what has no form, what was deleted meanwhile ─▶ standard error
```
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Annotated, Literal, assert_never

from cyclopts import Parameter

from hub.errors import UsageError
from hub.topics import check_prefix
from peers.cli.journal.bar import shown_bar
from peers.cli.journal.forms import Form, JsonForm, MsgpackForm, RawForm
from peers.cli.journal.reading import JournalPath, Piece, Span, opened, pieces, span_of
from peers.cli.journal.target import Target, stoppable

__all__ = ["export"]

EXIT_INCOMPLETE = 1
"""Records were deleted before they were read."""

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
) -> int:
    """Write records of a journal to standard output or a file.

    Exit code 1 if the hub has deleted some of them meanwhile, because they were too old or too much.
    """
    prefixes = tuple(check_prefix(one) for one in prefix or [""])
    with opened(path) as view:
        span = span_of(view, start, end)
        with Target.opened(output, view.path) as target:
            form = _form(format, target)
            account = _Account(span, on_stdout=output is not None)
            try:
                _write(pieces(view, span, prefixes), form, target, account)
            finally:
                account.tell(form.bad_records)
    return EXIT_INCOMPLETE if account.deleted_records else 0


def _form(chosen: Format, target: Target) -> Form:
    if chosen != "json" and target.is_terminal:
        raise UsageError(f"--format {chosen} is nothing for a terminal; give -o FILE, or a pipe")
    match chosen:
        case "json":
            return JsonForm(safe=target.is_terminal)
        case "msgpack":
            return MsgpackForm()
        case "raw":
            return RawForm()
    assert_never(chosen)


class _Account:
    """What was done.

    Args:
        span: What is exported.
        on_stdout: Whether to tell the sum on standard output, which must be free for that.
    """

    def __init__(self, span: Span, *, on_stdout: bool) -> None:
        self.span = span
        self.records = 0
        self.deleted_records = 0
        self._on_stdout = on_stdout
        self._begun_s = time.monotonic()

    def tell(self, bad_records: int) -> None:
        """Print it."""
        elapsed_s = time.monotonic() - self._begun_s
        if bad_records:
            self._complain(f"{bad_records:,} values have no such form: they are marked `bad`")
        if self.deleted_records:
            self._complain(f"the hub deleted {self.deleted_records:,} records, of all topics, before they were read")
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
            if piece.deleted is not None:
                account.deleted_records += piece.deleted.end - piece.deleted.start
            for block in piece.blocks:
                target.write(form.render(block))
                account.records += block.count
                stop.check()
            stop.check()
            tell(f"{account.records:,} records", piece.next - start, end - start)
