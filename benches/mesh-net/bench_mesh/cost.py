"""What a node of a mesh costs, and how that grows with the mesh."""
import statistics
import time

from .fleet import Fleet
from .loads import loads

UPDATES = 1_000


def percentiles(values):
    values = sorted(values)
    return values[len(values) // 2], values[min(len(values) - 1, len(values) * 99 // 100)]


def propagation(fleet, samples):
    """Seconds from an answer at one node until another one counts that request, too."""
    took = []
    for number in range(samples):
        at, other = (fleet.nodes[(number + step) % len(fleet.nodes)] for step in (0, 1))
        value = f"p{number}-{time.monotonic_ns()}"
        # A node that does not use a counter receives no updates of it.
        before = remaining(fleet.ask(other, "seen", value))
        fleet.ask(at, "seen", value)
        begun = time.monotonic()
        while remaining(fleet.ask(other, "seen", value, 0)) == before:
            if time.monotonic() > begun + 5:
                return took + [float("inf")] * (samples - number)
        took.append(time.monotonic() - begun)
    return took


def remaining(answer):
    return answer["statuses"][0].get("limitRemaining", 0)


def over(fleet, seconds, act=None):
    """CPU and bytes sent of a node in a second, while `act` runs or nothing does."""
    cpu, sent, begun = fleet.cpu(), fleet.sum("ratelimit_mesh_bytes_sent_total"), time.monotonic()
    if act:
        act()
    else:
        time.sleep(seconds)
    span = time.monotonic() - begun
    of_node = span * len(fleet.nodes)
    return (fleet.cpu() - cpu) / of_node, (fleet.sum("ratelimit_mesh_bytes_sent_total") - sent) / of_node


def cost(run):
    rows = []
    for count in run.sizes:
        with Fleet(run, f"cost-{count}", count) as fleet:
            begun = time.monotonic()
            fleet.count += 1
            fleet.start(count)
            fleet.settled()
            joined = time.monotonic() - begun
            time.sleep(3)
            rest_cpu, rest_bytes = over(fleet, run.seconds)
            # Each value once a second: what a node that does not own it spends is one update, not more. The first
            # update of a value contains its key.
            rate = min(UPDATES, 10_000 // len(fleet.nodes))
            options = {"rate": rate, "key": "hot", "keys": rate, "conns": 1, "streams": 8}
            loads(fleet.nodes, n=rate * 2, seconds=3, **options)
            busy_cpu, busy_bytes = over(fleet, run.seconds, lambda: loads(
                fleet.nodes, n=rate * run.seconds, seconds=run.seconds, **options))
            updates = rate * (1 - 1 / len(fleet.nodes))
            median, late = percentiles(propagation(fleet, run.samples))
            rows.append((count, f"{fleet.took:.1f}", f"{joined:.1f}", f"{rest_cpu:.1%}", f"{rest_bytes / 1e3:.1f}",
                         f"{busy_cpu:.1%}", f"{rate:,}", f"{busy_bytes / 1e3:.1f}",
                         f"{(busy_bytes - rest_bytes) / updates:.1f}", f"{median * 1e3:.0f}", f"{late * 1e3:.0f}"))
    run.report.table("What a node costs", (
        "nodes", "all started and in one view, s", "one more joins, s", "CPU at rest", "KB/s sent at rest",
        "CPU under load", "requests/s and updates of a node", "KB/s sent under load", "bytes an update",
        "propagation p50, ms", "p99, ms"), rows,
        f"CPU of one core, and of each node; {run.seconds} s each, measured with the node that joined. Propagation: "
        f"{run.samples} times a request at one node, until another one counts it (`consistency: eventual`), by polling.")


def scale(run):
    """Many processes on two cores cost more per request, with or without a mesh: each size is measured both ways. What
    a node does every second without requests is reported in `cost` and subtracted here."""
    rows, ratios = [], {}
    for count in run.sizes:
        alone, _, _ = requests(run, count, mesh=False)
        used, rest, rate = requests(run, count, mesh=True)
        ratios[count] = (used - rest) / alone
        rows.append((count, f"{rate:,.0f}", f"{alone:.1f}", f"{used:.1f}", f"{rest:.1f}", f"{ratios[count]:.2f}"))
    run.report.table("Requests at all nodes at once", (
        "nodes", "requests/s in all", "CPU µs/request without a mesh", "with it", "of that at rest, too", "ratio without that"),
        rows, f"{run.n:,} requests, dealt evenly, closed loop, 100 keys, 16 at a time at each node; nodes and clients share the "
        "cores, so that requests/s cannot grow with the nodes.")
    most = max(run.sizes)
    run.report.target("mesh", f"CPU of a request at {most} nodes, with the mesh / without", "<= 1.3", f"{ratios[most]:.2f}",
                      ratios[most] <= 1.3)


def requests(run, count, mesh):
    """Microseconds of a request, those of it that pass at rest as well, and requests a second."""
    with Fleet(run, f"scale-{count}-{mesh}", count, mesh=mesh) as fleet:
        time.sleep(3)
        at_rest, _ = over(fleet, run.seconds / 2)
        samples = []
        for _ in range(4):
            before, begun = fleet.cpu(), time.monotonic()
            results = loads(fleet.nodes, n=run.n // count, key="hot", keys=100, conns=1, streams=16)
            done, span = sum(result["n"] for result in results), time.monotonic() - begun
            samples.append(((fleet.cpu() - before) / done * 1e6, at_rest * count * span / done * 1e6, done / span))
        # The first one makes connections and counters.
        return [statistics.median(part) for part in zip(*samples[1:])]
