#!/bin/sh
# Counts the instructions of a decision under valgrind. Says what is missing, and
# skips, where valgrind or gungraun's runner (which must be of gungraun's version) is not there.
set -eu
cd "$(dirname "$0")"
version=0.20.0
if ! command -v valgrind >/dev/null; then
    echo "skipped: no valgrind (apt-get install valgrind)"
    exit 0
fi
runner=${GUNGRAUN_RUNNER:-$(command -v gungraun-runner || true)}
if [ -z "$runner" ]; then
    echo "skipped: no gungraun-runner (cargo install gungraun-runner --version $version)"
    exit 0
fi
GUNGRAUN_RUNNER=$runner exec cargo bench --locked --bench instructions --bench mesh_instructions "$@"
