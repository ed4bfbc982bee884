#!/usr/bin/env python3
"""What each preset of the chart carries: its CPU by a control group, its memory as it is used.

    benches/presets.py [--hivemind BINARY] [--load LOAD]

For each of small, recommended and high: `hivemind serve` with the preset's `workers` and `max_keys`, in a control group of its own with the
preset's CPU request as quota (as root, cgroup v1 or v2), and calls of Envoy's protocol from outside of it: one by one, and 128 under way at
once. What it carries is its quota divided by the CPU of a call, user and system: on a machine that has other work, a server is rarely
let run up to its quota. Memory is the highest resident size, not enforced. LOAD is the client of benches/rls: `cargo build --release --locked` there."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# cores, MiB, workers, max_keys: deploy/helm/hivemind/templates/_parts.tpl.
PRESETS = {"small": (0.1, 128, 1, 100_000), "recommended": (0.25, 512, 1, 500_000), "high": (1.0, 2048, 2, 2_000_000)}
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


def run(options, name, cores, most_mb, workers, max_keys):
    group = Group(name, cores)
    ports = {f"HIVEMIND_SERVER__{port}_PORT": "0" for port in ("GRPC", "ADMIN", "METRICS")}
    more = {"HIVEMIND_SERVER__WORKERS": str(workers), "HIVEMIND_RATE_LIMITING__MAX_KEYS": str(max_keys)}
    process = subprocess.Popen([options.hivemind, "serve"], env={**os.environ, **ports, **more}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               preexec_fn=group.enter)
    try:
        address = next(found[1] for line in process.stdout if (found := re.search(r"grpc://(\S+)", line)))
        time.sleep(1)

        def load(connections, streams, seconds):
            command = [options.load, "grpc", "--addr", address, "--conns", str(connections), "--streams", str(streams), "--keys", str(max_keys), "--n", "100000000",
                       "--seconds", str(seconds), "--domain", "demo", "--key", "remote_address"]
            before = cpu(process.pid)
            answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            return {**answer, "cpu": (cpu(process.pid) - before) / answer["n"]}

        alone, many = load(1, 1, options.seconds), load(4, 32, options.seconds)
        throttled, periods = group.throttled()
        highest = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1]) / 1024
    finally:
        process.terminate()
        process.wait(20)
        group.home.rmdir()
    return alone, many, throttled, periods, highest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hivemind", default=ROOT / "target/release/hivemind")
    parser.add_argument("--load", default=ROOT / "benches/rls/target/release/load")
    parser.add_argument("--seconds", type=int, default=10)
    options = parser.parse_args()
    print("| preset | CPU | of a call, one by one | 128 at once | carries | seen | at its quota in | highest memory | limit |\n|---|---|---|---|---|---|---|---|---|")
    for name, preset in PRESETS.items():
        alone, many, throttled, periods, highest = run(options, name, *preset)
        carries = [preset[0] / answer["cpu"] for answer in (alone, many)]
        print(f"| `{name}` | {preset[0]:g} core | {alone['cpu'] * 1e6:.0f} µs | {many['cpu'] * 1e6:.1f} µs | {carries[0]:,.0f} to {carries[1]:,.0f}/s "
              f"| {alone['rps']:,.0f} to {many['rps']:,.0f}/s | {throttled} of {periods} periods | {highest:.0f} MiB | {preset[1]} MiB |", flush=True)
    print(f"\nload of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    sys.exit(main())
