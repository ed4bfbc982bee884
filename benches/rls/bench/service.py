"""Benchmarks of a whole node: memory, latency at a fixed rate, latency through Envoy, and capacity."""
import contextlib

from .measure import measured, median, rounds, spread
from .process import Broken, envoy, hivemind, reference

# Latency targets in milliseconds.
BOUNDS = {"p50": 1, "p95": 5, "p99": 10}
RATE = 10_000
MILLION = 1_000_000


def ms(samples, field):
    return median(samples, field) / 1e3


def latencies(samples):
    return [spread((s[field] / 1e3 for s in samples), 2) for field in ("p50", "p95", "p99", "p999")]


def bounds(run, name, what, samples):
    values = {field: ms(samples, field) for field in BOUNDS}
    shown = " / ".join(f"{value:.2f}" for value in values.values())
    run.report.target(name, f"{what}: p50 / p95 / p99", "<= 1 / 5 / 10 ms", f"{shown} ms",
                      all(values[field] <= bound for field, bound in BOUNDS.items()))


def kept_up(sample, rate):
    """Whether the client reached the requested rate."""
    return sample["rps"] >= 0.95 * rate


def memory(run):
    """Resident memory before and after a million distinct keys, on a separate server."""
    rows = []
    for name, program in run.servers.items():
        with contextlib.ExitStack() as stack:
            server = hivemind(stack, run.folder / "memory" / name, name, program, run.settings)
            before, _ = server.resident_mb()
            measured(server, n=MILLION, keys=MILLION, key="tenant", seconds=120)
            after, most = server.resident_mb()
        rows.append((name, f"{before:.1f}", f"{after:.1f}", f"{most:.1f}", f"{(after - before) * 1e6 / MILLION:.0f}"))
        run.report.target(name, "resident with a million keys", "< 120 MB", f"{after:.1f} MB", after < 120)
    run.report.table("Memory", ("server", "MB before", "MB after", "MB at its highest", "bytes a key"), rows,
                     "VmRSS and VmHWM of the whole process after 1,000,000 calls with 1,000,000 keys; MB are 10^6 bytes.")


def open_loop(run):
    """10,000 calls per second over gRPC without Envoy."""
    with contextlib.ExitStack() as stack:
        servers = {name: hivemind(stack, run.folder / "open" / name, name, program, run.settings)
                   for name, program in run.servers.items()}
        servers["ref_h2"] = reference(stack, run.folder / "open", "ref_h2")
        turns = {name: lambda server=server: measured(
            server, rate=RATE, n=RATE * run.seconds, seconds=run.seconds, key="tenant", keys=100_000)
            for name, server in servers.items()}
        samples = rounds(run.open_rounds, turns)
    rows = [(name, f"{median(own, 'rps'):,.0f}", *latencies(own), spread(s["cpu_us"] for s in own))
            for name, own in samples.items()]
    run.report.table("Open loop over gRPC", ("server", "requests/s", "p50 ms", "p95 ms", "p99 ms", "p99.9 ms",
                                             "CPU µs/request"), rows,
                     f"{RATE:,} calls a second for {run.seconds} s, {run.open_rounds} rounds, 4 x 32, 100,000 keys; "
                     "latency from when a call was due.")
    for name in run.servers:
        bounds(run, name, f"open loop, {RATE:,}/s", samples[name])


