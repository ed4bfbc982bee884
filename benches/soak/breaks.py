"""Breaks of a soak run: each violates what one check verifies, so the run must exit with 1."""
import http.client
import json
import threading
import time

from growth import may

BREAKS = {
    "few": "the rules contain a twentieth of the shared limit",
    "tight": "the rules contain eight tenths of it",
    "loose": "the rules contain a tenth more",
    "shy": "users far from their limit get one request per second",
    "stale": "the certificate of the gateway is not renewed",
    "stale-mesh": "the certificate of a node is not renewed",
    "leak": "new clients arrive continuously, and their counters stay for a day",
    "files": "a client opens connections and keeps them",
    "reload": "one rule file is invalid",
    "calls": "the third node is killed once in the calm quarter, unrecorded",
    "eject": "Envoy keeps calling a dead node",
    "node": "the second node exits in the calm quarter",
    "redis": "Redis is killed in the calm quarter and stays away",
    "page": "an operator opens a page that does not exist",
    "tame": "hostile clients do nothing",
}
WRITTEN = {"few": 0.05, "tight": 0.8, "loose": 1.1}  # The ratio of the shared limit in broken rules.
KEPT = "  - key: kept\n    rate_limit: {unit: day, requests_per_unit: 1000}\n"
BROKEN_RULES = "  - key: [no word\n"
EJECTION = "      outlier_detection: {consecutive_5xx: 1, interval: 0.5s, base_ejection_time: 1s, max_ejection_percent: 50}\n"
# New clients per second that add a MB per minute (0.4 KiB each; 1,035 of them added 24), the factor above the maximum growth, and the clients per call.
CLIENTS, TIMES, AT_ONCE = 40, 2, 200
CONNECTIONS = 0.5  # New ones per second.


class Leak(threading.Thread):
    """Memory that grows by twice the maximum and stays: a leak as seen from outside."""

    def __init__(self, soak):
        super().__init__(daemon=True)
        self.soak = soak

    def run(self):
        rate = CLIENTS * TIMES * may(self.soak.minutes)[0]
        begun, number, connection = time.monotonic(), 0, http.client.HTTPConnection("127.0.0.1", self.soak.nodes[0].ports[1], timeout=20)
        while not self.soak.over.wait(0.05):
            # Follows the clock, so that slow calls do not make the leak smaller.
            due = min(AT_ONCE, int(rate * (time.monotonic() - begun)) - number)
            if due > 0:
                descriptors = [{"entries": [{"key": "kept", "value": f"client-{number + each}"}]} for each in range(due)]
                connection.request("POST", "/json", json.dumps({"domain": "soak", "descriptors": descriptors}))
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200, f"a refused call does not leak: {answer.status}"
                number += due


class Hoard(threading.Thread):
    """Connections that stay open, each with occasional calls so that they do not time out as idle."""

    def __init__(self, soak):
        super().__init__(daemon=True)
        self.soak, self.held = soak, []

    def run(self):
        while not self.soak.over.wait(1 / CONNECTIONS):
            self.held.append(http.client.HTTPConnection("127.0.0.1", self.soak.nodes[0].ports[1], timeout=20))
            for connection in self.held:
                connection.request("GET", "/readyz")
                connection.getresponse().read()
