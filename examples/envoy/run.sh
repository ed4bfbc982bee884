#!/usr/bin/env bash
# Hivemind, an upstream and, if there is one, Envoy. Ctrl-C ends all of them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
cargo run --release --locked -- serve --rules rules.yaml &
python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1 &
command -v "${ENVOY:-envoy}" >/dev/null || { echo 'No Envoy here: install it or set ENVOY=path; Hivemind runs alone.'; wait; exit; }
"${ENVOY:-envoy}" -c envoy.yaml --log-level warning &
wait
