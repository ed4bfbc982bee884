"""How long the answers of a mesh take, and what a call costs one node of it."""
import contextlib
import threading
import time

from bench.measure import measured, ratio, rounds, spread
from bench.process import Broken, reference

from .fleet import Fleet
from .loads import loads

RATE = 10_000
# Requests that ask an owner, at the first node.
ASKS = 200
BOUNDS = {"p50": 1, "p95": 5, "p99": 10}


def strangers(fleet, node, count):
    """Values of the rule `few` that this node does not own: it asks for the first request of a second."""
    found, number = [], 0
    while len(found) < count:
        value = f"v{number}"
        number += 1
        before = fleet.metric(node, "hivemind_mesh_asks_total")
        fleet.ask(node, "few", value)
        if fleet.metric(node, "hivemind_mesh_asks_total") > before:
            found.append(value)
        if number > 10 * count:
            raise Broken("the node never asks")
    return found


def open_loop(run):
    rows = []
    with Fleet(run, "open", 3) as fleet:
        time.sleep(3)
        # Each comes again after more than a second, so that nothing of the last one is held.
        asked = strangers(fleet, fleet.nodes[0], ASKS * 2)
        values = fleet.folder / "values"
        values.write_text("\n".join(asked))
        loads(fleet.nodes, rate=RATE / 3, n=RATE, seconds=5, key="hot", keys=10_000)  # To warm up.
        before = fleet.metric(fleet.nodes[0], "hivemind_mesh_asks_total")
        asking = []
        client = threading.Thread(target=lambda: asking.extend(loads(
            fleet.nodes[:1], rate=ASKS, n=ASKS * run.seconds, seconds=run.seconds, key="few", values=values, conns=1,
            streams=32)))
        client.start()
        held = loads(fleet.nodes, rate=(RATE - ASKS) / 3, n=RATE * run.seconds // 3, seconds=run.seconds, key="hot",
                     keys=10_000)
        client.join()
        asks = fleet.metric(fleet.nodes[0], "hivemind_mesh_asks_total") - before
    if not asking:
        raise Broken("the client that asks did not work")
    worst = {field: max(result[field] for result in held) for field in ("rps", "p50", "p95", "p99", "p999")}
    done = sum(result["rps"] for result in held)
    rows.append(("calls decided from allowance, the slowest of three nodes", f"{done:,.0f}", *shown(worst)))
    rows.append((f"those that asked an owner ({asks:.0f} asks for {asking[0]['n']} requests)", f"{asking[0]['rps']:,.0f}",
                 *shown(asking[0])))
    run.report.table("Open loop at three nodes", ("what", "requests/s", "p50 ms", "p95 ms", "p99 ms", "p99.9 ms"), rows,
                     f"{RATE:,} requests/s in all for {run.seconds} s, latency from when a request was due; four clients and "
                     "three nodes share the cores.")
    # All calls: those that asked an owner are reported separately and weighted by their number.
    everyone = {field: max(worst[field], asking[0][field] if field != "p50" else 0) for field in BOUNDS}
    run.report.target("mesh", f"open loop, {RATE:,}/s: p50 of those that hold, p95 and p99 also of those that asked",
                      "<= 1 / 5 / 10 ms", " / ".join(f"{everyone[field] / 1e3:.2f}" for field in BOUNDS) + " ms",
                      all(everyone[field] / 1e3 <= bound for field, bound in BOUNDS.items()))


def shown(result):
    return [f"{result[field] / 1e3:.2f}" for field in ("p50", "p95", "p99", "p999")]


def floor(run):
    """One node alone, one of three and both floors of ../rls, in turns."""
    with contextlib.ExitStack() as stack:
        off = stack.enter_context(Fleet(run, "off", 1, mesh=False))
        on = stack.enter_context(Fleet(run, "on", 3))
        servers = {"mesh off": off.nodes[0], "mesh on, one of three": on.nodes[1]}
        for name in ("ref_h2", "ref_tonic"):
            servers[name] = reference(stack, run.folder / "floor", name)
        time.sleep(3)

        def turn(node):
            return lambda: measured(node, expect="any", n=run.n // 2, key="hot")
        samples = rounds(3 if run.quick else 5, {name: turn(node) for name, node in servers.items()})
    rows = [(name, spread(sample["cpu_us"] for sample in own), f"{ratio(own, samples['ref_h2'])[0]:.2f}")
            for name, own in samples.items()]
    run.report.table("One node's CPU of a call", ("server", "CPU µs/request", "CPU / ref_h2"), rows,
                     "One hot key, 4 x 32; median [least..most] of rounds that took turns.")
    dearer = ratio(samples["mesh on, one of three"], samples["mesh off"])[0]
    run.report.target("mesh", "CPU of a call with the mesh on / off", "<= 1.3", f"{dearer:.2f}", dearer <= 1.3)
