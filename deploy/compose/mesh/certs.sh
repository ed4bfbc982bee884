#!/usr/bin/env bash
# Creates a CA and a certificate for each of the three nodes in certs/, with the image or with HIVEMIND=path/to/hivemind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
hivemind() {
    if [ -n "${HIVEMIND-}" ]; then
        "$HIVEMIND" "$@"
    else
        docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/here" -w /here "${HIVEMIND_IMAGE:-hivemind:latest}" "$@"
    fi
}
[ -e certs/ca ] || hivemind certs ca --out certs/ca
for node in node-1 node-2 node-3; do
    [ -e "certs/$node" ] || hivemind certs node --ca certs/ca --name "$node" --out "certs/$node"
done
printf 'HIVEMIND_UID=%s\nHIVEMIND_GID=%s\n' "$(id -u)" "$(id -g)" >.env
