#!/usr/bin/env bash
# Starts an axum router with a limit. EXAMPLE=path selects a built example.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[ -n "${EXAMPLE-}" ] || { cargo build --release --locked -p hivemind-rl-tower --features axum --example axum && EXAMPLE=../../target/release/examples/axum; }
exec "$EXAMPLE"
