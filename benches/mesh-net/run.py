#!/usr/bin/env python3
"""Costs and latencies of a mesh of real nodes.

    ./run.py                      everything, some 10 minutes; ends with tables in Markdown
    ./run.py --quick              fewer and shorter rounds, under 5 minutes
    ./run.py --only open,cost     some sections
    ./run.py --out tables.md      write the tables to this file, too

It starts nodes of `hivemind serve` on loopback, with a CA and certificates by `hivemind certs`, sends load with the
client of ../rls, and ends the nodes by their process ids. The default program is target/release/hivemind of this
repository: build it first with `cargo build --release --locked`.

Sections:
  cost    3, 10 and 30 nodes: time to join, CPU and bytes of a node at rest and under load, bytes of an update,
          how long a count takes to the others
  scale   the same number of requests at 3, 10 and 30 nodes, with the mesh and without: requests/s in all, CPU of a request
  open    three nodes, 10,000 requests/s in all, open loop; those that asked an owner apart
  floor   one node's CPU of a call with the mesh on and off, compared with the floors of ../rls

CPU is user + system of /proc/PID/stat. Compare only numbers of one run: client and nodes share the cores. Ends with 0
if all targets are met, 1 if one is missed, 2 if something did not work."""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
RLS = HERE.parent / "rls"
sys.path[:0] = [str(HERE), str(RLS)]
from bench.process import Broken  # noqa: E402  (the paths have to come first)
from bench.report import Report  # noqa: E402
from bench_mesh import calls, cost  # noqa: E402

ROOT = HERE.parent.parent
SECTIONS = {"cost": cost.cost, "scale": cost.scale, "open": calls.open_loop, "floor": calls.floor}


class Run:
    """Options of the sections: duration of the measurements, and the report."""

    def __init__(self, options, folder):
        self.folder, self.program = pathlib.Path(folder), options.server
        self.report = Report("A mesh of real nodes")
        self.quick = options.quick
        self.seconds = 4 if options.quick else 10
        self.samples = 60 if options.quick else 300
        self.n = 60_000 if options.quick else 200_000
        self.sizes = options.sizes


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(SECTIONS), help="sections, with commas")
    parser.add_argument("--sizes", type=lambda text: [int(part) for part in text.split(",")], default=[3, 10, 30])
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "target" / "release" / "hivemind")
    parser.add_argument("--out", type=pathlib.Path, help="write the tables to this file, too")
    parser.add_argument("--no-build", action="store_true", help="use the load client and the floors as they are")
    options = parser.parse_args()
    if not os.access(options.server, os.X_OK):
        parser.error(f"no {options.server}: cargo build --release --locked, or --server PATH")
    unknown = [name for name in options.only if name not in SECTIONS]
    if unknown:
        parser.error(f"no section {unknown[0]}; there are {', '.join(SECTIONS)}")
    options.server = options.server.resolve()
    return options


def main():
    options = arguments()
    # So that what was started is also ended when the run is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    if not options.no_build:
        subprocess.run(["cargo", "build", "--release", "--locked", "--quiet"], cwd=RLS, check=True)
    with tempfile.TemporaryDirectory(prefix="mesh-bench-") as folder:
        run = Run(options, folder)
        for name in options.only:
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                SECTIONS[name](run)
            except (Broken, OSError, subprocess.SubprocessError) as why:
                print(f"{name}: {why}", file=sys.stderr, flush=True)
                run.report.broken(name, str(why).replace("\n", " "))
    text = run.report.markdown({"hivemind": options.server})
    print(text)
    if options.out:
        options.out.write_text(text)
    sys.exit(2 if run.report.failed else 1 if run.report.missed() else 0)


if __name__ == "__main__":
    main()
