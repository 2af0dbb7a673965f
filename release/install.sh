#!/bin/sh
# Install a hub with pinned dependencies into a folder, small: `release/install.sh /opt/topichub`, from the sources.
#
# No pip, no debug symbols, no tests of dependencies. Modules that a hub imports are compiled to bytecode: the folder may
# be read-only later, and a start would compile them each time.
set -eu
cd "$(dirname "$0")/.."
target=$1
python=${PYTHON:-python3}
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT

# A copy: a build in place would also take what an earlier one has left in `build`.
mkdir -p "$tools/source/examples"
cp -r pyproject.toml setup.py MANIFEST.in README.md LICENSE hub peers pyspark_hub "$tools/source"
cp -r examples/systemd "$tools/source/examples"
find "$tools/source" -name '*.so' -delete
"$python" -m venv "$tools/build"
"$tools/build/bin/python" -m pip install --quiet --no-compile --require-hashes -r release/build-requirements.txt
# An image whose hot loops are not compiled would be slow without a sign of it: the build fails instead.
TOPICHUB_TWINS=${TOPICHUB_TWINS:-required} "$tools/build/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation \
    --wheel-dir "$tools/wheel" "$tools/source"
"$python" -m venv --without-pip "$target"
into() { "$tools/build/bin/python" -m pip --python "$target/bin/python" install --quiet --no-compile "$@"; }
into --require-hashes -r release/requirements.txt
into --no-deps "$tools"/wheel/*.whl

packages=$("$target/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf "$packages/apsw/tests" "$packages/apsw/sqlite_extra_binaries"
if command -v strip >/dev/null; then
    find "$packages" -name '*.so' -exec strip --strip-unneeded {} +
fi
"$target/bin/python" -m compileall -q -x 'site-packages/(pygments|rich_rst|peers/bench)' "$packages"
