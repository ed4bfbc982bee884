#!/usr/bin/env python3
"""What the rate limit RPC of Hivemind costs, beside what its transport costs.

    ./run.py --quick                         a look, under 3 minutes
    ./run.py --instructions --out table.md   everything, some 12 minutes
    ./run.py --only hot,keys,over            some sections
    ./run.py --server system=A --server mimalloc=B --only hot,most
                                             several binaries, taking turns in one table
    ./run.py --set server.workers=1          settings of the configuration, for all servers

It starts `hivemind serve` (target/release/hivemind of this repository unless told otherwise: build it first with
`cargo build --release --locked`) and the floors on free ports of loopback, sends to them in turns, ends them by
their process ids, and prints Markdown: a table of targets, each PASS or FAIL, and a table for each section.

Sections:
  hot, keys, over,   CPU, p50 and p99 of a call beside ref_h2 (bare h2, constant answer) and ref_tonic, closed loop:
  changing, single   one hot key; 100,000 keys; over its limit; a header that changes; 1 connection x 1 stream
  cores              CPU of a call with one worker and with two
  telemetry          CPU and instructions of a call with everything counted, served and sent, and with nothing
  memory             resident memory with a million keys
  open               latency at 10,000 calls a second, open loop
  envoy              the same through Envoy, at half of what it carries; needs Envoy (./test installs it)
  most               the most calls a second, and the CPU of each at half of that
  instructions       instructions of a call, by callgrind; only if asked for; needs valgrind

CPU is user + system from /proc/PID/stat, in ticks of 10 ms, so keep --n at 50,000 or more. Only ratios of one run
mean something: the load client shares the cores, and so may strangers. Ends with 0 if all targets are met, 1 if one
is missed, 2 if something did not work."""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from bench import service, transport  # noqa: E402  (the line above has to come first)
from bench.process import HERE, ROOT, Broken  # noqa: E402
from bench.report import Report  # noqa: E402

ALONE = {"cores": transport.cores, "telemetry": transport.telemetry, "memory": service.memory, "open": service.open_loop,
         "envoy": service.through_envoy, "most": service.most, "instructions": transport.instructions}
SECTIONS = [*transport.SCENARIOS, *ALONE]


class Run:
    """What the sections are told: how long to measure what, and where to report it."""

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
        raise argparse.ArgumentTypeError(f"there is no program {program}")
    if not name or "/" in name or name in ("ref_h2", "ref_tonic"):
        raise argparse.ArgumentTypeError(f"`{name}` cannot be a server's name")
    return name, program


def sections(text):
    chosen = text.split(",")
    for name in chosen:
        if name not in SECTIONS:
            raise argparse.ArgumentTypeError(f"`{name}` is no section; there are {', '.join(SECTIONS)}")
    return chosen


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", type=sections, help="sections, with commas")
    parser.add_argument("--instructions", action="store_true", help="count instructions as well (some minutes)")
    parser.add_argument("--server", type=server, action="append", default=[], metavar="NAME=PATH",
                        help="a binary to measure; several take turns")
    parser.add_argument("--set", type=pair, action="append", default=[], metavar="KEY=VALUE",
                        help="a setting, by its name in the configuration")
    parser.add_argument("--rounds", type=int, help="rounds beside the floors")
    parser.add_argument("--n", type=int, help="calls in each of these rounds")
    parser.add_argument("--out", type=pathlib.Path, help="write the tables to this file, too")
    parser.add_argument("--title", default="The rate limit RPC", help="the heading")
    parser.add_argument("--no-build", action="store_true", help="use the floors and the load client as they are")
    options = parser.parse_args()
    if not options.server:
        built = ROOT / "target" / "release" / "hivemind"
        if not built.is_file():
            parser.error("no target/release/hivemind: cargo build --release --locked, or --server NAME=PATH")
        options.server = [("hivemind", built)]
    if options.only is None:
        options.only = [name for name in SECTIONS if name != "instructions"]
    if options.instructions and "instructions" not in options.only:
        options.only.append("instructions")
    return options


def measure(run, chosen):
    """Each section, the ones beside the floors as one because they take turns; one that breaks ends alone."""
    together = [name for name in chosen if name in transport.SCENARIOS]
    steps = [("beside the floors: " + ", ".join(together), lambda: transport.floors(run, together))] if together else []
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
    # So that what was started is also ended when the run is.
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
