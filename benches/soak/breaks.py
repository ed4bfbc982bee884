"""What a run can be spoilt by, to see that it is found: each break is of what one check looks at, and the run ends with 1."""
import http.client
import json
import threading
import time

from growth import may

BREAKS = {
    "few": "the shared limit is written as a twentieth of what it is reckoned with",
    "tight": "as eight tenths",
    "loose": "as a tenth larger",
    "shy": "users far from their limit get one request a second",
    "stale": "the gateway's certificate is made once",
    "stale-mesh": "a node's is",
    "leak": "new clients come all the time, and their counters stay for the day",
    "files": "somebody opens connections and keeps them",
    "reload": "one file of rules is broken",
    "calls": "the third node is killed once in the calm quarter, and nobody is told",
    "eject": "Envoy goes on to ask a node that is gone",
    "node": "the second node ends in the calm quarter, and stays away",
}
WRITTEN = {"few": 0.05, "tight": 0.8, "loose": 1.1}  # Of the shared limit, what spoilt rules have.
KEPT = "  - key: kept\n    rate_limit: {unit: day, requests_per_unit: 1000}\n"
BROKEN_RULES = "  - key: [no word\n"
EJECTION = "      outlier_detection: {consecutive_5xx: 1, interval: 0.5s, base_ejection_time: 1s, max_ejection_percent: 50}\n"
# New clients in a second that make a minute add a MB (by 0.4 KiB each; 1,035 of them made 24), how many times as much as may be they add, and how many come in one call at most.
CLIENTS, TIMES, AT_ONCE = 40, 2, 200
CONNECTIONS = 0.5  # New ones in a second.


class Leak(threading.Thread):
    """Memory that grows by twice what it may and does not come back: what a leak looks like from outside."""

    def __init__(self, soak):
        super().__init__(daemon=True)
        self.soak = soak

    def run(self):
        rate = CLIENTS * TIMES * may(self.soak.minutes)[0]
        begun, number, connection = time.monotonic(), 0, http.client.HTTPConnection("127.0.0.1", self.soak.nodes[0].ports[1], timeout=20)
        while not self.soak.over.wait(0.05):
            # By the clock: how long a call takes must not make the leak smaller.
            due = min(AT_ONCE, int(rate * (time.monotonic() - begun)) - number)
            if due > 0:
                descriptors = [{"entries": [{"key": "kept", "value": f"client-{number + each}"}]} for each in range(due)]
                connection.request("POST", "/json", json.dumps({"domain": "soak", "descriptors": descriptors}))
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200, f"a leak that is refused is none: {answer.status}"
                number += due


class Hoard(threading.Thread):
    """Connections that stay, each with a call now and then so that nobody closes them as idle."""

    def __init__(self, soak):
        super().__init__(daemon=True)
        self.soak, self.held = soak, []

    def run(self):
        while not self.soak.over.wait(1 / CONNECTIONS):
            self.held.append(http.client.HTTPConnection("127.0.0.1", self.soak.nodes[0].ports[1], timeout=20))
            for connection in self.held:
                connection.request("GET", "/readyz")
                connection.getresponse().read()
