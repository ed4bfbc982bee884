#!/usr/bin/env python3
"""Benchmark of the chart presets: calls per second at the CPU request, and memory at `max_keys` counters.

    benches/presets.py [--hivemind BINARY] [--only cpu|memory] [--preset NAME ...]     both tables for all three; minutes

For each of small, recommended and high it runs three nodes of a mesh, as chart and manifests do, with the `workers` and `max_keys` of the preset. The
client of benches/rls calls all three at once; each call names another of `max_keys` values.

CPU: each node is in its own control group with the CPU request of the preset as quota (needs root; cgroup v1 or v2). Clients run outside of it, with one
call at a time per node and with 128 concurrent calls per node, for a limit of which each node holds a share, and for a limit so small that every call asks
the owner. The capacity is the quota divided by the CPU of a call over all three nodes, including work for each other. The measured rate is lower on a
machine with other jobs, or with fewer cores than three quotas and the clients.

Memory is the resident size of an idle node, and the peak of a node after `max_keys` values of a daily limit, each once and as fast as it responds: alone,
and the largest of the three. Exit status 1 if the memory limit of a preset is exceeded or counters are missing. `--break keys` uses three times as many
keys, which must be detected."""
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
from bench_mesh.fleet import Fleet  # noqa: E402  (needs the paths above)
from bench_mesh.loads import loads  # noqa: E402


def presets():
    """Cores, requested MiB, limit in MiB, workers and max_keys of each preset, read from the chart."""
    text = (ROOT / "deploy/helm/hivemind/templates/_parts.tpl").read_text()
    row = r'"(\w+)" \(dict "cpu" "(\d+)m" "request" "(\d+)(Mi|Gi)" "memory" "(\d+)(Mi|Gi)" "workers" (\d+) "keys" (\d+)\)'
    mib = {"Mi": 1, "Gi": 1024}
    found = {name: (int(cpu) / 1000, int(least) * mib[unit], int(most) * mib[most_unit], int(workers), int(keys))
             for name, cpu, least, unit, most, most_unit, workers, keys in re.findall(row, text)}
    assert len(found) == 3, "cannot parse the presets of the chart"
    return found


PERIOD = 100_000  # Microseconds, as in Kubernetes.
NODES = 3  # As in the chart.
FULL = 0.95  # Ratio of `max_keys` above which a node counts as full.
BROKEN = 3  # Factor of `--break keys`.
# The rules of bench_mesh: the first limit is never reached, and each node holds a share; for the second each call asks the owner.
RULES = {"hot": "from a share", "few": "from the owner"}


class Group:
    """A control group that is removed after the run."""

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
        """Moves a process to the parent group; only an empty group can be removed."""
        (self.home.parent / "cgroup.procs").write_text(str(pid))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.home.rmdir()

    def throttled(self):
        found = dict(line.split() for line in (self.home / "cpu.stat").read_text().splitlines())
        return int(found["nr_throttled"]), int(found["nr_periods"])


def cpu(pid):
    """CPU time of all threads in seconds, with a resolution of nanoseconds."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()) / 1e9


def highest(pid):
    """The peak resident size in MiB."""
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def resident(pid):
    """The current resident size in MiB."""
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


@contextlib.contextmanager
def started(options, name, workers, max_keys, mesh=True):
    """Starts nodes with the settings of a preset. The program is a script, because a fleet has no option for `workers`."""
    with tempfile.TemporaryDirectory(prefix="presets-") as folder:
        program = pathlib.Path(folder, "hivemind")
        program.write_text(f'#!/bin/sh\nHIVEMIND_SERVER__WORKERS={workers} exec {shlex.quote(str(options.hivemind))} "$@"\n')
        program.chmod(0o755)
        run = types.SimpleNamespace(program=program, folder=pathlib.Path(folder))
        with Fleet(run, name, NODES if mesh else 1, mesh, {"max_keys": max_keys}) as fleet:
            yield fleet


def filled(options, name, workers, max_keys, mesh):
    """Memory of the largest node, idle and with all counters, and the lowest number of counters of a node."""
    with started(options, name, workers, max_keys, mesh) as fleet:
        rest = max(resident(node.pid) for node in fleet.nodes)
        loads(fleet.nodes, keys=max_keys, n=max_keys, seconds=600, key="kept")
        series = "hivemind_mesh_keys" if mesh else "hivemind_keys"
        return rest, max(highest(node.pid) for node in fleet.nodes), int(min(fleet.metric(node, series) for node in fleet.nodes))


def carried(options, name, cores, workers, max_keys, rule):
    """CPU per call and calls per node for sequential and concurrent calls, and the number of throttled periods."""
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
    print("| preset | CPU | decided | CPU per call, sequential | 128 concurrent | capacity | measured | throttled periods |\n|---|---|---|---|---|---|---|---|", flush=True)
    for name, (cores, _, _, workers, max_keys) in found.items():
        for rule, what in RULES.items():
            alone, many, throttled, periods = carried(options, name, cores, workers, max_keys, rule)
            print(f"| `{name}` | {cores:g} core | {what} | {alone[0] * 1e6:.0f} µs | {many[0] * 1e6:.1f} µs | {cores / alone[0]:,.0f} to {cores / many[0]:,.0f}/s "
                  f"| {alone[1]:,.0f} to {many[1]:,.0f}/s | {throttled} of {periods} |", flush=True)
    print(f"\nload average at the end: {os.getloadavg()[0]:.1f}\n")


def memory_table(options, found):
    """Prints the memory table and returns the violations."""
    print("| preset | `max_keys` | alone: idle, full | one of three in a mesh: idle, full | request | limit |\n|---|---|---|---|---|---|", flush=True)
    wrong = []
    for name, (_, least, most, workers, max_keys) in found.items():
        max_keys *= BROKEN if options.spoilt else 1
        sizes = [filled(options, name, workers, max_keys, mesh) for mesh in (False, True)]
        for where, (_, size, keys) in zip(("alone", "in a mesh"), sizes):
            if size >= most:
                wrong.append(f"`{name}` {where}: {size:.1f} MiB with {keys:,} counters, limit {most} MiB")
            if keys < FULL * max_keys:
                wrong.append(f"`{name}` {where}: only {keys:,} of {max_keys:,} counters")
        shown = [f"{rest:.0f} MiB, {size:.1f} MiB ({keys:,} counters)" for rest, size, keys in sizes]
        print(f"| `{name}` | {max_keys:,} | {shown[0]} | {shown[1]} | {least} MiB | {most} MiB |", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hivemind", default=ROOT / "target/release/hivemind")
    parser.add_argument("--only", choices=("cpu", "memory"))
    parser.add_argument("--preset", choices=tuple(presets()), nargs="+", help="only these")
    parser.add_argument("--seconds", type=int, default=10, help="duration of each CPU run")
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
