"""What pages load and what goes wrong in them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, WebError

LOCAL = ("about", "blob", "data", "file")
"""Schemes of addresses that reach no network."""


def place(url: str) -> str:
    """Return the host and port of an address."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443, "ws": 80, "wss": 443}.get(parts.scheme)
    return f"{parts.hostname}:{port}"


def foreign(urls: Iterable[str], allowed: Iterable[str]) -> list[str]:
    """Return the addresses that are neither local nor at an allowed place (host:port)."""
    places = set(allowed)
    return [u for u in urls if urlsplit(u).scheme not in LOCAL and place(u) not in places]


def jupyters_own(stack: str) -> bool:
    """Whether all of an error's stack is in Jupyter's own files: then it is no fault of ours."""
    files = re.findall(r"\b(?:https?|blob|file):[^\s)]+", stack)
    own = re.compile(r"/static/(lab|notebook)/|/lab/extensions/@jupyter")
    return bool(files) and all(map(own.search, files))


class Traffic:
    """Every request of a browser context, its pages' errors, and what a test allows of them."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._allowed: set[str] = set()
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("requestfailed", self._failed)
        context.on("page", self._page)
        context.on("console", self._console)
        context.on("weberror", self._error)

    def _failed(self, request: Request) -> None:
        # What the page's own policy forbids is reported as a request, and never made.
        if request.failure == "csp":
            self.requests.remove(request.url)

    def _page(self, page: Page) -> None:
        page.on("websocket", lambda socket: self.requests.append(socket.url))

    def _console(self, message: ConsoleMessage) -> None:
        source = str(message.location.get("url", ""))
        ours = source.startswith("blob:") or any(n in message.text for n in ("tprofile", "tp-"))
        if message.type == "error" and ours:
            self.errors.append(f"{message.text} ({source})")

    def _error(self, error: WebError) -> None:
        text = error.error.stack or error.error.message
        if not jupyters_own(text):
            self.errors.append(text)

    def allow(self, host: str) -> None:
        """Let pages ask a host, by https unless it names a port or is a whole address."""
        self._allowed.add(place(host if "://" in host else f"https://{host}"))

    def check(self) -> None:
        """Fail if a page asked a host that it may not ask, or if there were errors."""
        strangers = foreign(self.requests, self._allowed)
        assert not strangers, f"requests that leave the server: {strangers}"
        assert not self.errors, "errors in the page:\n" + "\n".join(self.errors)
