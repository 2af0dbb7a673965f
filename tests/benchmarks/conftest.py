"""The comparison is a script, and its modules are beside it: tests of them look there, too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
