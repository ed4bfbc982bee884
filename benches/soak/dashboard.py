"""Dashboard clients of a soak run: event streams, pages and probes."""
import collections
import http.client
import threading
import time

PAGES = ["/", "/api/v1/stats", "/api/v1/top", "/api/v1/decisions", "/api/v1/limits", "/api/v1/rules", "/api/v1/blocks", "/api/v1/peers",
         "/api/v1/config", "/api/v1/version"]
STREAM_SECONDS = 20  # A stream is opened again after this time, as by a reloaded page.
SLOWEST_PROBE = 2.0  # Seconds; probes of Kubernetes time out after one by default, and this machine is shared.


class Observer(threading.Thread):
    """Requests one thing repeatedly; counts responses and collects failures."""

    def __init__(self, soak, node):
        super().__init__(daemon=True)
        self.soak, self.port = soak, node.ports[1]
        self.count, self.failed, self.slowest = 0, collections.Counter(), 0.0

    def run(self):
        while not self.soak.over.is_set():
            begun = time.monotonic()
            try:
                self.observe()
            except (OSError, http.client.HTTPException) as error:
                self.failed[f"{type(error).__name__}: {error}"] += 1
            self.slowest = max(self.slowest, time.monotonic() - begun)
            self.soak.over.wait(self.pause)

    def connection(self, timeout=10):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def get(self, connection, path):
        connection.request("GET", path)
        answer = connection.getresponse()
        if answer.status != 200:
            raise http.client.HTTPException(f"{path} returned {answer.status}")
        return answer


class Events(Observer):
    """A dashboard that is open: counts events of its stream."""
    what, pause = "events", 0.1

    def observe(self):
        connection = self.connection()
        end = time.monotonic() + STREAM_SECONDS
        try:
            answer = self.get(connection, "/api/v1/events")
            while time.monotonic() < end and not self.soak.over.is_set():
                line = answer.readline()
                if not line:
                    raise http.client.HTTPException("the event stream ended")
                self.count += line.startswith(b"event:")
        finally:
            connection.close()


class Pages(Observer):
    """An operator who opens every page; one connection per round."""
    what, pause = "pages", 0.5

    def observe(self):
        connection = self.connection()
        try:
            for page in PAGES if self.soak.broken != "page" else [*PAGES, "/api/v1/nothing"]:
                self.get(connection, page).read()
                self.count += 1
        finally:
            connection.close()


class Probe(Observer):
    """A liveness probe: a new connection each time, and a short timeout."""
    what, pause = "probes", 1.0

    def observe(self):
        connection = self.connection(SLOWEST_PROBE)
        try:
            self.get(connection, "/healthz").read()
            self.count += 1
        finally:
            connection.close()
