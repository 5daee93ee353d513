# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A headless Chromium, driven over a pipe with its DevTools protocol: it needs no package and no port.

https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from ansible_collections.mlnode.tuning.tests.system import packages

#: Names of the program, the smallest first; Debian's chromium-headless-shell has what is needed and no more
PROGRAMS = (
    "chromium-headless-shell",
    "chromium",
    "google-chrome",
    "google-chrome-stable",
    "chromium-browser",
)

PACKAGE = "chromium-headless-shell"

#: For one answer, in seconds: a start on a machine that is busy takes some
PATIENCE = 60


def find() -> str | None:
    """A Chromium that runs (Ubuntu's is an empty shell of a snap), installed where that can be done."""
    for _attempt in range(2):
        for program in PROGRAMS:
            path = shutil.which(program)
            if path and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
                return path
        if not packages.install(PACKAGE):
            break
    return None


class Page:
    """One tab."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, back: int) -> None:
        self._process, self._to, self._back = process, to, back
        self._number = 0
        self._left = b""
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self._next(until)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def wait(self, method: str) -> dict[str, Any]:
        """The next event of this name; those before now do not count."""
        until = time.monotonic() + PATIENCE
        while True:
            answer = self._next(until)
            if answer.get("method") == method:
                return answer

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._left:
            ready, _writing, _odd = select.select([self._back], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise AssertionError(f"no answer within {PATIENCE} s")
            more = os.read(self._back, 1 << 20)
            if not more:
                raise AssertionError("the browser has ended")
            self._left += more
        text, _end, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    # -- what a person does ---------------------------------------------------------------------------

    def open(self, path: pathlib.Path) -> None:
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.wait("Page.loadEventFired")

    def ask(self, expression: str) -> Any:
        """The value of an expression, after the next picture was drawn."""
        wrapped = (
            "new Promise((done) => requestAnimationFrame(() => setTimeout(() => done("
            f"(() => {{ return {expression}; }})()), 0)))"
        )
        found = self.call("Runtime.evaluate", expression=wrapped, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def click(self, selector: str) -> None:
        """With the mouse, in the middle of the first that the selector finds: what lies over it takes it."""
        place = self.ask(
            f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1
            )

    def key(self, key: str, modifiers: int = 0) -> None:
        codes = {"Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowUp": 38, "ArrowDown": 40}
        text = "\r" if key == "Enter" else key if len(key) == 1 else ""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=codes.get(key, 0),
                modifiers=modifiers,
                **({"text": text} if text and kind == "keyDown" else {}),
            )

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def choose(self, selector: str, value: str) -> None:
        """In a list: the browser's own window of it is none of the page's."""
        self.ask(
            f"(() => {{ const list = document.querySelector({json.dumps(selector)});"
            f" list.value = {json.dumps(value)};"
            " list.dispatchEvent(new Event('input', {bubbles: true})); return list.value; })()"
        )

    def size(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def scheme(self, name: str) -> None:
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path: pathlib.Path) -> bytes:
        found = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        path.write_bytes(found)
        return found

    def complaints(self) -> list[str]:
        """What went wrong in the page, and all that it fetched beside itself."""
        found = []
        for event in self.events:
            about = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(about["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded":
                found.append(str(about["entry"]["text"]))
            elif event["method"] == "Network.requestWillBeSent" and about.get("type") != "Document":
                found.append(str(about["request"]["url"]))
        return found


@contextlib.contextmanager
def browser(program: str) -> Iterator[Page]:
    """A browser of its own, which ends with the block, and all that it kept."""
    theirs, to = os.pipe()
    back, ours = os.pipe()
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as folder:
        # Its own sandbox needs user namespaces, which root in a container may not have; the page is ours.
        command = [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder}",
        ]
        # The protocol wants 3 and 4; both ends may have these numbers here, so they are moved out of the way.
        shell = f'exec 3<&{theirs} 4>&{ours}; exec "$@"'
        process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command],
            pass_fds=(theirs, ours),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)
        os.close(ours)
        try:
            yield Page(process, to, back)
        finally:
            os.close(to)
            os.close(back)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
