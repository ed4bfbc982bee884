#!/usr/bin/env python3
"""What a call costs Hivemind with its counters in Redis, compared with counters in memory.

    ./redis.py --quick                  a look, under a minute
    ./redis.py --out table.md           5 rounds of 100,000 calls
    ./redis.py --program PATH           another build than target/release/hivemind

It starts a Redis of its own and three `hivemind serve` (memory, redis, and redis with a lease) on free ports of
loopback, sends to them in turns, ends them by their process ids, and prints Markdown. Round trips are what Redis
itself says it has read (`total_reads_processed`): commands that came in one read came in one round trip. CPU is that
of the process of Hivemind alone. Exit status: 0 if all targets are met, 1 if one is missed, 2 on errors."""
import argparse
import contextlib
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from bench.measure import measured, median, rounds, spread  # noqa: E402  (must follow the line above)
from bench.process import HERE, ROOT, Broken, Process, answers, free_port, hivemind  # noqa: E402
from bench.report import Report, said  # noqa: E402

CPU_US = 25
SCENARIOS = {
    "hot": ("one hot key, 4 x 32", "ok", {"key": "hot"}),
    "keys": ("100,000 keys, 4 x 32", "ok", {"key": "tenant", "keys": 100_000}),
    "over": ("over its limit, 4 x 32", "over", {"key": "over"}),
    "single": ("one hot key, 1 x 1", "ok", {"key": "hot", "conns": 1, "streams": 1}),
}


class Redis:
    """A Redis without persistence."""

    def __init__(self, stack, folder):
        if not shutil.which("redis-server"):
            raise Broken("no redis-server: apt-get install redis-server")
        self.port = free_port()
        command = ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = stack.enter_context(Process(folder / "redis", "redis", command))
        self.process.until("answer", lambda: answers(f"127.0.0.1:{self.port}"))
        self.socket = stack.enter_context(socket.create_connection(("127.0.0.1", self.port)))

    def reads(self):
        """The number of reads from connections, including this request."""
        self.socket.sendall(b"INFO stats\r\n")
        text = b""
        while b"total_reads_processed:" not in text or not text.endswith(b"\r\n"):
            text += self.socket.recv(65536)
        return int(text.partition(b"total_reads_processed:")[2].split()[0])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--rounds", type=int, help="rounds, after one that warms up")
    parser.add_argument("--n", type=int, help="calls in each round")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "target/release/hivemind", help="what is measured")
    parser.add_argument("--out", type=pathlib.Path, help="write the tables to this file, too")
    parser.add_argument("--no-build", action="store_true", help="use the load client as it is")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.n = options.n or (30_000 if options.quick else 100_000)
    if not options.program.is_file():
        parser.error("no target/release/hivemind: cargo build --release --locked, or --program PATH")
    options.program = options.program.resolve()
    return options


def turn(redis, server, scenario, n):
    """One round of one server, with the reads and the CPU of Redis during it."""
    _, expect, sent = SCENARIOS[scenario]
    n = n // 4 if scenario == "single" else n

    def measure():
        reads, cpu = redis.reads(), redis.process.cpu()
        result = measured(server, expect=expect, n=n, **sent)
        result["trips"] = max(0, redis.reads() - reads - 1) / result["n"]
        result["redis_us"] = (redis.process.cpu() - cpu) / result["n"] * 1e6
        return result
    return measure


def measure(report, options, folder):
    with contextlib.ExitStack() as stack:
        redis = Redis(stack, folder)
        shared = {"storage.kind": "redis", "storage.redis.url": f"redis://127.0.0.1:{redis.port}",
                  "storage.on_error": "closed", "storage.redis.timeout_ms": 2000}
        # Separate counters, so that calls to one server do not use up the limits of another.
        settings = {"memory": {}, "redis": {**shared, "storage.redis.prefix": "plain"},
                    "redis, leases": {**shared, "storage.redis.prefix": "leases", "storage.redis.lease.enabled": "true",
                                      "storage.redis.lease.slice": 100}}
        servers = {name: hivemind(stack, folder / name.replace(", ", "-"), name, options.program, own_settings)
                   for name, own_settings in settings.items()}
        turns = {(s, c): turn(redis, servers[c], s, options.n) for s in SCENARIOS for c in servers}
        samples = rounds(options.rounds, turns)
        version = said("redis-server", "--version").partition("v=")[2].split()[0]
    rows = []
    for (scenario, name), own in samples.items():
        rows.append((SCENARIOS[scenario][0], name, spread(s["cpu_us"] for s in own), f"{median(own, 'redis_us'):.1f}",
                     spread((s["trips"] for s in own), 3), f"{median(own, 'rps'):,.0f}", f"{median(own, 'p50'):.0f}",
                     f"{median(own, 'p99'):.0f}"))
    report.table("Compared with memory", ("what", "counters", "our CPU µs/request", "Redis' CPU µs/request",
                                   "round trips/request", "requests/s", "p50 µs", "p99 µs"), rows,
                 f"Redis {version}. Median [least..most] of {options.rounds} rounds of {options.n:,} calls (1 x 1: a "
                 "quarter). Closed loop; the load client and Redis share the cores.")
    for scenario in ("hot", "keys"):
        cpu = median(samples[scenario, "redis"], "cpu_us")
        report.target("redis", f"{SCENARIOS[scenario][0]}: our CPU/request", f"<= {CPU_US} µs", f"{cpu:.1f} µs", cpu <= CPU_US)
    alone, together = (median(samples[s, "redis"], "trips") for s in ("single", "hot"))
    # A few reads come from the health check of the connection.
    report.target("redis", "round trips/request, 1 at a time", "<= 1", f"{alone:.3f}", alone <= 1.01)
    report.target("redis", "round trips/request, 128 at a time", "< 1", f"{together:.3f}", together < 1)


def main():
    options = arguments()
    if not options.no_build:
        subprocess.run(["cargo", "build", "--release", "--locked", "--quiet"], cwd=HERE, check=True)
    report = Report("Counters in Redis")
    with tempfile.TemporaryDirectory(prefix="redis-bench-") as folder:
        try:
            measure(report, options, pathlib.Path(folder))
        except (Broken, OSError, subprocess.TimeoutExpired) as why:
            report.broken("redis", str(why).replace("\n", " "))
    text = report.markdown({"hivemind": options.program})
    print(text)
    if options.out:
        options.out.write_text(text)
    sys.exit(2 if report.failed else 1 if report.missed() else 0)


if __name__ == "__main__":
    main()
