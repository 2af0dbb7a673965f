"""Look for inputs that do harm: `python -m tests.fuzz.fuzz [TARGET ...] [--minutes 10]`.

Each target runs in a process of its own, guided by coverage where atheris is installed, else by chance. It begins with
the sound inputs and the corpus. What does harm is left in `build/fuzz/found/TARGET`: make it small, put it into
`tests/fuzz/corpus/TARGET`, and repair what it shows. Exit code 1 says that there is something.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from pathlib import Path

BUILD = Path("build") / "fuzz"
_PROGRESS_S = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(description="look for inputs that do harm")
    parser.add_argument("targets", nargs="*", help="which; all if none is named")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        fuzz = _fuzz_by_chance if importlib.util.find_spec("atheris") is None else _fuzz_by_coverage
        return fuzz(arguments.targets[0], arguments.minutes * 60)
    names = arguments.targets
    if not names:
        from tests.fuzz.targets import TARGETS

        names = [target.name for target in TARGETS]
    failed = []
    for number, name in enumerate(names, 1):
        print(f"fuzz: {name} ({number} of {len(names)}), {arguments.minutes:g} min", flush=True)
        command = [sys.executable, "-m", "tests.fuzz.fuzz", name, "--here", "--minutes", str(arguments.minutes)]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    print(
        f"fuzz: harm was found by: {', '.join(failed)}; see {BUILD / 'found'}" if failed else "fuzz: no harm was found"
    )
    return 1 if failed else 0


def _fuzz_by_chance(name: str, seconds: float) -> int:
    from tests.fuzz.target import Mutator, keep, kept
    from tests.fuzz.targets import TARGETS

    target = next(target for target in TARGETS if target.name == name)
    mutator = Mutator(str(time.time_ns()), [*target.seeds(), *kept(target)], target.words)
    began_s = told_s = time.monotonic()
    runs = 0
    while (now_s := time.monotonic()) < began_s + seconds:
        data = mutator.make()
        try:
            target.run(data)
        except BaseException:
            print(f"\nfuzz: {name}: harm after {runs:,} runs: {keep(target, data, BUILD / 'found')}", flush=True)
            raise
        runs += 1
        if now_s >= told_s + _PROGRESS_S:
            told_s = now_s
            print(f"\rfuzz: {name}: {runs:,} runs, {now_s - began_s:.0f} of {seconds:.0f} s", end="", flush=True)
    print(f"\rfuzz: {name}: {runs:,} runs, no harm", flush=True)
    return 0


def _fuzz_by_coverage(name: str, seconds: float) -> int:
    import atheris  # type: ignore[import-not-found,unused-ignore]

    with atheris.instrument_imports(include=["hub", "peers"]):
        from tests.fuzz.target import FOLDER, INPUT_LIMIT_BYTES, keep
        from tests.fuzz.targets import TARGETS
    target = next(target for target in TARGETS if target.name == name)
    for data in target.seeds():
        keep(target, data, BUILD / "seeds")
    folders = [folder / name for folder in (BUILD / "corpus", BUILD / "seeds", FOLDER, BUILD / "found")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds:.0f}", f"-max_len={INPUT_LIMIT_BYTES}", "-timeout=10", "-rss_limit_mb=2048"]
    options.append(f"-artifact_prefix={folders[3]}/")
    words = BUILD / f"{name}.words"
    escaped = ("".join(f"\\x{byte:02x}" for byte in word) for word in target.words)
    words.write_text("".join(f'"{word}"\n' for word in escaped))
    if target.words:
        options.append(f"-dict={words}")
    atheris.Setup(["fuzz", *options, *map(str, folders[:3])], target.run)
    atheris.Fuzz()  # ends the process
    return 0


if __name__ == "__main__":
    sys.exit(main())
