"""`hub spark replay`: publish an archive to a hub again.

Here are the options and the output; the job is `peers.spark.replaying`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from hub.topics import check_prefix
from peers.cli.contexts import ContextName
from peers.cli.flag_values import FlagError, check_positive
from peers.cli.spark.engine import Engine
from peers.cli.spark.files import check_folder
from peers.cli.url import DEFAULT_URL, HubUrl, TlsFiles, TokenFile, text_or_path
from peers.spark.connector.options import Access
from peers.spark.selection import Selection
from peers.spark.stopping import signals_told
from peers.spark.summary import Figure, amount, figures, rate, show
from peers.transport.endpoints import Endpoint

if TYPE_CHECKING:
    from peers.spark.progress import JobProgress
    from peers.spark.replaying.pace import Pace
    from peers.spark.replaying.replay import Replayed
    from peers.spark.replaying.windows import Extent

__all__ = ["replay"]

EXIT_INCOMPLETE = 2
"""The job ended before all was published."""

_WHAT = Group("Messages", sort_key=1)
_HOW = Group("Pace", sort_key=2)


def _help(text: str, group: Group, name: str | None = None) -> Parameter:
    return Parameter(help=text, group=group, name=name, negative=())


@Parameter(name="*")
@dataclass(kw_only=True)
class What:
    """The options that say which messages are replayed."""

    topics: Annotated[str | None, _help("Prefixes, separated by commas; all without it.", _WHAT)] = None
    start: Annotated[datetime | None, _help("Not before this time; UTC unless it names a zone.", _WHAT)] = None
    end: Annotated[datetime | None, _help("Before this time.", _WHAT)] = None
    from_offset: Annotated[int, _help("Not before this offset: where a replay was broken off.", _WHAT)] = 0

    def selection(self) -> Selection:
        """Return the selection that the options make, without the offset.

        Raises:
            UsageError: They cannot mean anything together.
        """
        prefixes = () if self.topics is None else tuple(prefix.strip() for prefix in self.topics.split(","))
        return Selection(tuple(map(check_prefix, prefixes)), self.start, self.end).check()


@Parameter(name="*")
@dataclass(kw_only=True)
class How:
    """The options that say how fast messages are replayed."""

    speed: Annotated[float | None, _help("As recorded, by so much faster; 1 without any of these.", _HOW)] = None
    full_speed: Annotated[bool, _help("As fast as the hub takes them.", _HOW)] = False
    rate: Annotated[float | None, _help("So many messages a second, evenly.", _HOW)] = None
    max_pause: Annotated[timedelta, _help("Longest pause with --speed: a night need not be sat through.", _HOW)] = (
        timedelta(seconds=60)
    )

    def check(self) -> None:
        """Check what can be checked before Java is started, which takes seconds.

        Raises:
            FlagError: There are two paces, or one is none.
        """
        if sum((self.full_speed, self.rate is not None, self.speed is not None)) > 1:
            raise FlagError("--speed, --full-speed and --rate exclude each other")
        check_positive("--speed", self.speed, hint="1 is as recorded")
        check_positive("--rate", self.rate, "messages a second")
        check_positive("--max-pause", self.max_pause.total_seconds(), "seconds")

    def pace(self) -> Pace:
        """Return the pace."""
        from peers.spark.replaying.pace import FullSpeed, Rate, Recorded  # noqa: PLC0415 -- numpy is part of an extra

        if self.full_speed:
            return FullSpeed()
        if self.rate is not None:
            return Rate(self.rate)
        return Recorded(self.speed or 1.0, self.max_pause.total_seconds())


def replay(  # noqa: PLR0913 -- one group of flags each
    archive: str,
    /,
    *,
    url: HubUrl = DEFAULT_URL,
    context: ContextName = "",  # noqa: ARG001 -- it has become `url` and what is shown there
    what: What | None = None,
    how: How | None = None,
    engine: Engine | None = None,
    token_file: TokenFile = "",
    tls: TlsFiles | None = None,
) -> int:
    """Publish an archive to a hub, in the order of its offsets.

    Exit code 2 if it is broken off; it tells from which offset to go on.
    """
    what, how, files = what or What(), how or How(), tls or TlsFiles()
    selection = what.selection()
    how.check()
    token, token_path = text_or_path(token_file)
    Endpoint.parse_remote(url)
    check_folder(archive)
    _meet(Access(url, token, ca=files.ca, certificate=files.certificate, key=files.key, token_file=token_path))
    with (engine or Engine()).running("replay") as job:
        from peers.spark.replaying.replay import ReplayOrder  # noqa: PLC0415 -- Spark is loaded when a job runs
        from peers.spark.replaying.replay import replay as run  # noqa: PLC0415 -- the same

        order = ReplayOrder(
            url=url,
            path=archive,
            selection=selection,
            from_offset=what.from_offset,
            pace=how.pace(),
            token=token,
            token_file=token_path,
            ca=files.ca,
            certificate=files.certificate,
            key=files.key,
        )
        with signals_told() as stop:
            done = run(job, order, lambda published, extent: _advance(job.progress, published.next, extent), stop)
    _show(done)
    return EXIT_INCOMPLETE if done.ending else 0


def _meet(access: Access) -> None:
    """See to it that the hub is there before Java is started.

    Raises:
        PeerError: It is not.
    """
    from peers.spark.presence import check_connection  # noqa: PLC0415 -- a client; only where a job runs

    check_connection(access)


def _advance(progress: JobProgress, offset: int, extent: Extent) -> None:
    progress.advance(offset - extent.first, extent.last + 1 - extent.first)


def _show(done: Replayed) -> None:
    published = done.published
    rows: list[Figure] = [
        ("published", "messages", amount(published.messages)),
        ("published", "bytes", amount(published.bytes)),
        ("refused by the hub", "messages", amount(published.refused + done.rejected)),
        ("left out, no msgpack", "messages", amount(published.left_out)),
        ("from", "offset", amount(done.extent.first)),
        ("to", "offset", amount(published.next)),
        ("elapsed", "s", f"{done.elapsed_s:.1f}"),
        ("published", "messages/s", rate(published.messages, done.elapsed_s)),
    ]
    show(figures(rows))
    if done.ending:
        print(f"broken off: {done.ending}; go on with --from-offset {published.next}", file=sys.stderr)
