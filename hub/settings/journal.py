"""Whether and how what the hub carries is recorded."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hub.settings.ranges import FOREVER_S, GIB, KIB, MIB, NAME_BYTES, PRINTABLE, TIB, between, file_path

__all__ = ["JournalSettings"]


class JournalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether and how what the hub carries is recorded."""

    path: Annotated[str, file_path("Folder of the journal, made where it is absent; empty records nothing.")] = ""
    of: Annotated[
        str,
        Meta(
            pattern=PRINTABLE,
            description="Hub of the mesh whose journal clients of this one use, by its name or id; not beside a path.",
            extra={"most_bytes": NAME_BYTES},
        ),
    ] = ""
    topics: Annotated[
        tuple[Annotated[str, Meta(max_length=1024)], ...],
        Meta(min_length=1, description="Prefixes of what is recorded.", extra={"unit": "prefixes such as '/zeek/'"}),
    ] = ("/",)
    sync: Annotated[
        Literal["normal", "full"],
        Meta(description="What a confirmed message survives: normal, that the hub is killed; full, power loss too."),
    ] = "normal"
    compression: Annotated[
        Literal["zstd", "none"],
        Meta(description="How blocks are stored; what comes too fast, or becomes no smaller, is not compressed."),
    ] = "zstd"
    commit_s: Annotated[
        float, between("seconds", 0.001, 10.0, "How long messages are collected before they are committed together.")
    ] = 0.01
    buffer_bytes: Annotated[
        int,
        between("bytes", 64 * KIB, 64 * GIB, "What may wait to be committed; above it publishers are not read from."),
    ] = 32 * MIB
    keep_bytes: Annotated[
        int, between("bytes", 64 * KIB, 1024 * TIB, "Size of its files above which the oldest are deleted.")
    ] = 64 * GIB
    keep_s: Annotated[
        float, between("seconds", 1.0, FOREVER_S, "Age above which records are deleted, a file at a time.")
    ] = 366 * 86_400.0
    readers: Annotated[int, between("processes", 1, 64, "Processes that read for clients, each once it is needed.")] = 2
    fetch_s: Annotated[
        float, between("seconds", 0.1, 3600.0, "Time without a byte from such a process; then it is ended: 1013.")
    ] = 30.0
    staged_bytes: Annotated[
        int,
        between("bytes", 64 * KIB, 64 * GIB, "What may wait for the COMMIT of its writer; above it STAGE is refused."),
    ] = 512 * MIB
    staged_s: Annotated[
        float, between("seconds", 1.0, 86_400.0, "How long what was staged waits for its COMMIT before it is dropped.")
    ] = 600.0
    consumers: Annotated[
        int, between("consumers", 1, 100_000, "Named consumers that the hub keeps; one more is refused.")
    ] = 1_000
    user_consumers: Annotated[
        int, between("consumers", 1, 100_000, "How many of these one user may have; one more of his is refused.")
    ] = 250
    consumer_messages: Annotated[
        int,
        between(
            "messages",
            1,
            1_000_000,
            "How far a consumer is read beyond its oldest message that is not acknowledged; then it waits for that.",
        ),
    ] = 10_000
    consumer_bytes: Annotated[
        int,
        between("bytes", 64 * KIB, TIB, "What is held for a consumer until it is acknowledged; then no more is read."),
    ] = 8 * MIB
    tier: Annotated[
        str,
        file_path("Folder or s3://bucket/prefix to which sealed segments are copied, and read from; empty for none."),
    ] = ""
    tier_keep_bytes: Annotated[
        int, between("bytes", 64 * KIB, 1024 * TIB, "Size above which its oldest files are deleted.")
    ] = 1024 * TIB
    tier_keep_s: Annotated[float, between("seconds", 1.0, FOREVER_S, "Age above which they are deleted.")] = FOREVER_S
    tier_behind_bytes: Annotated[
        int,
        between("bytes", 64 * KIB, 1024 * TIB, "Size up to which records that are not copied yet are not deleted."),
    ] = 256 * GIB
