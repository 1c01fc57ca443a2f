"""Headless Chromium, controlled over a pipe by the DevTools protocol."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from kit import LIMIT, Failure, Skipped

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SECONDS = LIMIT
# Until the script has added the later sections. Without scripts they are there at once, as elements.
ADDED = """new Promise((done) => {
    const look = () => document.querySelector("section > noscript:not(:has(*))") ? setTimeout(look, 5) : done();
    look();
})"""


class Browser:
    """One browser with one page. `events`: those of the page since it was opened."""

    def __init__(self):
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if not program:
            raise Skipped(f"there is no Chromium ({', '.join(PROGRAMS)})")
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        here, self.output = os.pipe()
        self.input, there = os.pipe()
        words = [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
            "--remote-debugging-pipe",
            f"--user-data-dir={self.folder.name}",
            "about:blank",
        ]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{here} 4>&{there}', "browser", *words],
            pass_fds=(here, there),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(here)
        os.close(there)
        self.waiting, self.n, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def message(self, until):
        while b"\0" not in self.waiting:
            if not select.select([self.input], [], [], max(until - time.monotonic(), 0))[0]:
                raise Failure(f"the browser said nothing for {SECONDS} s")
            data = os.read(self.input, 1 << 20)
            if not data:
                raise Failure("the browser ended")
            self.waiting += data
        first, _, self.waiting = self.waiting.partition(b"\0")
        return json.loads(first)

    def call(self, method, **parameters):
        self.n += 1
        words = {"id": self.n, "method": method, "params": parameters}
        if self.session:
            words["sessionId"] = self.session
        os.write(self.output, json.dumps(words).encode() + b"\0")
        until = time.monotonic() + SECONDS
        while True:
            told = self.message(until)
            if told.get("id") == self.n:
                if "error" in told:
                    raise Failure(f"{method}: {told['error']}")
                return told["result"]
            self.events.append(told)

    def open(self, path, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.events = []
        self.call("Page.navigate", url="file://" + path)
        until = time.monotonic() + SECONDS
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message(until))
        self.run(ADDED)

    def complaints(self):
        """Errors and network requests since the page was opened."""
        found = []
        for event in self.events:
            method, told = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(told["exceptionDetails"].get("text"))
            elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
                found.append(f"console: {told['args']}")
            elif method == "Log.entryAdded":
                found.append(f"log: {told['entry'].get('text')}")
            elif (
                method == "Network.requestWillBeSent"
                and not told["request"]["url"].startswith("data:")
                and told.get("type") != "Document"
            ):
                found.append(f"request: {told['request']['url'][:200]}")
        return found

    def run(self, script):
        """The value of an expression in the page."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise Failure(f"{script}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.input)
        os.close(self.output)
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
