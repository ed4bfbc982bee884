#!/usr/bin/env python3
"""What each preset of the chart carries: its CPU by a control group, its memory with as many counters as it may have.

    benches/presets.py [--hivemind BINARY] [--only cpu|memory] [--preset NAME]

For each of small, recommended and high: `hivemind serve` with the preset's `workers` and `max_keys`, in a control group of its own with the
preset's CPU request as quota (as root, cgroup v1 or v2), and calls of Envoy's protocol from outside of it: one by one, and 128 under way at
once. What it carries is its quota divided by the CPU of a call, user and system: on a machine that has other work, a server is rarely
let run up to its quota.

Memory is the resident size of a node that nobody has asked yet, and the highest of one that was asked for `max_keys` values of a limit by the day, each once: alone, and as one of three nodes
of a mesh that are all asked for all of them. The client of benches/rls is built first: `cargo build --release --locked` there."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import types

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE / "mesh-net"), str(HERE / "rls")]
from bench.process import BUILT  # noqa: E402  (the paths have to come first)
from bench_mesh.fleet import Fleet  # noqa: E402
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

    def enter(self):
        (self.home / "cgroup.procs").write_text(str(os.getpid()))

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


def filled(options, name, max_keys, mesh):
    """The memory of a node at rest and with as many counters as it may have, and how many it has."""
    with tempfile.TemporaryDirectory(prefix="presets-") as folder:
        run = types.SimpleNamespace(program=options.hivemind, folder=pathlib.Path(folder))
        with Fleet(run, name, 3 if mesh else 1, mesh, {"max_keys": max_keys}) as fleet:
            rest = resident(fleet.nodes[0].pid)
            loads(fleet.nodes, keys=max_keys, n=max_keys, seconds=600, key="kept")
            node = fleet.nodes[0]
            return rest, highest(node.pid), int(fleet.metric(node, "hivemind_mesh_keys" if mesh else "hivemind_keys"))


def carried(options, name, cores, workers, max_keys):
    group = Group(name, cores)
    ports = {f"HIVEMIND_SERVER__{port}_PORT": "0" for port in ("GRPC", "ADMIN", "METRICS")}
    more = {"HIVEMIND_SERVER__WORKERS": str(workers), "HIVEMIND_RATE_LIMITING__MAX_KEYS": str(max_keys)}
    process = subprocess.Popen([options.hivemind, "serve"], env={**os.environ, **ports, **more}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               preexec_fn=group.enter)
    try:
        address = next(found[1] for line in process.stdout if (found := re.search(r"grpc://(\S+)", line)))
        time.sleep(1)

        def load(connections, streams, seconds):
            command = [BUILT / "load", "grpc", "--addr", address, "--conns", str(connections), "--streams", str(streams), "--keys", str(max_keys), "--n", "100000000",
                       "--seconds", str(seconds), "--domain", "demo", "--key", "remote_address"]
            before = cpu(process.pid)
            answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            return {**answer, "cpu": (cpu(process.pid) - before) / answer["n"]}

        alone, many = load(1, 1, options.seconds), load(4, 32, options.seconds)
        throttled, periods = group.throttled()
    finally:
        process.terminate()
        process.wait(20)
        group.home.rmdir()
    return alone, many, throttled, periods


def cpu_table(options, found):
    print("| preset | CPU | of a call, one by one | 128 at once | carries | seen | at its quota in |\n|---|---|---|---|---|---|---|")
    for name, (cores, _, _, workers, max_keys) in found.items():
        alone, many, throttled, periods = carried(options, name, cores, workers, max_keys)
        carries = [cores / answer["cpu"] for answer in (alone, many)]
        print(f"| `{name}` | {cores:g} core | {alone['cpu'] * 1e6:.0f} µs | {many['cpu'] * 1e6:.1f} µs | {carries[0]:,.0f} to {carries[1]:,.0f}/s "
              f"| {alone['rps']:,.0f} to {many['rps']:,.0f}/s | {throttled} of {periods} periods |", flush=True)
    print(f"\nload of the machine at the end: {os.getloadavg()[0]:.1f}\n")


def memory_table(options, found):
    """Whether each preset has room for what it allows; says no by its exit status."""
    print("| preset | `max_keys` | alone: at rest, full | of three in a mesh: at rest, full | asked for | at most |\n|---|---|---|---|---|---|", flush=True)
    fits = True
    for name, (_, least, most, _, max_keys) in found.items():
        sizes = [filled(options, name, max_keys, mesh) for mesh in (False, True)]
        fits &= all(size < most for _, size, _ in sizes)
        shown = [f"{rest:.0f} MiB, {size:.0f} MiB ({keys:,} counters)" for rest, size, keys in sizes]
        print(f"| `{name}` | {max_keys:,} | {shown[0]} | {shown[1]} | {least} MiB | {most} MiB |", flush=True)
    return fits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hivemind", default=ROOT / "target/release/hivemind")
    parser.add_argument("--only", choices=("cpu", "memory"))
    parser.add_argument("--preset", choices=tuple(presets()), help="this one alone")
    parser.add_argument("--seconds", type=int, default=10)
    options = parser.parse_args()
    options.hivemind = pathlib.Path(options.hivemind).resolve()
    subprocess.run(["cargo", "build", "--release", "--locked", "--quiet"], cwd=HERE / "rls", check=True)
    found = {name: one for name, one in presets().items() if options.preset in (None, name)}
    if options.only != "memory":
        cpu_table(options, found)
    return 0 if options.only == "cpu" or memory_table(options, found) else 1


if __name__ == "__main__":
    sys.exit(main())
