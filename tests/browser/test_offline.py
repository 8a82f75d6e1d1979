"""Perfetto from the notebook server: opened at what is selected, without other hosts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from needs import find_packages
from pages import Front, Lab, expect
from server import Server
from traces import DATA
from traffic import Traffic
from viewer import query

import tprofile
from tprofile.views.payload import payload

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

SETUP = "%load_ext tprofile\nimport torch\nx = torch.randn(64, 64)"
CELL = "%%tprofile --warmup 3\nfor _ in range(4):\n    y = (x @ x).relu()"
RECORDED = f"import tprofile\ntprofile.load({str(DATA / 'mlp_train.json.gz')!r})"

LOADED = "() => window.app?.trace && !window.app.isLoadingTrace"
SELECTED = """() => {
    const {kind, eventId, ts, dur} = window.app.trace.selection.selection;
    if (kind !== 'track_event') return null;
    const {start, duration} = window.app.trace.timeline.visibleWindow;
    const told = {eventId, ts, dur, from: start.integral, long: duration};
    return JSON.stringify(told, (_, v) => typeof v === 'bigint' ? Number(v) : v);
}"""


@pytest.fixture(autouse=True)
def viztracer() -> None:
    find_packages("viztracer")


def run(front: Front, server: Server, *cells: str) -> Locator:
    server.make_notebook("offline.ipynb", *cells)
    front.open("offline.ipynb")
    front.run_all()
    front.wait_done()
    return front.cell(len(cells) - 1).locator(".tp:visible")


def opened(context: BrowserContext, view: Locator) -> Page:
    """Open Perfetto by the button, and return its tab once the trace is in it."""
    with context.expect_page() as tab:
        view.get_by_role("button", name="Open in Perfetto").click()
    tab.value.wait_for_function(LOADED)
    return tab.value


def selected(tab: Page) -> dict[str, Any]:
    """Return what is selected, with its name, and what is in sight."""
    told = json.loads(tab.wait_for_function(SELECTED).json_value())
    ((name,),) = query(tab, f"select name from slice where id = {told['eventId']}")
    return told | {"name": name}


def test_the_profile_just_taken_is_there_at_what_is_selected(
    either: Front, server: Server, context: BrowserContext, traffic: Traffic
) -> None:
    view = run(either, server, SETUP, CELL)
    before = len(traffic.requests)
    view.get_by_role("tab", name="Operators").click()
    view.locator(".tp-row", has_text="aten::relu").first.click()
    tab = opened(context, view)
    assert tab.url.startswith(f"{server.url}/tprofile/perfetto/index.html#!/viewer")
    expect(view.locator(".tp-told")).to_contain_text("open in Perfetto, from this notebook server.")
    # THEN the first of the selected in the run that is drawn is selected, and in sight
    found = selected(tab)
    assert found["name"] == "aten::relu"
    assert found["from"] <= found["ts"]
    assert found["ts"] + found["dur"] <= found["from"] + found["long"]
    assert 4 * found["dur"] <= found["long"] <= 6 * found["dur"]
    # AND all that was recorded is there
    server_side = tprofile.load(downloaded(view, server.notebooks / "mine.json.gz"))
    mine = {(n, c) for n, c in query(tab, "select name, count(1) from slice group by name")}
    assert mine == {(n, str(c)) for n, c in counts(server_side).items()}
    # AND nobody but the server was asked, which `traffic` asserts of all hosts
    assert any("trace_processor" in url for url in traffic.requests[before:])


def counts(one: tprofile.Profile) -> dict[str, int]:
    found: dict[str, int] = one.events["name"].value_counts().to_dict()
    return found


def downloaded(view: Locator, to: Path) -> Path:
    with view.page.expect_download() as started:
        view.get_by_role("button", name="Download trace").first.click()
    started.value.save_as(to)
    return to


def test_it_opens_at_the_very_bar_that_was_chosen(
    lab: Lab, server: Server, context: BrowserContext, screenshot: Callable[..., Path]
) -> None:
    # GIVEN a recorded trace of a GPU
    view = run(lab, server, RECORDED)
    one = tprofile.load(DATA / "mlp_train.json.gz")
    data = payload(one)
    spans = data["strip"]["spans"]
    begin = data["run_times_ns"][str(data["strip"]["run"])][0]
    # AND the bars of an operator that is there more than once
    name = data["names"].index("aten::linear")
    bars = [i for i, row in enumerate(spans["row"]) if row == 0 and spans["name"][i] == name][:2]
    assert len(bars) == 2
    for bar in bars:
        # WHEN one is chosen: from the first bar of all so far to the right
        view.locator("canvas").focus()
        for key in ("ArrowDown",) + ("ArrowRight",) * bar + ("Enter",):
            lab.page.keyboard.press(key)
        tab = opened(context, view)
        found = selected(tab)
        # THEN it is selected, to the nanosecond
        assert (found["name"], found["ts"]) == (
            "aten::linear", begin + round(spans["start_us"][bar] * 1000),
        )  # fmt: skip
        tab.close()
    # AND a row of the kernels opens at that kernel
    view.get_by_role("tab", name="Kernels").click()
    row = view.locator(".tp-row").first
    row.click()
    tab = opened(context, view)
    kernel = selected(tab)
    assert kernel["name"] == one.kernels["name"].iloc[0]
    screenshot("perfetto", tab)
    tab.close()
    for theme in ("light", "dark"):
        lab.theme(theme)
        screenshot(f"opened-{theme}", view)


def test_nothing_selected_shows_the_whole(
    lab: Lab, server: Server, context: BrowserContext
) -> None:
    tab = opened(context, run(lab, server, RECORDED))
    assert tab.evaluate("() => window.app.trace.selection.selection.kind") == "empty"


SIZED = """import tprofile.views.widget as w
answer = w.TraceWidget._answered
def sized(self, content):
    found, buffers = answer(self, content)
    if found["kind"] == "trace" and sizes:
        found["size"] = sizes.pop(0)
    return found, buffers
w.TraceWidget._answered = sized
sizes = [150_000_000, 2_500_000_000]"""


def test_a_large_trace_is_asked_about_before_it_is_fetched(
    lab: Lab, server: Server, traffic: Traffic, screenshot: Callable[..., Path]
) -> None:
    context = traffic.context
    # GIVEN a kernel that tells other sizes than the trace has, twice
    view = run(lab, server, SIZED, RECORDED)
    told = view.locator(".tp-told")
    button = view.get_by_role("button", name="Open in Perfetto")

    def closed(click: Callable[[], None]) -> None:
        with context.expect_page() as tab:
            click()
        if not tab.value.is_closed():
            tab.value.wait_for_event("close")

    # THEN Perfetto's window does not stay before the question
    closed(button.click)
    expect(told).to_contain_text("The trace is 150.0 MB packed, and Perfetto holds at most about")
    expect(told.get_by_role("button", name="Download trace")).to_be_visible()
    for theme in ("light", "dark"):
        lab.theme(theme)
        screenshot(f"large-{theme}", view)
    # AND none is offered for what it cannot hold
    closed(told.get_by_role("button", name="Open it anyway").click)
    expect(told).to_contain_text(
        "The trace is 2500.0 MB, and Perfetto holds at most about 2 GB: it"
    )
    expect(told.get_by_role("button", name="Open it anyway")).to_have_count(0)
    screenshot("too-large", view)
    # AND with the true size it opens at once
    opened(context, view)
    expect(told).to_contain_text("open in Perfetto, from this notebook server.")
    # The windows that were closed had not loaded yet.
    traffic.errors = [e for e in traffic.errors if not e.startswith("Failed to load ")]
