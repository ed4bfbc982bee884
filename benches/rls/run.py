#!/usr/bin/env python3
"""Benchmark of the rate limit RPC, compared with its transport.

    ./run.py --quick                         fewer and shorter rounds, under 3 minutes
    ./run.py --instructions --out table.md   everything, about 12 minutes
    ./run.py --only hot,keys,over            some sections
    ./run.py --server system=A --server mimalloc=B --only hot,most
                                             several binaries, taking turns in one table
    ./run.py --set server.workers=1          configuration settings for all servers

It starts `hivemind serve` (by default target/release/hivemind of this repository: build it first with
`cargo build --release --locked`) and the baseline servers on free loopback ports, sends to them in turns, stops them by
their ids, and prints Markdown: a table of targets, each PASS or FAIL, and a table per section.

Sections:
  hot, keys, over,   CPU, p50 and p99 of a call, compared with ref_h2 (bare h2, constant response) and ref_tonic, closed loop:
  changing, single   one hot key; 100,000 keys; over the limit; a changing header; 1 connection x 1 stream
  cores              CPU of a call with one worker and with two
  telemetry          CPU and instructions of a call with all telemetry and without any
  memory             resident memory with a million keys
  open               latency at 10,000 calls per second, open loop
  envoy              the same through Envoy, at half of its capacity; needs Envoy (./test installs it)
  most               the maximum of calls per second, and the CPU of a call at half of that
  instructions       instructions of a call with callgrind; only on request; needs valgrind

CPU is user + system from /proc/PID/stat, in ticks of 10 ms, so keep --n at 50,000 or more. Only ratios of one run
are meaningful: the load client and other jobs share the cores.
Exit status: 0 if all targets are met, 1 if one is missed, 2 on errors."""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from bench import service, transport  # noqa: E402  (must follow the line above)
from bench.process import HERE, ROOT, Broken  # noqa: E402
from bench.report import Report  # noqa: E402

ALONE = {"cores": transport.cores, "telemetry": transport.telemetry, "memory": service.memory, "open": service.open_loop,
         "envoy": service.through_envoy, "most": service.most, "instructions": transport.instructions}
SECTIONS = [*transport.SCENARIOS, *ALONE]


class Run:
    """Settings of the sections: durations, number of rounds, and the report."""

    def __init__(self, options, folder):
        quick = options.quick
        self.folder, self.report = pathlib.Path(folder), Report(options.title)
        self.servers, self.settings = dict(options.server), dict(options.set)
        self.cores = os.sched_getaffinity(0)
        self.rounds = options.rounds or (2 if quick else 5)
        self.n = options.n or (30_000 if quick else 100_000)
        self.seconds = 3 if quick else 10
        self.open_rounds = 1 if quick else 3
        self.envoy_seconds = 2 if quick else 5
        self.most_seconds, self.most_rounds = (1, 1) if quick else (3, 3)
        self.counted = (1_000, 4_000) if quick else (2_000, 12_000)


def pair(text):
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"`{text}` is not NAME=VALUE")
    return name, value


def server(text):
    name, program = pair(text)
    program = pathlib.Path(program).resolve()
    if not os.access(program, os.X_OK):
        raise argparse.ArgumentTypeError(f"program not found: {program}")
    if not name or "/" in name or name in ("ref_h2", "ref_tonic"):
        raise argparse.ArgumentTypeError(f"`{name}` is not a valid server name")
    return name, program


def sections(text):
    chosen = text.split(",")
    for name in chosen:
        if name not in SECTIONS:
            raise argparse.ArgumentTypeError(f"unknown section `{name}`; known: {', '.join(SECTIONS)}")
    return chosen


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", type=sections, help="sections, with commas")
    parser.add_argument("--instructions", action="store_true", help="count instructions as well (some minutes)")
    parser.add_argument("--server", type=server, action="append", default=[], metavar="NAME=PATH",
                        help="a binary to measure; several alternate")
    parser.add_argument("--set", type=pair, action="append", default=[], metavar="KEY=VALUE",
                        help="a configuration setting")
    parser.add_argument("--rounds", type=int, help="rounds of the baseline comparison")
    parser.add_argument("--n", type=int, help="calls per round")
    parser.add_argument("--out", type=pathlib.Path, help="also write the tables to this file")
    parser.add_argument("--title", default="The rate limit RPC", help="the heading")
    parser.add_argument("--no-build", action="store_true", help="do not rebuild the baselines and the load client")
    options = parser.parse_args()
    if not options.server:
        built = ROOT / "target" / "release" / "hivemind"
        if not built.is_file():
            parser.error("target/release/hivemind not found; run cargo build --release --locked or pass --server NAME=PATH")
        options.server = [("hivemind", built)]
    if options.only is None:
        options.only = [name for name in SECTIONS if name != "instructions"]
    if options.instructions and "instructions" not in options.only:
        options.only.append("instructions")
    return options


def measure(run, chosen):
    """Runs each section; those with baselines form one section, because they alternate. A failed section does not stop the others."""
    together = [name for name in chosen if name in transport.SCENARIOS]
    steps = [("baselines: " + ", ".join(together), lambda: transport.floors(run, together))] if together else []
    steps += [(name, lambda step=ALONE[name]: step(run)) for name in chosen if name in ALONE]
    for name, step in steps:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            step()
        except (Broken, OSError, subprocess.TimeoutExpired) as why:
            print(f"{name}: {why}", file=sys.stderr, flush=True)
            run.report.broken(name, str(why).replace("\n", " "))


def main():
    options = arguments()
    # Stops all processes if the run is terminated.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    if not options.no_build:
        subprocess.run(["cargo", "build", "--release", "--locked", "--quiet"], cwd=HERE, check=True)
    with tempfile.TemporaryDirectory(prefix="rls-bench-") as folder:
        run = Run(options, folder)
        measure(run, options.only)
    text = run.report.markdown(run.servers)
    print(text)
    if options.out:
        options.out.write_text(text)
    sys.exit(2 if run.report.failed else 1 if run.report.missed() else 0)


if __name__ == "__main__":
    main()
