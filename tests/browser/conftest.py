"""A real browser and a real Jupyter server for tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from needs import find_chromium, find_packages
from pages import NO_PERFETTO, Front, Lab, Notebook7, Perfetto
from server import Server
from traffic import Traffic

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

F = TypeVar("F", bound=Front)
HERE = Path(__file__).parent
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Nothing is reached but this machine, whatever a page asks for.
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
WAIT = 30_000
"""Milliseconds that no passing test waits for."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def program() -> str:
    """The path of Chromium, on a machine that has all that these tests need."""
    find_packages("playwright", "jupyterlab", "notebook")
    return find_chromium()


# For a module and not for longer: as long as Playwright runs, its event loop counts as running in
# this thread, and tests elsewhere that run a loop of their own would fail.
@pytest.fixture(scope="module")
def chromium(program: str) -> Iterator[Browser]:
    """A running Chromium."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The Jupyter server of all tests, with its folder of notebooks."""
    server = Server(tmp_path_factory.mktemp("jupyter"))
    yield server
    server.stop()


@pytest.fixture
def traffic(chromium: Browser) -> Iterator[Traffic]:
    """What the test's pages ask for and complain of; both are checked when the test is over."""
    context = chromium.new_context(viewport={"width": 1300, "height": 1000})
    context.set_default_timeout(WAIT)
    traffic = Traffic(context)
    yield traffic
    context.close()
    traffic.check()


@pytest.fixture
def context(traffic: Traffic) -> BrowserContext:
    """The test's own browser profile: tabs are opened in it."""
    return traffic.context


@pytest.fixture
def lab(server: Server, traffic: Traffic) -> Iterator[Lab]:
    """A tab of JupyterLab."""
    yield from front(Lab, server, traffic)


@pytest.fixture
def notebook7(server: Server, traffic: Traffic) -> Iterator[Notebook7]:
    """A tab of Notebook 7."""
    yield from front(Notebook7, server, traffic)


@pytest.fixture(params=["lab", "notebook7"])
def either(request: pytest.FixtureRequest) -> Front:
    """Both of them: the test runs twice."""
    return request.getfixturevalue(request.param)


def front(kind: type[F], server: Server, traffic: Traffic) -> Iterator[F]:
    traffic.allow(server.url)
    tab = kind(traffic.context, server)
    yield tab
    tab.close()
    server.clear()


@pytest.fixture
def perfetto(traffic: Traffic) -> Perfetto:
    """A stand-in for ui.perfetto.dev, which the test may then open: there is none nearer."""
    traffic.allow("ui.perfetto.dev")
    traffic.context.add_init_script(NO_PERFETTO)
    page = (HERE / "perfetto.html").read_text()
    traffic.context.route(
        "https://ui.perfetto.dev/**",
        lambda route: route.fulfill(body=page, content_type="text/html"),
    )
    return Perfetto(traffic.context)


@pytest.fixture
def screenshot(traffic: Traffic, tmp_path: Path) -> Callable[..., Path]:
    """Save a picture as `name`.png: of the newest tab, or of a tab or a part of it."""
    folder = Path(os.environ.get("TPROFILE_SHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)

    def save(name: str, target: Page | Locator | None = None) -> Path:
        path = folder / f"{name}.png"
        (target or traffic.context.pages[-1]).screenshot(path=path)
        return path

    return save
