#!/usr/bin/env python3
"""Growth of a series of samples: a robust slope of its later part.

Comparing two means far apart hides slow growth, and a linear fit follows outliers. The median of the slopes of all pairs (Theil-Sen) has neither
problem: almost a third of the samples may be outliers. Pairs are whole periods of the load apart, because memory rises with each reload of many
patterns and falls afterwards. The first third is ignored, because a process still allocates then. All samples must come from
the same load: memory freed after its end once hid a leak in a run of one minute (+25 MB per minute looked like +4).

    benches/soak/growth.py     self-test: detects a ramp under noise, and accepts noise, a slow start, one step, a period and outliers. It fails with
                               unsigned slopes, with the first third included, with a mean instead of the median, and with a bound of 11 MB"""
import collections
import random
import statistics
import sys

# Maximum growth per minute: a constant, plus an amount for a run of one minute that decreases with the duration. A short run cannot distinguish slow
# growth from one step of the allocator: a step of 4.5 MB in a correct run of four minutes looked like 2.3 MB per minute, and one of 28 correct nodes
# in runs of one minute had 15 MB per minute.
MEMORY_MB, MEMORY_SHORT_MB = 0.3, 20.0
FILES, FILES_SHORT = 0.5, 2.0  # The same for threads.


PERIOD = 20  # Seconds after which kills, restarts, patterns and certificates repeat.


def slope(samples):
    """The median slope per minute of all pairs of `(second, value)` that are whole periods apart."""
    phases = collections.defaultdict(list)
    for sample in samples:
        phases[sample[0] % PERIOD].append(sample)
    pairs = ((earlier, later) for phase in phases.values() for at, earlier in enumerate(phase) for later in phase[at + 1:])
    return 60 * statistics.median((later[1] - earlier[1]) / (later[0] - earlier[0]) for earlier, later in pairs)


def judged(samples, most=600):
    """The samples without the first third, thinned out in a long run, because the number of pairs is quadratic."""
    later = samples[len(samples) // 3:]
    return later[::1 + len(later) // most]


def growth(samples):
    """Growth per minute of `(second, MB, files, threads)` samples."""
    later = judged(samples)
    return tuple(slope([(sample[0], sample[what]) for sample in later]) for what in (1, 2, 3))


def may(minutes):
    """Maximum growth per minute of memory, open files and threads, for a run of `minutes`."""
    most = FILES + FILES_SHORT / minutes
    return MEMORY_MB + MEMORY_SHORT_MB / minutes, most, most


def self_test():
    dice = random.Random(12)
    noise = [dice.gauss(70, 1.5) for _ in range(600)]
    most = may(10)[0]
    step = [each - 4.5 * (second < 120) for second, each in enumerate(noise[:180])]
    found = growth([(second, value, 50, 9) for second, value in enumerate(step)])[0]
    if found > may(4)[0]:
        print(f"growth: a step of the allocator: {found:+.2f} MB per minute, maximum {may(4)[0]:.2f}")
        return 1
    seasons = [dice.gauss(70, 1.5) + 3 * ((second - 13) % PERIOD) for second in range(40)]
    found = growth([(second, value, 50, 9) for second, value in enumerate(seasons)])[0]
    if found > may(1)[0]:
        print(f"growth: a load with a period: {found:+.2f} MB per minute, maximum {may(1)[0]:.2f}")
        return 1
    for what, values, grows in (
            ("noise", noise, False),
            ("a ramp of 4 MB per minute under noise", [each + second / 15 for second, each in enumerate(noise)], True),
            ("a slow start", [each - 40 * (second < 199) for second, each in enumerate(noise)], False),
            ("outliers at the end", [each + 80 * (second > 575) for second, each in enumerate(noise)], False),
            ("shrinking memory", [each - second / 10 for second, each in enumerate(noise)], False)):
        found = growth([(second, value, 50, 9) for second, value in enumerate(values)])[0]
        if (found > most) != grows:
            print(f"growth: {what}: {found:+.2f} MB per minute, maximum {most:.2f}")
            return 1
    for what, threads, grows in (("six threads more in ten minutes", lambda second: second // 100, False),
                                 ("twelve threads more in ten minutes", lambda second: second // 50, True)):
        found = growth([(second, 70, 50, 9 + threads(second)) for second in range(600)])[2]
        if (found > may(10)[2]) != grows:
            print(f"growth: {what}: {found:+.2f} per minute, maximum {may(10)[2]:.2f}")
            return 1
    print("growth: detects a ramp; accepts noise, a slow start, one step, a period and outliers")
    return 0


if __name__ == "__main__":
    sys.exit(self_test())
