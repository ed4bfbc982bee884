"""Frontends of a soak run and their clients: calls through Envoy, `/json` and the gateway; each returns its user and whether it passed."""
import collections
import http.client
import json
import random
import threading
import time

from environment import PERIOD


class Client(threading.Thread):
    """Calls one frontend repeatedly and records the times and the result of each call."""

    def __init__(self, soak, name, call, pause):
        super().__init__(daemon=True)
        self.soak, self.frontend, self.call, self.pause = soak, name, call, pause
        self.answers, self.failed, self.slowest = collections.Counter(), [], 0.0
        self.windows = collections.Counter()  # By user, window and whether it passed.
        self.calls = collections.Counter()  # By the tenth of a second of their start.

    def run(self):
        while not self.soak.over.is_set():
            begun = time.time()
            self.calls[int(begun * 10)] += 1
            try:
                user, passed = self.call()
                self.answers["passed" if passed else "limited"] += 1
                # A call within one window was counted in that window.
                window = int(begun // PERIOD)
                if window == int(time.time() // PERIOD):
                    self.windows[user if user in ("hot", "gateway", "redis") else "others", window, passed] += 1
            except Exception as error:  # Any exception is a failed call.
                self.failed.append((begun, f"{type(error).__name__}: {error}"))
            self.slowest = max(self.slowest, time.time() - begun)
            self.soak.over.wait(self.pause)


class Frontend:
    """A frontend, with a connection that is reused for some calls."""

    def __init__(self, connect, call, calls=50):
        self.connect, self.call, self.most, self.left, self.connection = connect, call, calls, 0, None

    def __call__(self):
        if self.left == 0:
            if self.connection:
                self.connection.close()
            self.connection, self.left = self.connect(), self.most
        self.left -= 1
        try:
            return self.call(self.connection)
        except Exception:
            self.left = 0
            raise


def has_passed(connection, name):
    """Whether a call passed or was limited; other statuses are failures."""
    answer = connection.getresponse()
    answer.read()
    if answer.status not in (200, 429):
        raise http.client.HTTPException(f"{name} returned {answer.status}")
    return answer.status == 200


def some_user(others):
    """A user; most calls are from the one that has used up its limit."""
    return "hot" if random.random() < 0.7 else f"user-{random.randrange(others)}"


def by_envoy(connection):
    user = some_user(50)
    connection.request("GET", "/", headers={"x-user": user})
    return user, has_passed(connection, "Envoy")


def post_json(connection, user):
    body = json.dumps({"domain": "soak", "descriptors": [{"entries": [{"key": "user", "value": user}]}]})
    connection.request("POST", "/json", body)
    return has_passed(connection, "/json")


def by_json(connection):
    user = some_user(5000)
    return user, post_json(connection, user)


def by_redis(connection):
    """The limit in Redis is another one than that of the mesh, although the rules are the same."""
    user = some_user(5000)
    return "redis" if user == "hot" else user, post_json(connection, user)


def by_gateway(connection):
    connection.request("GET", "/")
    return "gateway", has_passed(connection, "the gateway")
