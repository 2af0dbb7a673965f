"""What a hub imports, it imports before it serves: later there may be no descriptor left to open a file with."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import peers.daemon.daemon
from peers.values.conversion import json_of, json_of_broker
before = set(sys.modules)
json_of(bytes.fromhex("c70901") + bytes(9))
assert json_of_broker(bytes.fromhex("02") + bytes(8)) == b"0"
print(sorted(set(sys.modules) - before))
"""


def test_conversions_import_nothing() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (ended.stdout.strip(), ended.stderr) == ("[]", "")
