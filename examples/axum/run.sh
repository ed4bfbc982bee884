#!/usr/bin/env bash
# A router of axum with a limit before it. EXAMPLE=path takes a built one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[ -n "${EXAMPLE-}" ] || { cargo build --release --locked -p hivemind-rl-tower --features axum --example axum && EXAMPLE=../../target/release/examples/axum; }
exec "$EXAMPLE"
