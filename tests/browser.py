"""A real browser for tests: Debian's chromium, driven through the DevTools protocol over a pipe.

Nothing is installed for it and nothing is downloaded. `Browser.open` returns a page; a page evaluates JavaScript, waits
for what it should show, clicks what has a name, types keys, and takes pictures.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = "there is no chromium here (apt-get install chromium)"
PATIENCE = 20.0
_KEYS = {"Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, "")}
_FLAGS = (
    *("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--disable-gpu"),
    *("--disable-extensions", "--disable-background-networking", "--disable-sync", "--disable-component-update"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "--mute-audio"),
    *("--no-sandbox", "--disable-features=Translate,OptimizationHints,MediaRouter", "--window-size=1280,900"),
)


class BrowserError(Exception):
    """The browser did not do what it should."""


class Browser:
    """One process of chromium."""

    def __init__(self, process: "subprocess.Popen[bytes]", reading: int, writing: int) -> None:
        self._process = process
        self._reading, self._writing = reading, writing
        self._held = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def send(self, method: str, session: str = "", /, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while True:
            found = self._receive(end)
            if found.get("id") == number:
                if "error" in found:
                    raise BrowserError(f"{method}: {found['error']}")
                result: dict[str, Any] = found["result"]
                return result
            self.events.append(found)

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._held:
            if not select.select([self._reading], [], [], max(0.0, end - time.monotonic()))[0]:
                raise BrowserError("chromium does not answer")
            data = os.read(self._reading, 1 << 16)
            if not data:
                raise BrowserError("chromium has ended")
            self._held += data
        message, _, self._held = self._held.partition(b"\0")
        tree: dict[str, Any] = json.loads(message)
        return tree

    def open(self, address: str = "about:blank", *, alone: bool = False) -> "Page":
        """Open a page; `alone`: in a profile of its own, without the cookies of the others."""
        context = self.send("Target.createBrowserContext")["browserContextId"] if alone else None
        more = {"browserContextId": context} if context else {}
        target = self.send("Target.createTarget", url="about:blank", **more)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        if address != "about:blank":
            page.go(address)
        return page


class Page:
    """One page of a browser."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.browser = browser
        self._session = session
        self._target = target

    def close(self) -> None:
        """Close it."""
        self.browser.send("Target.closeTarget", targetId=self._target)

    def send(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol for this page."""
        return self.browser.send(method, self._session, **params)

    def go(self, address: str) -> None:
        """Load an address, and wait until it is there."""
        self.send("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, script: str) -> Any:
        """Return what JavaScript makes of an expression."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise BrowserError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def until(self, script: str, *, seconds: float = PATIENCE) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while True:
            try:
                if self.evaluate(f"Boolean({script})"):
                    return
            except BrowserError:  # the page is just being left
                pass
            if time.monotonic() > end:
                text = self.evaluate("document.body.innerText")
                raise BrowserError(f"never true: {script}\n{str(text)[:2000]}")
            time.sleep(0.03)

    def text(self, selector: str = "body") -> str:
        """Return the text that a person sees in an element."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, name: str) -> None:
        """Click the button or link with this name, as soon as it can be clicked."""
        found = (
            "[...document.querySelectorAll('button'), ...document.querySelectorAll('a, summary')]"
            f".find(e => e.innerText.trim() === {json.dumps(name)} && e.checkVisibility() && !e.disabled)"
        )
        self.until(f"Boolean({found})")
        self.evaluate(f"{found}.click()")

    def key(self, key: str) -> None:
        """Press a key."""
        code, text = _KEYS.get(key, (ord(key.upper()[0]), key))
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, text=text if kind == "keyDown" else "",
                      windowsVirtualKeyCode=code)  # fmt: skip

    def fill(self, label: str, value: str) -> None:
        """Put a value into the field with this label, as typing or choosing does."""
        script = (
            "(() => { const label = [...document.querySelectorAll('label')].find("
            f"e => e.innerText.trim().split('\\n')[0] === {json.dumps(label)}); "
            f"const field = label.control; field.value = {json.dumps(value)};"
            " field.dispatchEvent(new Event('input', {bubbles: true}));"
            " field.dispatchEvent(new Event('change', {bubbles: true})); return true; })()"
        )
        self.until(script)

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Choose the size of the window and the colours."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = "dark" if dark else "light"
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        features = [{"name": "prefers-color-scheme", "value": scheme}, still]
        self.send("Emulation.setEmulatedMedia", features=features)

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Write what the page looks like to a PNG file."""
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(data))

    def complaints(self) -> list[str]:
        """Return what the console says: errors of scripts, and what the content security policy has blocked."""
        self.evaluate("1")
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self._session:
                continue
            params = event.get("params", {})
            if event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            elif event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"])[:500])
        return found


@contextmanager
def browser() -> Iterator[Browser]:
    """Start chromium with an empty profile, and end it with all its processes."""
    if PROGRAM is None:
        raise BrowserError(MISSING)
    first_in, our_out = os.pipe()
    our_in, first_out = os.pipe()
    their_in, their_out = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (first_in, first_out)]
    os.close(first_in)
    os.close(first_out)

    with tempfile.TemporaryDirectory(prefix="byleave-browser-", ignore_cleanup_errors=True) as profile:
        # The protocol's two ends are the descriptors 3 and 4.
        shell = f'exec "$0" "$@" 3<&{their_in} 4>&{their_out}'
        words = ["bash", "-c", shell, PROGRAM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(
            words,
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            pass_fds=(their_in, their_out),
            start_new_session=True,
            env={**os.environ, "HOME": profile},
        )
        os.close(their_in)
        os.close(their_out)
        try:
            yield Browser(process, our_in, our_out)
        finally:
            os.close(our_out)
            os.close(our_in)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
