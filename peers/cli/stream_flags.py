"""The flags of `hub pub` for more than one message: how a stream is sent, and how a recording is."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from peers.cli.errors import FlagError
from peers.cli.lines import STDIN
from peers.cli.pace import MAX_PAUSE_S, TIME_FIELDS, Pace, Rate, Recorded
from peers.cli.ranges import check_count, check_positive

__all__ = ["RecordingFlags", "StreamFlags"]


@Parameter(name="*")
@dataclass
class StreamFlags:
    """The flags that say how a stream of messages is sent."""

    rate: Annotated[float | None, Parameter(help="Messages a second; as fast as possible without it.")] = None
    limit: Annotated[int | None, Parameter(help="Stop after so many messages.")] = None
    skip_bad: Annotated[
        bool, Parameter(help="Count lines that cannot be published and go on, rather than stop.", negative=())
    ] = False

    def __post_init__(self) -> None:
        check_positive("--rate", self.rate, "messages a second")
        check_count("--limit", self.limit)


@Parameter(name="*")
@dataclass
class RecordingFlags:
    """The flags that say how a recording is sent."""

    ndjson: Annotated[
        str | None,
        Parameter(
            help="File of JSON objects, one a line, plain or gzip; - is standard input.", allow_leading_hyphen=True
        ),
    ] = None
    template: Annotated[
        str | None, Parameter(name="--topic", help="Topic of each record, with its fields in braces: '/zeek/{_path}'.")
    ] = None
    speed: Annotated[
        float | None, Parameter(help="Keep the recorded pauses, so many times as fast; 1 is as recorded.")
    ] = None
    time_field: Annotated[
        str | None, Parameter(help="Field with the time of a record; ts, then _write_ts, without it.")
    ] = None
    max_pause: Annotated[float | None, Parameter(help="Longest single pause with --speed, seconds; default 60.")] = None
    loop: Annotated[bool, Parameter(help="Begin again at the end, until --limit or Ctrl-C.", negative=())] = False

    def check(self, stream: StreamFlags) -> None:
        """Raise FlagError where flags contradict each other."""
        if self.ndjson is None:
            given = {
                "--topic": self.template,
                "--speed": self.speed,
                "--time-field": self.time_field,
                "--max-pause": self.max_pause,
                "--loop": self.loop or None,
            }
            for flag, value in given.items():
                if value is not None:
                    raise FlagError(f"{flag} belongs to --ndjson FILE; one topic for all: hub pub TOPIC")
            return
        if self.template is None:
            raise FlagError("--ndjson needs the topic of each record: --topic '/zeek/{_path}'")
        if self.speed is None and (self.time_field is not None or self.max_pause is not None):
            raise FlagError("--time-field and --max-pause belong to --speed; the recorded pace is --speed 1")
        if self.speed is not None and stream.rate is not None:
            raise FlagError("--speed keeps the recorded pace and --rate a fixed one: give one of them")
        check_positive("--speed", self.speed, hint="1 is as recorded")
        check_positive("--max-pause", self.max_pause, "seconds")
        if self.loop and self.ndjson == STDIN:
            raise FlagError("--loop needs a file that can be read again, not standard input")

    def pace(self, stream: StreamFlags) -> Pace | None:
        """Return the pace that was asked for, None for full speed."""
        if self.speed is not None:
            fields = TIME_FIELDS if self.time_field is None else (self.time_field,)
            return Recorded(self.speed, fields, MAX_PAUSE_S if self.max_pause is None else self.max_pause)
        return None if stream.rate is None else Rate(stream.rate)
