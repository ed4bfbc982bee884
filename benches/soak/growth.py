#!/usr/bin/env python3
"""Whether a series of samples grows: a slope over its later part that a few odd samples do not move.

Two means far apart in time hide what grows slowly, and a straight line through all samples bends towards the largest. The middle of the slopes of
all pairs (Theil and Sen) has neither fault: almost a third of the samples may be anything. The first third is left out, where a process still takes what it
needs. All samples are of the same kind of load: where that ends, memory is given back, and that hid a leak in a run of one minute (+25 MB a minute looked like +4).

    benches/soak/growth.py     sees it find a ramp under noise, and not find noise, a slow beginning, one step or odd samples; seen failing
                               with slopes without a sign, with the first third left in, with a mean for the middle, and with a bound of 11 MB"""
import random
import statistics
import sys

# What a minute may add: always, and so much more in a run of one minute, a tenth of that in one of ten. A short run cannot tell a slow growth
# from one step of the allocator: of 4.5 MB in a sound run of four minutes, whose memory was flat before and after it, which made 2.3 MB a minute of it;
# and of 28 nodes in runs of one minute that nothing made grow one had 15 MB a minute.
MEMORY_MB, MEMORY_SHORT_MB = 0.3, 20.0
FILES, FILES_SHORT = 0.5, 2.0


def slope(samples):
    """The middle one of the slopes of all pairs of `(second, value)`, by the minute."""
    pairs = ((earlier, later) for at, earlier in enumerate(samples) for later in samples[at + 1:])
    return 60 * statistics.median((later[1] - earlier[1]) / (later[0] - earlier[0]) for earlier, later in pairs)


def judged(samples, most=600):
    """Without the first third; of a long run every other sample, or fewer, because pairs grow with the square."""
    later = samples[len(samples) // 3:]
    return later[::1 + len(later) // most]


def growth(samples):
    """Of `(second, MB, files)`: what a minute adds to each."""
    later = judged(samples)
    return tuple(slope([(sample[0], sample[what]) for sample in later]) for what in (1, 2))


def may(minutes):
    """What a minute may add to memory and to open files, in a run of so many minutes."""
    return MEMORY_MB + MEMORY_SHORT_MB / minutes, FILES + FILES_SHORT / minutes


def self_test():
    dice = random.Random(12)
    noise = [dice.gauss(70, 1.5) for _ in range(600)]
    most = may(10)[0]
    step = [each - 4.5 * (second < 120) for second, each in enumerate(noise[:180])]
    found = growth([(second, value, 50) for second, value in enumerate(step)])[0]
    if found > may(4)[0]:
        print(f"growth: a step of the allocator: {found:+.2f} MB a minute, and {may(4)[0]:.2f} may be")
        return 1
    for what, values, grows in (
            ("noise", noise, False),
            ("a ramp of 4 MB a minute under noise", [each + second / 15 for second, each in enumerate(noise)], True),
            ("a beginning that takes its time", [each - 40 * (second < 199) for second, each in enumerate(noise)], False),
            ("a few odd samples at the end", [each + 80 * (second > 575) for second, each in enumerate(noise)], False),
            ("what shrinks", [each - second / 10 for second, each in enumerate(noise)], False)):
        found = growth([(second, value, 50) for second, value in enumerate(values)])[0]
        if (found > most) != grows:
            print(f"growth: {what}: {found:+.2f} MB a minute, and {most:.2f} may be")
            return 1
    print("growth: a ramp is found; noise, a slow beginning, one step and odd samples are not")
    return 0


if __name__ == "__main__":
    sys.exit(self_test())
