"""The doors by which a run is asked, and who asks at them: a call by Envoy, by `/json`, at the gateway; each tells whose it was and whether it passed."""
import collections
import http.client
import json
import random
import threading
import time

from around import PERIOD


class Client(threading.Thread):
    """Asks one door over and over, and notes of each call when it began and ended and what became of it."""

    def __init__(self, soak, door, ask, pause):
        super().__init__(daemon=True)
        self.soak, self.door, self.ask, self.pause = soak, door, ask, pause
        self.answers, self.failed, self.slowest = collections.Counter(), [], 0.0
        self.windows = collections.Counter()  # By who asked, in which window, and whether it passed.
        self.calls = collections.Counter()  # By the tenth of a second in which they began.

    def run(self):
        while not self.soak.over.is_set():
            begun = time.time()
            self.calls[int(begun * 10)] += 1
            try:
                user, passed = self.ask()
                self.answers["passed" if passed else "limited"] += 1
                # A call that began and ended in one window was counted in it.
                window = int(begun // PERIOD)
                if window == int(time.time() // PERIOD):
                    self.windows[user if user in ("hot", "gateway") else "others", window, passed] += 1
            except Exception as error:  # Whatever a call can fail with is a failed call.
                self.failed.append((begun, f"{type(error).__name__}: {error}"))
            self.slowest = max(self.slowest, time.time() - begun)
            self.soak.over.wait(self.pause)


class Door:
    """A way to ask, over a connection that is kept for some calls."""

    def __init__(self, connect, ask, calls=50):
        self.connect, self.talk, self.most, self.left, self.connection = connect, ask, calls, 0, None

    def __call__(self):
        if self.left == 0:
            if self.connection:
                self.connection.close()
            self.connection, self.left = self.connect(), self.most
        self.left -= 1
        try:
            return self.talk(self.connection)
        except Exception:
            self.left = 0
            raise


def has_passed(connection, who):
    """What became of the call that was sent; whatever is neither is a failed call."""
    answer = connection.getresponse()
    answer.read()
    if answer.status not in (200, 429):
        raise http.client.HTTPException(f"{who} says {answer.status}")
    return answer.status == 200


def some_user(others):
    """Most calls are of the one who has used up its limit."""
    return "hot" if random.random() < 0.7 else f"user-{random.randrange(others)}"


def by_envoy(connection):
    user = some_user(50)
    connection.request("GET", "/", headers={"x-user": user})
    return user, has_passed(connection, "Envoy")


def by_json(connection):
    user = some_user(5000)
    body = json.dumps({"domain": "soak", "descriptors": [{"entries": [{"key": "user", "value": user}]}]})
    connection.request("POST", "/json", body)
    return user, has_passed(connection, "/json")


def by_gateway(connection):
    connection.request("GET", "/")
    return "gateway", has_passed(connection, "the gateway")
