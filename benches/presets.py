#!/usr/bin/env python3
"""What each preset of the chart carries: its CPU by a control group, its memory with as many counters as it may have.

    benches/presets.py [--hivemind BINARY] [--only cpu|memory] [--preset NAME ...]     both tables, of all three; minutes

For each of small, recommended and high: three nodes of a mesh, which is what chart and manifests run, each with the preset's `workers` and
`max_keys`. The client of benches/rls asks all three at once, each call for another of `max_keys` values.

CPU: each node is in a control group of its own with the preset's CPU request as quota (as root, cgroup v1 or v2). Calls come from outside of it,
one by one at each node, and 128 under way at once at each: of a limit of which each node has a share in hand, and of one that is so small that its owner
is asked for each call. `carries` is the quota divided by the CPU of a call, user and system, over all three nodes: what they do for each other is in it.
`seen` is what a node answered in that run. On a machine that has other work, or fewer cores than three quotas and the clients, it is less than that.

Memory is the resident size of a node that nobody has asked yet, and the highest of one that was asked for `max_keys` values of a limit by the day, each once
and as fast as it answers: alone, and of the three the largest. Ends with 1 if a preset's limit is exceeded, or if there are not as many counters as there may be.
`--break keys` asks for, and allows, three times as many, to see that found."""
import argparse
import contextlib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import types

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE / "mesh-net"), str(HERE / "rls")]
from bench_mesh.fleet import Fleet  # noqa: E402  (the paths have to come first)
from bench_mesh.loads import loads  # noqa: E402


def presets():
    """cores, MiB asked for, MiB at most, workers, max_keys of each: as the chart has them."""
    text = (ROOT / "deploy/helm/hivemind/templates/_parts.tpl").read_text()
    row = r'"(\w+)" \(dict "cpu" "(\d+)m" "request" "(\d+)(Mi|Gi)" "memory" "(\d+)(Mi|Gi)" "workers" (\d+) "keys" (\d+)\)'
    mib = {"Mi": 1, "Gi": 1024}
    found = {name: (int(cpu) / 1000, int(least) * mib[unit], int(most) * mib[most_unit], int(workers), int(keys))
             for name, cpu, least, unit, most, most_unit, workers, keys in re.findall(row, text)}
    assert len(found) == 3, "the chart's presets are written in another way"
    return found


PERIOD = 100_000  # Microseconds, as Kubernetes has it.
NODES = 3  # As many as the chart has.
FULL = 0.95  # Of `max_keys`, how many counters a node has that is called full.
BROKEN = 3  # How many times as many `--break keys` allows.
# The rules of bench_mesh: nobody reaches the first, and each node has a share of it; of the second everything is with the owner.
RULES = {"hot": "a share in hand", "few": "its owner asked"}


class Group:
    """A control group of this run, gone with it."""

    def __init__(self, name, cores):
        v1, v2 = pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup")
        self.home = (v1 if (v1 / "cpu.cfs_quota_us").exists() else v2) / f"hivemind-{name}-{os.getpid()}"
        self.home.mkdir()
        if self.home.parent == v1:
            (self.home / "cpu.cfs_period_us").write_text(str(PERIOD))
            (self.home / "cpu.cfs_quota_us").write_text(str(int(cores * PERIOD)))
        else:
            (self.home / "cpu.max").write_text(f"{int(cores * PERIOD)} {PERIOD}")

    def take(self, pid):
        (self.home / "cgroup.procs").write_text(str(pid))

    def free(self, pid):
        """Back where the others are; a group that holds somebody cannot go."""
        (self.home.parent / "cgroup.procs").write_text(str(pid))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.home.rmdir()

    def throttled(self):
        found = dict(line.split() for line in (self.home / "cpu.stat").read_text().splitlines())
        return int(found["nr_throttled"]), int(found["nr_periods"])


def cpu(pid):
    """Seconds of CPU of all threads so far, to the nanosecond."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()) / 1e9


def highest(pid):
    """The highest resident size so far, in MiB."""
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def resident(pid):
    """The resident size now, in MiB."""
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


@contextlib.contextmanager
def started(options, name, workers, max_keys, mesh=True):
    """Nodes with a preset's settings; the program is a script, since a fleet has no word for `workers`."""
    with tempfile.TemporaryDirectory(prefix="presets-") as folder:
        program = pathlib.Path(folder, "hivemind")
        program.write_text(f'#!/bin/sh\nHIVEMIND_SERVER__WORKERS={workers} exec {shlex.quote(str(options.hivemind))} "$@"\n')
        program.chmod(0o755)
        run = types.SimpleNamespace(program=program, folder=pathlib.Path(folder))
        with Fleet(run, name, NODES if mesh else 1, mesh, {"max_keys": max_keys}) as fleet:
            yield fleet


