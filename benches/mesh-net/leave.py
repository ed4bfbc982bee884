#!/usr/bin/env python3
"""How long a node takes to leave a mesh by SIGTERM, by how many counters of a day it has.

    benches/mesh-net/leave.py [--server PATH] [COUNTERS ...]     default: 1,000, 50,000, 150,000 and 300,000

Three nodes on loopback. The first decides one request per counter, and receives SIGTERM. It returns its allowance and
lists the windows that it used before it logs that it has left; four fifths of `server.shutdown_grace` are available for
that (10 s by default; here 60). Then the other nodes decide one request for the whole limit of each of 20 unused windows:
the windows are complete if the handoff was. Build both first: `cargo build --release --locked`, here and in benches/rls.
Exits with 1 if a node did not leave, or a window is not complete."""
import argparse
import os
import pathlib
import shlex
import signal
import sys
import tempfile
import time
import types

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "benches/rls")]
from bench_mesh.fleet import Fleet  # noqa: E402  (the paths have to come first)
from bench_mesh.loads import loads  # noqa: E402

GRACE = 60
FRESH = 20
LIMIT = 1_000_000  # Of the rule `kept`.


def output(folder):
    """The output of the first node."""
    return "".join(file.read_text(errors="replace") for file in (folder / "nodes/node-00").iterdir() if file.suffix in (".out", ".err", ".log", ".txt") or file.name.startswith("node-00"))


def left(options, count):
    """Seconds until the node has left, or None; and how many of the unused windows are complete."""
    with tempfile.TemporaryDirectory(prefix="leave-") as name:
        folder = pathlib.Path(name)
        program = folder / "hivemind"
        # A fleet has no option for either.
        program.write_text(f'#!/bin/sh\nHIVEMIND_SERVER__SHUTDOWN_GRACE={GRACE}s HIVEMIND_OBSERVABILITY__LOG_LEVEL=info exec {shlex.quote(str(options.server))} "$@"\n')
        program.chmod(0o755)
        run = types.SimpleNamespace(program=program, folder=folder)
        with Fleet(run, "nodes", 3, True, {"max_keys": max(3 * count, 10_000)}) as fleet:
            loads(fleet.nodes[:1], keys=count, n=count, seconds=600, key="kept")
            begun = time.monotonic()
            os.kill(fleet.nodes[0].pid, signal.SIGTERM)
            while "left the mesh" not in output(folder) and time.monotonic() - begun < GRACE:
                time.sleep(0.01)
            took = time.monotonic() - begun
            # The next owners apply the handoff.
            time.sleep(1)
            whole = sum(fleet.ask(fleet.nodes[1 + number % 2], "kept", f"never-{number}", LIMIT).get("overallCode") == "OK" for number in range(FRESH))
            return (took if took < GRACE else None), whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counters", nargs="*", type=int, default=[1_000, 50_000, 150_000, 300_000])
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "target/release/hivemind")
    options = parser.parse_args()
    options.server = options.server.resolve()
    print("| counters | left after | unused windows, complete | load |\n|---|---|---|---|", flush=True)
    is_wrong = False
    for count in options.counters:
        took, whole = left(options, count)
        is_wrong |= took is None or whole < FRESH
        print(f"| {count:,} | {f'{took:.1f} s' if took else 'never'} | {whole} of {FRESH} | {os.getloadavg()[0]:.1f} |", flush=True)
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
