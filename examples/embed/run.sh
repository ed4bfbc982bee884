#!/usr/bin/env bash
# The limiter of a program, asked line by line. EXAMPLE=path takes a built one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[ -n "${EXAMPLE-}" ] || { cargo build --release --locked -p hivemind-rl-core --example embed && EXAMPLE=../../target/release/examples/embed; }
exec "$EXAMPLE"
