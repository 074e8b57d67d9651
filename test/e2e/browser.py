"""Drives Chromium without a window over the DevTools protocol's pipe, which needs nothing but the browser.

Relies on file descriptors 3 and 4 of the browser: commands in, answers and events out, each ended by a zero byte.
"""

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
         "--disable-background-networking", "--disable-component-update", "--hide-scrollbars=false",
         "--remote-debugging-pipe"]


class PageError(Exception):
    """A script of the page threw, or an evaluated expression did."""


class Browser:
    """One page. `errors` holds what its scripts threw and what its console reported as an error; `requests` the
    addresses that it asked for."""

    def __init__(self, width=1280, height=800, dark=False):
        if not PROGRAM:
            raise PageError("there is no chromium-headless-shell: scripts/setup.sh installs it")
        self.folder = tempfile.TemporaryDirectory()
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()

        def place_pipes():
            # Both ends are moved away first: either may lie on 3 or 4.
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            high = [os.dup2(reading, 100), os.dup2(writing, 101)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        flags = FLAGS + [f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}"]
        self.process = subprocess.Popen([PROGRAM, *flags, "about:blank"], preexec_fn=place_pipes, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.errors, self.requests, self.loaded = [], [], False
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height, dark)

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        os.close(self.commands)  # the browser ends when its pipe does
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.answers)
        self.folder.cleanup()

    def receive(self, seconds):
        """The next message, or None."""
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], max(0, end - time.monotonic()))
            if not ready:
                return None
            read = os.read(self.answers, 1 << 20)
            if not read:
                raise PageError("the browser ended")
            self.buffer += read
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def note(self, event):
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded = True

    def call(self, method, seconds=60, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + seconds
        while True:
            answer = self.receive(end - time.monotonic())
            if answer is None:
                raise PageError(f"{method}: no answer in {seconds} s")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise PageError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.note(answer)

    def resize(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path):
        """A file, or an address of HTTP."""
        self.loaded = False
        self.call("Page.navigate", url=path if str(path).startswith(("http:", "about:")) else pathlib.Path(path).resolve().as_uri())
        end = time.monotonic() + 60
        while not self.loaded and time.monotonic() < end:
            message = self.receive(1)
            if message:
                self.note(message)
        self.settle()

    def settle(self):
        """Two frames: what was asked for is drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise PageError(answer["exceptionDetails"].get("exception", {}).get("description", expression))
        return answer["result"].get("value")

    def click(self, selector, count=1):
        """With the mouse, in the middle of what is there, which is brought into sight."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'nearest', inline: 'nearest'}})")
        self.settle()
        x, y = self.evaluate(f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                             "return [box.x + box.width / 2, box.y + box.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)
        self.settle()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.settle()

    def press(self, key, shift=False):
        """A key by its name, as "ArrowDown", "Enter" or " "."""
        codes = {"Enter": 13, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9}
        parameters = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0])), "modifiers": 8 if shift else 0}
        if key == "Enter":
            parameters["text"] = "\r"
        elif len(key) == 1:
            parameters["text"] = key
        self.call("Input.dispatchKeyEvent", type="keyDown", **parameters)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=parameters["windowsVirtualKeyCode"])
        self.settle()

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
