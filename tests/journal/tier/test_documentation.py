"""The examples of docs/tier.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hub.batch import Batch
from peers.journal.tier.copier import Copier, TierRetention
from peers.journal.tier.place import place_at
from tests.journal.files import AT_US, opened
from tests.journal.tier.made import id_of

TEXT = (Path(__file__).parents[3] / "docs" / "tier.md").read_text()


def test_pandas_reads_it(tmp_path: Path) -> None:
    path, tier = tmp_path / "journal", tmp_path / "tier"
    tier.mkdir()
    store = opened(path, segment_bytes=1)
    for topic in ("/zeek/dns", "/zeek/ssl"):
        store.add([(AT_US, Batch.of(topic, [{"n": 1}, {"n": 2}]).frames)])
        store.commit(now_us=AT_US)
    store.close()
    copier = Copier(str(path), place_at(str(tier)), TierRetention(0, 0))
    assert copier.step(AT_US)
    copier.close()
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, Any] = {"tier": str(tier), "journal": id_of(path).hex()}
    exec(example, names)  # noqa: S102
    records = names["records"]
    assert records["topic"].tolist() == ["/zeek/dns", "/zeek/dns"]
    assert records["value"].tolist() == [b"\x81\xa1n\x01", b"\x81\xa1n\x02"]
    assert list(records.columns) == re.findall(r"^\| `(\w+)` \| [A-Z]", TEXT, re.MULTILINE)


def test_what_stands_there(tmp_path: Path) -> None:
    path, tier = tmp_path / "journal", tmp_path / "tier"
    tier.mkdir()
    store = opened(path, segment_bytes=1)
    store.add([(AT_US, Batch.of("/a", list(range(7))).frames)])
    store.commit(now_us=AT_US)
    store.close()
    copier = Copier(str(path), place_at(str(tier)), TierRetention(0, 0))
    assert copier.step(AT_US)
    copier.close()
    found = sorted(str(file.relative_to(tier / id_of(path).hex())) for file in (tier / id_of(path).hex()).rglob("*.*"))
    data, *_, manifest = re.findall(r"^    (data/\d+-\d+\.parquet|manifest\.json)", TEXT, re.MULTILINE)
    assert found == [re.sub(r"\d+-\d+", f"{0:020}-{7:020}", data), manifest]
