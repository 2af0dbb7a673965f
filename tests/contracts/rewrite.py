"""Write all goldens anew: `python -m tests.contracts.rewrite`. Read the diff afterwards."""

from __future__ import annotations

import os
import sys

import pytest

from tests.contracts.golden import REWRITE

if __name__ == "__main__":
    os.environ[REWRITE] = "1"
    sys.exit(pytest.main(["tests/contracts", "-q", *sys.argv[1:]]))
