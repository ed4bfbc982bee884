"""A headless Chromium, controlled over a pipe with the DevTools protocol."""
import json
import os
import select
import signal
import subprocess
import time

from bench.process import Broken

# Seconds until a command counts as failed, on a slow machine.
DEADLINE = 60


class Chromium:
    """A browser process, started by `with` and stopped by its process id."""

    def __init__(self, profile):
        self.profile, self.calls, self.rest = profile, 0, b""

    def __enter__(self):
        theirs_in, self.to = os.pipe()
        self.answers, theirs_out = os.pipe()

        def pipes():
            # It reads from descriptor 3 and writes to 4; descriptors of this process with these numbers are moved first.
            read, write = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(read, 3)
            os.dup2(write, 4)
        # Descriptors up to 4 would conflict.
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe",
                   f"--user-data-dir={self.profile}", "about:blank"]
        try:
            self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL, preexec_fn=pipes, close_fds=False, start_new_session=True)
        except FileNotFoundError:
            raise Broken("no chromium: `./test` installs it") from None
        os.close(theirs_in)
        os.close(theirs_out)
        self.call("Target.getTargets")
        return self

    def __exit__(self, *_):
        # Its child processes are in its process group.
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(10)
        os.close(self.to)
        os.close(self.answers)

    def call(self, method, session=None, **parameters):
        self.calls += 1
        call = {"id": self.calls, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self.to, json.dumps(call).encode() + b"\0")
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            message = self.message(end)
            if message.get("id") == self.calls:
                if "error" in message:
                    raise Broken(f"{method}: {message['error']}")
                return message["result"]
        raise Broken(f"{method}: no answer after {DEADLINE} s")

    def message(self, end):
        while b"\0" not in self.rest:
            if not select.select([self.answers], [], [], max(0, end - time.monotonic()))[0]:
                return {}
            more = os.read(self.answers, 1 << 16)
            if not more:
                raise Broken("chromium is gone")
            self.rest += more
        one, _, self.rest = self.rest.partition(b"\0")
        return json.loads(one)

    def page(self, url):
        """Opens a URL in a new visible page without a cache."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        page.call("Network.enable")
        page.call("Network.setCacheDisabled", cacheDisabled=True)
        page.call("Page.navigate", url=url)
        return page


class Page:
    def __init__(self, browser, target, session):
        self.browser, self.target, self.session = browser, target, session

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def value(self, expression):
        """The value of an expression after its promise is fulfilled."""
        # A navigation in the meantime discards the promise.
        for _ in range(5):
            try:
                found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
            except Broken as why:
                if "context" not in str(why) and "navigated" not in str(why):
                    raise
                continue
            if "value" in found["result"]:
                return found["result"]["value"]
        raise Broken(f"no value: {found}")

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