def filled(options, name, workers, max_keys, mesh):
    """The memory of the largest node, at rest and with as many counters as it may have, and how many the one has that has the fewest."""
    with started(options, name, workers, max_keys, mesh) as fleet:
        rest = max(resident(node.pid) for node in fleet.nodes)
        loads(fleet.nodes, keys=max_keys, n=max_keys, seconds=600, key="kept")
        series = "hivemind_mesh_keys" if mesh else "hivemind_keys"
        return rest, max(highest(node.pid) for node in fleet.nodes), int(min(fleet.metric(node, series) for node in fleet.nodes))


def carried(options, name, cores, workers, max_keys, rule):
    """Of calls one by one and of many at once: CPU of a call and how many a node answered; and of how many periods the quota was used up."""
    with started(options, name, workers, max_keys) as fleet, contextlib.ExitStack() as stack:
        groups = [stack.enter_context(Group(f"{name}-{at}", cores)) for at in range(NODES)]
        for group, node in zip(groups, fleet.nodes):
            group.take(node.pid)

        def load(connections, streams):
            before = sum(cpu(node.pid) for node in fleet.nodes)
            answers = loads(fleet.nodes, conns=connections, streams=streams, keys=max_keys, n=100_000_000, seconds=options.seconds, key=rule)
            used = sum(cpu(node.pid) for node in fleet.nodes) - before
            return used / sum(answer["n"] for answer in answers), sum(answer["rps"] for answer in answers) / NODES

        alone, many = load(1, 1), load(4, 32)
        throttled, periods = (sum(both) for both in zip(*(group.throttled() for group in groups)))
        for group, node in zip(groups, fleet.nodes):
            group.free(node.pid)
        return alone, many, throttled, periods


def cpu_table(options, found):
    print("| preset | CPU | a limit with | CPU of a call, one by one | 128 at once | carries | seen | at its quota in |\n|---|---|---|---|---|---|---|---|", flush=True)
    for name, (cores, _, _, workers, max_keys) in found.items():
        for rule, what in RULES.items():
            alone, many, throttled, periods = carried(options, name, cores, workers, max_keys, rule)
            print(f"| `{name}` | {cores:g} core | {what} | {alone[0] * 1e6:.0f} µs | {many[0] * 1e6:.1f} µs | {cores / alone[0]:,.0f} to {cores / many[0]:,.0f}/s "
                  f"| {alone[1]:,.0f} to {many[1]:,.0f}/s | {throttled} of {periods} periods |", flush=True)
    print(f"\nload of the machine at the end: {os.getloadavg()[0]:.1f}\n")


def memory_table(options, found):
    """What keeps a preset from having room for what it allows."""
    print("| preset | `max_keys` | alone: at rest, full | of three in a mesh: at rest, full | asked for | at most |\n|---|---|---|---|---|---|", flush=True)
    wrong = []
    for name, (_, least, most, workers, max_keys) in found.items():
        max_keys *= BROKEN if options.spoilt else 1
        sizes = [filled(options, name, workers, max_keys, mesh) for mesh in (False, True)]
        for where, (_, size, keys) in zip(("alone", "in a mesh"), sizes):
            if size >= most:
                wrong.append(f"`{name}` {where}: {size:.1f} MiB with {keys:,} counters, and {most} MiB is its limit")
            if keys < FULL * max_keys:
                wrong.append(f"`{name}` {where}: {keys:,} counters, so that nothing is said about {max_keys:,}")
        shown = [f"{rest:.0f} MiB, {size:.1f} MiB ({keys:,} counters)" for rest, size, keys in sizes]
        print(f"| `{name}` | {max_keys:,} | {shown[0]} | {shown[1]} | {least} MiB | {most} MiB |", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hivemind", default=ROOT / "target/release/hivemind")
    parser.add_argument("--only", choices=("cpu", "memory"))
    parser.add_argument("--preset", choices=tuple(presets()), nargs="+", help="these alone")
    parser.add_argument("--seconds", type=int, default=10, help="of each of the four runs of a preset by which its CPU is measured")
    parser.add_argument("--break", dest="spoilt", choices=("keys",), help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.hivemind = pathlib.Path(options.hivemind).resolve()
    subprocess.run(["cargo", "build", "--release", "--locked", "--quiet"], cwd=HERE / "rls", check=True)
    found = {name: one for name, one in presets().items() if options.preset is None or name in options.preset}
    if options.only != "memory":
        cpu_table(options, found)
    wrong = [] if options.only == "cpu" else memory_table(options, found)
    print(*(f"\nFound: {each}" for each in wrong), sep="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
