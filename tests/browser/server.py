"""One Jupyter server, with JupyterLab at /lab and Notebook 7 at /notebooks, and its notebooks."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import nbformat

STARTS = 60
"""Seconds within which a server has to answer."""

EXTENSION = Path(__file__).parents[2] / "src" / "jupyter" / "tprofile.json"
"""What our wheel puts among the configuration of an environment, to enable our extension."""

QUIET = {
    "@jupyterlab/apputils-extension:notification": {
        "checkForUpdates": False,
        "doNotDisturbMode": True,
        "fetchNews": "false",
    },
}
"""Settings without which JupyterLab asks whether it may fetch news."""


class Server:
    """A running server whose settings, kernels and notebooks are all below `folder`.

    Its addresses begin with `base_url`, and it finds the packages in the folder `packages` first.
    """

    def __init__(self, folder: Path, base_url: str = "/", packages: Path | None = None) -> None:
        self.notebooks = folder / "notebooks"
        self._folder = folder
        self._token = secrets.token_hex()
        self._log = folder / "log"
        self._base_url = base_url
        self._packages = packages
        for name in (
            *("notebooks", "config/labconfig", "config/jupyter_server_config.d"),
            *("data/kernels/python3", "runtime"),
        ):
            (folder / name).mkdir(parents=True)
        # As the wheel does it: where tests run, the package may be there from its sources.
        shutil.copy(EXTENSION, folder / "config/jupyter_server_config.d")
        _write(folder / "config/labconfig/default_setting_overrides.json", QUIET)
        # IPython's history is a file that kernels of one user wait for each other to write.
        launch = ["-m", "ipykernel_launcher", "--HistoryManager.enabled=False"]
        kernel = {
            "argv": [sys.executable, *launch, "-f", "{connection_file}"],
            "display_name": "Python 3",
            "language": "python",
            "metadata": {"debugger": False},
        }
        _write(folder / "data/kernels/python3/kernel.json", kernel)
        self._process = self._start()
        try:
            self.url = self._wait()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    def _start(self) -> subprocess.Popen[bytes]:
        folder = self._folder
        options = {
            "ExtensionApp.open_browser": False,
            "JupyterNotebookApp.expose_app_in_browser": True,
            "LabApp.expose_app_in_browser": True,
            "LabApp.extension_manager": "readonly",
            "IdentityProvider.token": self._token,
            "ServerApp.allow_root": True,
            "ServerApp.base_url": self._base_url,
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": 0,
            "ServerApp.root_dir": self.notebooks,
        }
        places = {
            "IPYTHONDIR": "ipython",
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        }
        environment = {name: str(folder / place) for name, place in places.items()}
        # Else, in a virtual environment, its kernel and settings would come before ours.
        environment["JUPYTER_PREFER_ENV_PATH"] = "0"
        if self._packages:
            before = [str(self._packages), os.environ.get("PYTHONPATH")]
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, before))
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", *(f"--{k}={v}" for k, v in options.items())],
                cwd=self.notebooks,
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait(self) -> str:
        """Return the server's address once it answers."""
        until = time.monotonic() + STARTS
        while self._process.poll() is None and time.monotonic() < until:
            # It chose its port itself and writes it down when it listens.
            for file in (self._folder / "runtime").glob("jpserver-*.json"):
                try:
                    return str(json.loads(file.read_text())["url"]).rstrip("/")
                except ValueError:  # half written
                    pass
            time.sleep(0.05)
        raise RuntimeError(f"The Jupyter server did not start. Its log:\n{self.log()}")

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def address(self, path: str) -> str:
        """Return the full address of a path, with what logs a browser in."""
        return f"{self.url}{path}{'&' if '?' in path else '?'}token={self._token}"

    @property
    def headers(self) -> dict[str, str]:
        """What a request says to be let in."""
        return {"Authorization": f"token {self._token}"}

    def ask(self, path: str, method: str = "GET", content: Any = None) -> Any:
        """Call the server's REST API: `ask("sessions")`."""
        request = urllib.request.Request(
            f"{self.url}/api/{path}",
            method=method,
            data=None if content is None else json.dumps(content).encode(),
            headers=self.headers,
        )
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(request, timeout=STARTS) as reply:
            return json.loads(reply.read() or b"null")

    def kernels(self, name: str | None = None) -> list[str]:
        """Return the ids of the running kernels, of all notebooks or of one."""
        return [s["kernel"]["id"] for s in self.ask("sessions") if name in (None, s["path"])]

    def make_notebook(self, name: str, *cells: Any, trusted: bool = False) -> Path:
        """Write a notebook; a string is a code cell, anything else is a cell of nbformat's.

        Jupyter trusts cells that have no outputs, so `trusted` matters only to one that has some.
        """
        made = [nbformat.v4.new_code_cell(c) if isinstance(c, str) else c for c in cells]
        notebook = nbformat.v4.new_notebook(cells=made)
        notebook.metadata.kernelspec = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        return self._write_notebook(name, notebook, trusted)

    def read_notebook(self, name: str) -> Any:
        """Return a notebook as it is on disk."""
        return nbformat.read(self.notebooks / name, as_version=4)

    def copy_notebook(self, name: str, to: str, *, trusted: bool) -> Path:
        """Copy a notebook with its outputs, as one's own or as one that came by mail."""
        return self._write_notebook(to, self.read_notebook(name), trusted)

    def _write_notebook(self, name: str, notebook: Any, trusted: bool) -> Path:
        # Trust goes by content: what equals a notebook that was trusted once would be so again.
        notebook.metadata["tests"] = secrets.token_hex()
        path = self.notebooks / name
        nbformat.write(notebook, path)
        if trusted:
            self.ask(f"contents/{urllib.parse.quote(name)}/trust", "POST")
        return path

    def clear(self) -> None:
        """Shut down all kernels, and forget what a test has left open or set (the theme)."""
        for session in self.ask("sessions"):
            self.ask(f"sessions/{session['id']}", "DELETE")
        for pattern in ("settings/**/*.jupyterlab-settings", "workspaces/*"):
            for file in self._folder.glob(pattern):
                file.unlink(missing_ok=True)

    def stop(self) -> None:
        """Stop the server and its kernels."""
        with contextlib.suppress(OSError):
            self.clear()
        # Asked to shut down, it sometimes waits for its extensions for ever.
        self._process.kill()
        self._process.wait()


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))
