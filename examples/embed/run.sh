#!/usr/bin/env bash
# Runs an embedded limiter that decides input lines. EXAMPLE=path selects a built example.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[ -n "${EXAMPLE-}" ] || { cargo build --release --locked -p hivemind-rl-core --example embed && EXAMPLE=../../target/release/examples/embed; }
exec "$EXAMPLE"