def through_envoy(run):
    """Half of the capacity of an Envoy with the filter, sent through it and through one without the filter."""
    options = {"protocol": "http", "conns": 64, "keys": 1000}
    rows = []
    for name, program in run.servers.items():
        with contextlib.ExitStack() as stack:
            folder = run.folder / "envoy" / name
            server = hivemind(stack, folder / "hivemind", name, program, run.settings)
            upstream = reference(stack, folder, "upstream")
            proxies = {"without the filter": envoy(stack, folder / "without", "envoy", upstream.addr),
                       "with the filter": envoy(stack, folder / "with", "envoy", upstream.addr, server.addr)}
            carried = {what: lambda proxy=proxy: measured(proxy, n=10**9, seconds=run.envoy_seconds, **options)
                       for what, proxy in proxies.items()}
            carried = rounds(2, carried)
            rate = int(median(carried["with the filter"], "rps") / 2)
            before = server.cpu()
            turns = {what: lambda proxy=proxy: measured(
                proxy, rate=rate, n=rate * run.seconds, seconds=run.seconds, **options)
                for what, proxy in proxies.items()}
            samples = rounds(run.open_rounds, turns)
            calls = sum(s["n"] for s in samples["with the filter"])
            # The CPU includes the warm-up round, the samples do not.
            share = (server.cpu() - before) / calls * run.open_rounds / (run.open_rounds + 1) * 1e6
        for what, own in samples.items():
            rows.append((name, what, f"{median(carried[what], 'rps'):,.0f}", f"{rate:,}", *latencies(own),
                         spread(s["cpu_us"] for s in own), f"{share:.1f}" if what.startswith("with ") else "-"))
        with_, without = samples["with the filter"], samples["without the filter"]
        added = [f"{ms(with_, field) - ms(without, field):+.2f}" for field in ("p50", "p95", "p99", "p999")]
        rows.append((name, "added by it", "", "", *added, "", ""))
        bounds(run, name, f"through Envoy at half of what it carries ({rate:,}/s)", with_)
    run.report.table("Through Envoy", ("server", "Envoy", "carries, requests/s", "sent at", "p50 ms", "p95 ms", "p99 ms",
                                       "p99.9 ms", "Envoy's CPU µs/request", "Hivemind's"), rows,
                     f"One Envoy worker, 64 connections, a constant upstream; open loop for {run.seconds} s, "
                     f"{run.open_rounds} rounds. Client, upstream, Envoy and Hivemind share the cores.")


# Client threads, connections and streams, in increasing order.
SHAPES = [(1, 1, 8), (1, 1, 32), (1, 4, 32), (1, 8, 64), (2, 8, 32), (2, 8, 64), (2, 16, 64)]


def most(run):
    """The maximum of calls per second, and the CPU of a call at half of that."""
    with contextlib.ExitStack() as stack:
        servers = {name: hivemind(stack, run.folder / "most" / name, name, program, run.settings)
                   for name, program in run.servers.items()}
        options = {"key": "tenant", "keys": 100_000}
        turns = {(name, shape): lambda server=server, shape=shape: measured(
            server, n=10**9, seconds=run.most_seconds, threads=shape[0], conns=shape[1], streams=shape[2], **options)
            for shape in SHAPES for name, server in servers.items()}
        samples = rounds(run.most_rounds, turns, keep_first=True)
        rows, half = [], []
        for name, server in servers.items():
            best = max(SHAPES, key=lambda shape: median(samples[name, shape], "rps"))
            for shape in SHAPES:
                own = samples[name, shape]
                rows.append((name, "{} x {}, client on {}".format(shape[1], shape[2], threads(shape[0])),
                             spread((s["rps"] / 1e3 for s in own)), spread(s["cpu_us"] for s in own),
                             *in_cores(own), f"{ms(own, 'p99'):.2f}"))
            top = median(samples[name, best], "rps")
            rate = int(top / 2)
            at_half = rounds(run.open_rounds, {name: lambda: measured(
                server, rate=rate, n=rate * run.seconds, seconds=run.seconds, threads=best[0], conns=best[1],
                streams=best[2], **options)})[name]
            said = f"{median(at_half, 'rps'):,.0f}" + ("" if all(kept_up(s, rate) for s in at_half) else " (late)")
            half.append((name, f"{top:,.0f}", said, spread(s["cpu_us"] for s in at_half), *in_cores(at_half),
                         *latencies(at_half)[:3]))
            run.report.target(name, "the most one node sustains on these cores", ">= 100,000/s", f"{top:,.0f}/s",
                              top >= 100_000)
    run.report.table("The most on these cores", ("server", "connections x streams", "thousand requests/s",
                                                 "CPU µs/request", "cores used by it", "by the client",
                                                 "by others", "p99 ms"), rows,
                     f"Closed loop, {run.most_seconds} s each, 100,000 keys. Where the columns of cores add up to all "
                     "there are, it is the machine that is full: alone on it the server would carry more.")
    run.report.table("At half of the most", ("server", "the most", "sent", "CPU µs/request", "cores used by it",
                                             "by the client", "by others", "p50 ms", "p95 ms", "p99 ms"), half)


def threads(count):
    return "1 thread" if count == 1 else f"{count} threads"


def in_cores(samples):
    return [f"{sum(s[field] for s in samples) / sum(s['seconds'] for s in samples):.2f}"
            for field in ("cpu", "client_cpu", "others_cpu")]
