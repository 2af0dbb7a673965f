"""Look for known vulnerabilities of the pinned dependencies: `python -m release.audit`.

Exit code 1: a vulnerability. A package about which the advisory database gives no answer, as without a network, is
reported as not checked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_PINS = ("requirements.txt", "build-requirements.txt")


def findings(answer: str) -> tuple[list[str], list[str], int]:
    """Return the vulnerabilities, the packages that were not checked, and the number of all, from pip-audit's JSON."""
    found, unchecked = [], []
    dependencies = json.loads(answer)["dependencies"]
    for one in dependencies:
        if "skip_reason" in one:
            unchecked.append(one["name"])
        found += [
            f"{one['name']} {one['version']}: {vulnerability['id']}, "
            f"fixed in {', '.join(vulnerability['fix_versions']) or 'no version yet'}"
            for vulnerability in one.get("vulns", ())
        ]
    return found, unchecked, len(dependencies)


def main() -> int:
    failed = False
    for name in _PINS:
        path = Path(__file__).with_name(name)
        done = subprocess.run(
            [sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip", "--format=json", "-r", path],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if not done.stdout:
            print(f"audit: release/{name} was NOT CHECKED: {done.stderr.strip()}", file=sys.stderr)
            continue
        found, unchecked, count = findings(done.stdout)
        for line in found:
            print(f"audit: {line}")
        print(f"audit: release/{name}: {len(found)} known vulnerabilities in {count - len(unchecked)} packages")
        if unchecked:
            print(f"audit: NOT CHECKED, no answer from the advisory database: {', '.join(unchecked)}", file=sys.stderr)
        failed = failed or bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
