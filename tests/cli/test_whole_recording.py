"""The whole way of a real recording: `hub pub --ndjson` at full speed, the hub, `hub sub`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.programs import PATIENCE_S, PROJECT, RunningHub, hub, start, wait_subscribed

SAMPLE = PROJECT.parent / "shared" / "data" / "zeek-logs.ndjson.gz"
RECORDS = 127_391


@pytest.mark.skipif(
    not SAMPLE.exists(), reason="SAMPLE IS MISSING: the replay of ../shared/data/zeek-logs.ndjson.gz was NOT tested"
)
@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_every_record_arrives_in_order(running_hub: RunningHub, tmp_path: Path, scheme: str) -> None:
    received = tmp_path / "received.ndjson"
    name = f"recorder {scheme}"
    prefix = f"/{scheme}/zeek/"
    flags = ["--format", "json", "--limit", str(RECORDS), "--timeout", "20", "--name", name]
    with received.open("wb") as file:
        subscriber = start("sub", prefix, *flags, url=getattr(running_hub, scheme), stdout=file)
        wait_subscribed(running_hub.unix, name)
        result = hub("pub", "--ndjson", str(SAMPLE), "--topic", prefix + "{_path}", url=running_hub.tcp)
        _, error = subscriber.communicate(timeout=PATIENCE_S)
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.startswith(b"published 127,391 messages in ")
    assert (subscriber.returncode, error) == (0, b"")
    with gzip.open(SAMPLE) as sent, received.open("rb") as arrived:
        for line, (out, back) in enumerate(zip(sent, arrived, strict=True), 1):
            record = json.loads(out)
            assert json.loads(back) == {"topic": prefix + record["_path"], "value": record}, f"line {line}"
    assert line == RECORDS
