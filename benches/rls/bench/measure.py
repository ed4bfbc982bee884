"""Single measurements and alternating rounds."""
import json
import resource
import statistics
import subprocess

from .process import BUILT, TICK, Broken


def busy():
    """Busy time of all cores in seconds, including steal time of the hypervisor."""
    with open("/proc/stat") as stat:
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def load(protocol, addr, **options):
    """Runs the load client once and returns its counts and its CPU time."""
    command = [str(BUILT / "load"), protocol, "--addr", addr]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The client limits its own run time; this is a fallback.
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.get("seconds", 60) + 60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise Broken(f"load: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    result["client_cpu"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result


def measured(process, protocol="grpc", expect="ok", **options):
    """Runs a load and measures the CPU of the server. `expect` is `ok`, `over` or `any`."""
    before, all_before = process.cpu(), busy()
    result = load(protocol, process.addr, **options)
    result["cpu"] = process.cpu() - before
    # CPU of everything else; with Envoy this includes the upstream.
    result["others_cpu"] = max(0.0, busy() - all_before - result["cpu"] - result["client_cpu"])
    result["cpu_us"] = result["cpu"] / max(result["n"], 1) * 1e6
    wrong = result["other"] + {"ok": result["over"], "over": max(0, result["ok"] - 10), "any": 0}[expect]
    if wrong or not result["n"]:
        raise Broken(f"{process.name}: {wrong} of {result['n']} answers were not {expect}: {process.said()}")
    return result


def rounds(count, turns, keep_first=False):
    """Calls each function of `turns` once per round. The first round is a warm-up."""
    samples = {name: [] for name in turns}
    for number in range(count + (not keep_first)):
        for name, turn in turns.items():
            result = turn()
            if number or keep_first:
                samples[name].append(result)
    return samples


def median(samples, field):
    return statistics.median(sample[field] for sample in samples)


def spread(values, digits=1):
    """Median [least..most]."""
    values = list(values)
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}..{max(values):.{digits}f}]"


def ratio(samples, base, field="cpu_us"):
    """The ratio of the medians, and the minimum and maximum of the ratios per round."""
    of_rounds = [a[field] / b[field] for a, b in zip(samples, base) if b[field]]
    least = median(base, field)
    if not of_rounds or not least:
        raise Broken("too few requests for a tick of CPU time; raise --n")
    return median(samples, field) / least, min(of_rounds), max(of_rounds)
