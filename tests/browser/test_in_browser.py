"""The widget and its page as a person meets them, in JupyterLab and in Notebook 7."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pages import NO_PERFETTO, Front, Lab, Perfetto, expect
from server import Server
from traces import DATA, note, op, profile, recorded, work
from traffic import Traffic

import tprofile
from tprofile.trace.marks import RUN
from tprofile.views.tables import operator_names
from tprofile.views.words import visible

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

SETUP = "%load_ext tprofile\nimport torch\nx = torch.randn(64, 64)"
CELL = "%%tprofile --warmup 3\ny = (x @ x).relu()\ntotal = y.sum().item()"
EXPORT = "_ = _tprofile.export_trace('exported.json.gz')"
HOSTILE = f"import tprofile\ntprofile.load({str(DATA / 'hostile_names.json.gz')!r})"
LOOP = f"import tprofile\ntprofile.load({str(DATA / 'item_in_loop.json.gz')!r})"

# The notebook's clock for both, since what counts is what a person sees.
WATCH = """() => {
    window.seen = {};
    const look = () => {
        const cell = document.querySelectorAll('.jp-CodeCell')[1];
        const prompt = cell?.querySelector('.jp-InputPrompt')?.textContent ?? '';
        const rows = [...(cell?.querySelectorAll('.tp-row') ?? [])];
        if (/\\[\\d+\\]/.test(prompt)) window.seen.ended ??= performance.now();
        if (rows.some(row => row.checkVisibility())) window.seen.table ??= performance.now();
        requestAnimationFrame(look);
    };
    look();
}"""


def run(front: Front, server: Server, *cells: str, name: str = "w.ipynb") -> None:
    server.make_notebook(name, *cells)
    front.open(name)
    front.run_all()
    front.wait_done()


def shown(where: Locator) -> Locator:
    """Find what a person sees of us: the widget or the page, whichever is not hidden."""
    return where.locator(".tp:visible")


def tab(view: Locator, name: str) -> Locator:
    """Go to a tab, which a click does."""
    found = view.get_by_role("tab", name=name)
    found.click()
    return found


def rows(view: Locator) -> Locator:
    return view.locator(".tp-row")


def head(view: Locator, name: str) -> Locator:
    return view.get_by_role("columnheader", name=name)


def place(view: Locator, name: str) -> int:
    """Return which of the columns bears a name."""
    heads = view.get_by_role("columnheader").all_inner_texts()
    (found,) = [i for i, text in enumerate(heads) if text.lstrip("↓↑").startswith(name)]
    return found


def column(view: Locator, name: str) -> list[str]:
    """Return what stands in a column, from the rows that are drawn, in the order of the table."""
    cells: list[list[Any]] = view.locator(".tp-row").evaluate_all(
        """(rows, place) => rows.map(row =>
            [Number(row.ariaRowIndex ?? row.getAttribute('aria-rowindex')),
             row.children[place].textContent])""",
        place(view, name),
    )
    return [text for _, text in sorted(cells)]


def all_names(view: Locator) -> list[str]:
    """Return all names of the table, scrolled through as a person would."""
    view.locator(".tp-table").evaluate("e => { e.scrollTop = 0; }")
    found: dict[int, str] = {}
    for _ in range(200):
        expect(rows(view).first).to_be_visible()
        found |= dict(
            rows(view).evaluate_all(
                """rows => rows.map(row =>
                    [Number(row.getAttribute('aria-rowindex')), row.children[0].textContent])"""
            )
        )
        before, after = view.locator(".tp-table").evaluate(
            "e => { const top = e.scrollTop; e.scrollTop += 150; return [top, e.scrollTop]; }"
        )
        if before == after:
            break
        view.page.wait_for_timeout(30)
    return [found[place] for place in sorted(found)]


def numbers(texts: list[str]) -> list[float]:
    return [0.001 if t.startswith("<") else float(t) for t in texts]


def opened(context: BrowserContext, path: Path, width: int = 1000) -> tuple[Page, Locator]:
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(path.as_uri())
    return page, shown(page.locator("body"))


def test_a_cell_shows_its_table_within_a_second(
    either: Front, server: Server, screenshot: Callable[..., Path]
) -> None:
    server.make_notebook("w.ipynb", SETUP, CELL)
    either.open("w.ipynb")
    either.page.evaluate(WATCH)
    either.run_all()
    either.wait_done()
    view = shown(either.outputs(1))
    expect(view).to_have_count(1)
    expect(rows(view).first).to_be_visible()
    either.page.wait_for_function("() => window.seen.table && window.seen.ended")
    seen = either.page.evaluate("() => window.seen")
    assert seen["table"] - seen["ended"] < 1000
    # THEN it is the widget; the page with the same content is hidden, and no error stands there
    expect(either.outputs(1).locator(".tp-live")).to_have_count(1)
    expect(either.outputs(1).locator(".tp-static")).to_be_hidden()
    assert "CPU only" in view.locator(".tp-title").inner_text()
    expect(view.locator(".tp-detail").first).to_have_text(
        "7 runs: 3 warm-up, 1 profiler warm-up, 3 profiled"
    )
    # AND of a cell of several lines these come first
    assert all_names(view) == ["2y = (x @ x).relu()", "3total = y.sum().item()"]
    tab(view, "Operators")
    assert "aten::mm" in all_names(view)
    for theme in ("dark", "light"):
        either.theme(theme)
        expect(view).to_have_attribute("data-tp-theme", theme)
        screenshot(f"cell-{type(either).__name__}-{theme}", view)


def test_a_table_sorts_and_filters(either: Front, server: Server) -> None:
    run(either, server, LOOP)
    view = shown(either.outputs(0))
    names = recorded("item_in_loop").operators["name"].tolist()
    assert all_names(view) == names
    for label in ("calls", "self CPU", "CUDA total"):
        head(view, label).get_by_role("button").click()
        expect(head(view, label)).to_have_attribute("aria-sort", "descending")
        values = numbers(column(view, label))
        assert values == sorted(values, reverse=True)
        head(view, label).get_by_role("button").click()
        expect(head(view, label)).to_have_attribute("aria-sort", "ascending")
        values = numbers(column(view, label))
        assert values == sorted(values)
    head(view, "operator").get_by_role("button").click()
    assert column(view, "operator") == sorted(names)
    # A part of a name, a pattern, and what is no pattern
    field = view.get_by_role("searchbox")
    field.fill("LAUNCH")
    assert column(view, "operator") == ["cudaLaunchKernel", "cudaLaunchKernelExC"]
    expect(view.locator(".tp-foot [role=status]")).to_have_text("2 of 13 operators, per run")
    field.fill("^aten::(mm|sum)$")
    expect(rows(view)).to_have_count(0)
    expect(view.locator(".tp-empty")).to_have_text("No name matches the filter.")
    view.get_by_role("button", name="Filter by a regular expression").click()
    assert column(view, "operator") == ["aten::mm", "aten::sum"]
    field.fill("(")
    expect(view.locator(".tp-foot [role=status]")).to_contain_text("no regular expression")
    expect(rows(view)).not_to_have_count(0)
    field.press("Escape")
    expect(field).to_have_value("")
    assert len(all_names(view)) == len(names)


def test_keys_and_figures(either: Front, server: Server) -> None:
    run(either, server, LOOP)
    view = shown(either.outputs(0))
    # Keys that make and delete cells elsewhere
    for where in (view.get_by_role("searchbox"), view.get_by_role("grid"), view.locator("canvas")):
        where.focus()
        for key in "abdd":
            either.page.keyboard.press(key)
    expect(either.page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(1)
    expect(view.get_by_role("searchbox")).to_have_value("abdd")
    view.get_by_role("grid").focus()
    either.page.keyboard.press("Escape")
    # Figures per run, or of all runs
    mm = view.locator(".tp-row", has_text="aten::mm")
    calls, time = place(view, "calls"), place(view, "self CUDA")
    expect(mm.get_by_role("gridcell").nth(calls)).to_have_text("30")
    expect(mm.get_by_role("gridcell").nth(time)).to_have_text("383.33")
    view.get_by_role("button", name="3 runs").click()
    expect(mm.get_by_role("gridcell").nth(calls)).to_have_text("90")
    expect(mm.get_by_role("gridcell").nth(time)).to_have_text("1.15")
    expect(view.locator(".tp-foot [role=status]")).to_have_text("13 operators, sums over 3 runs")


def test_the_trace_is_downloaded_and_opened_in_perfetto(
    either: Front, server: Server, perfetto: Perfetto, tmp_path: Path
) -> None:
    pieces = "import tprofile.views.widget as w\nw.CHUNK_BYTES = 1000"
    run(either, server, SETUP, CELL, EXPORT, pieces)
    view = shown(either.outputs(1))
    mine = tprofile.load(server.notebooks / "exported.json.gz")
    with either.page.expect_download() as started:
        view.get_by_role("button", name="Download trace").click()
    file = tmp_path / started.value.suggested_filename
    started.value.save_as(file)
    assert file.name.startswith("tprofile-")
    assert file.name.endswith(".json.gz")
    # THEN in several pieces
    assert file.stat().st_size > 1000
    expect(view.locator(".tp-told")).to_contain_text(f"{file.name} (")
    assert tprofile.load(file).operators.equals(mine.operators)

    tab = perfetto.opened(view.get_by_role("button", name="Open in Perfetto").click)
    got = perfetto.received(tab)
    assert got["title"].startswith("tprofile: CPU only a run takes ")
    assert got["fileName"] == file.name
    assert tprofile.load(got["buffer"]).operators.equals(mine.operators)
    expect(view.locator(".tp-told")).to_contain_text("open in Perfetto at ui.perfetto.dev")


def test_what_goes_wrong_with_a_trace_is_said(
    lab: Lab, server: Server, traffic: Traffic, context: BrowserContext
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.add_init_script(NO_PERFETTO)
    run(lab, server, SETUP, CELL, EXPORT)
    view = shown(lab.outputs(1))
    told = view.locator(".tp-told")
    # First what goes well: a path, on the clipboard
    view.get_by_role("button", name="Copy path").click()
    expect(told).to_contain_text("Copied the path")
    path = Path(view.locator(".tp-path").inner_text())
    assert lab.page.evaluate("() => navigator.clipboard.readText()") == str(path)
    mine = tprofile.load(server.notebooks / "exported.json.gz")
    assert tprofile.load(path).operators.equals(mine.operators)
    path.unlink()
    path.parent.rmdir()

    # A Perfetto that never answers, and is closed
    traffic.allow("ui.perfetto.dev")
    context.route(
        "https://ui.perfetto.dev/**",
        lambda route: route.fulfill(body="<p>silent</p>", content_type="text/html"),
    )
    with context.expect_page() as tab:
        view.get_by_role("button", name="Open in Perfetto").click()
    expect(told).to_contain_text("Waiting for Perfetto")
    tab.value.close()
    expect(told).to_contain_text("its window was closed")
    # One that is given up
    with context.expect_page() as tab:
        view.get_by_role("button", name="Open in Perfetto").click()
    expect(told).to_contain_text("Waiting for Perfetto")
    told.get_by_role("button", name="Cancel").click()
    expect(told).to_have_text("")

    # A place that opens no windows
    lab.page.evaluate("() => { window.open = () => null; }")
    view.get_by_role("button", name="Open in Perfetto").click()
    expect(told).to_contain_text("No window may be opened from here")
    with lab.page.expect_download():
        told.get_by_role("button", name="Download trace").click()

    # A kernel that is busy: it is waited for, if it does not answer meanwhile
    (server.notebooks / "go").unlink(missing_ok=True)
    lab.page.evaluate(
        """code => {
            const { sessionContext } = jupyterapp.shell.currentWidget;
            sessionContext.session.kernel.requestExecute({ code });
        }""",
        "import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)",
    )
    with lab.page.expect_download():
        view.get_by_role("button", name="Download trace").first.click()
        lab.page.wait_for_timeout(500)
        (server.notebooks / "go").touch()

    # A kernel that is gone
    lab.restart_kernel()
    view.get_by_role("button", name="Download trace").click()
    expect(told).to_contain_text("The kernel that has the trace is gone.")
    view.get_by_role("button", name="Close this message").click()
    expect(told).to_have_text("")


def test_a_saved_notebook_needs_no_kernel(
    either: Front,
    server: Server,
    context: BrowserContext,
    traffic: Traffic,
    screenshot: Callable[..., Path],
) -> None:
    run(either, server, SETUP, CELL)
    tab(shown(either.outputs(1)), "Operators")
    names = all_names(shown(either.outputs(1)))
    either.save()
    either.shut_down_kernel()

    # Reopened: the page, in full
    either.open("w.ipynb", kernel=False)
    assert either.kernels() == []
    view = shown(either.outputs(1))
    expect(view).to_have_count(1)
    expect(either.outputs(1).locator(".tp-live")).to_have_count(0)
    tab(view, "Operators")
    assert all_names(view) == names
    head(view, "operator").get_by_role("button").click()
    head(view, "operator").get_by_role("button").click()
    assert column(view, "operator") == sorted(names, reverse=True)[: len(column(view, "operator"))]
    expect(either.page.get_by_text("Error displaying widget")).not_to_be_visible()
    expect(view.locator(".tp-gone")).to_contain_text("not in this page")
    screenshot(f"reopened-{type(either).__name__}", either.cell(1))

    # Not trusted: the plain table
    server.copy_notebook("w.ipynb", "mailed.ipynb", trusted=False)
    either.open("mailed.ipynb", kernel=False)
    assert not either.trusted()
    output = either.outputs(1)
    expect(output.locator(".tp")).to_have_count(0)
    expect(output.locator("table").first).to_be_visible()
    expect(output.get_by_text("aten::mm", exact=True).first).to_be_visible()
    # AND neither data nor code shows as text
    assert "payload" not in output.inner_text()
    expect(either.page.get_by_text("Error displaying widget")).not_to_be_visible()
    screenshot(f"untrusted-{type(either).__name__}", either.cell(1))
    either.close()

    # Converted: the page, from a file
    notebook = server.notebooks / "w.ipynb"
    # Its own template asks for these two; we are asked for nothing.
    traffic.allow("cdnjs.cloudflare.com")
    traffic.allow("cdn.jsdelivr.net")
    subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "html", str(notebook)],
        check=True, capture_output=True,
    )  # fmt: skip
    page, view = opened(context, notebook.with_suffix(".html"))
    expect(view).to_have_count(1)
    tab(view, "Operators")
    assert all_names(view) == names
    head(view, "operator").get_by_role("button").click()
    assert column(view, "operator") == sorted(names)[: len(column(view, "operator"))]
    expect(page.get_by_text("Error displaying widget")).to_have_count(0)


def test_running_again_reloading_and_restarting_show_one_result(lab: Lab, server: Server) -> None:
    count = "import ipywidgets\nprint(len(ipywidgets.Widget.widgets))"
    run(lab, server, SETUP, CELL, count)
    lab.run(1)
    lab.wait_done()
    lab.run(2)
    lab.wait_done()
    expect(shown(lab.outputs(1))).to_have_count(1)
    # A widget and its layout: the one that was replaced is closed
    expect(lab.outputs(2)).to_contain_text("2")
    lab.save()
    lab.reload()
    expect(shown(lab.outputs(1))).to_have_count(1)
    with lab.page.expect_download():
        shown(lab.outputs(1)).get_by_role("button", name="Download trace").click()
    # A new kernel knows nothing of the widget
    lab.restart_kernel()
    lab.reload()
    expect(shown(lab.outputs(1))).to_have_count(1)
    expect(lab.outputs(1).locator(".tp-live")).to_have_count(0)
    expect(lab.page.get_by_text("Error displaying widget")).not_to_be_visible()


def test_hostile_names_are_text(lab: Lab, server: Server, context: BrowserContext) -> None:
    one = recorded("hostile_names")
    alerts: list[str] = []
    context.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    run(lab, server, HOSTILE)
    for kernel in (True, False):
        if not kernel:
            lab.save()
            lab.shut_down_kernel()
            lab.open("w.ipynb", kernel=False)
        view = shown(lab.outputs(0))
        expect(view).to_have_count(1)
        expect(lab.outputs(0).locator(".tp-live")).to_have_count(int(kernel))
        assert all_names(view) == [visible(name) for name in operator_names(one.operators)]
        for row in range(3):
            rows(view).nth(row).hover()
        view.get_by_role("tab", name="Kernels").click()
        assert all_names(view) == [visible(name) for name in one.kernels["name"]]
        assert alerts == []
        # AND the view is made of nothing but its own elements
        tags = view.evaluate("e => [...new Set([...e.querySelectorAll('*')].map(x => x.tagName))]")
        assert set(tags) <= {
            "DIV", "H2", "P", "B", "BUTTON", "INPUT", "SMALL", "SPAN", "I", "CODE", "CANVAS",
            "SECTION", "DETAILS", "SUMMARY", "LABEL", "SELECT", "OPTION",
        }  # fmt: skip
    # AND so is the plain table's, and the watch sees what it watches for
    server.copy_notebook("w.ipynb", "mailed.ipynb", trusted=False)
    lab.open("mailed.ipynb", kernel=False)
    plain = lab.outputs(0).locator(".tp-static, .jp-RenderedHTMLCommon").first
    expect(plain.get_by_text("<script>alert(1)</script>", exact=True).first).to_be_visible()
    tags = plain.evaluate("e => [...new Set([...e.querySelectorAll('*')].map(x => x.tagName))]")
    assert set(tags) <= {"DIV", "P", "TABLE", "CAPTION", "THEAD", "TBODY", "TR", "TH", "TD"}
    assert alerts == []
    lab.page.evaluate("() => alert('seen')")
    assert alerts == ["seen"]


def test_a_file_needs_nothing(
    context: BrowserContext, tmp_path: Path, perfetto: Perfetto, screenshot: Callable[..., Path]
) -> None:
    one = recorded("mlp_train")
    page, view = opened(context, Path(one.to_html(tmp_path / "out.html")))
    assert all_names(view) == one.operators["name"].tolist()
    view.get_by_role("tab", name="Kernels").click()
    head(view, "mean").get_by_role("button").click()
    means = numbers(column(view, "mean"))
    assert means == sorted(means, reverse=True)
    # The trace is in it
    with page.expect_download() as started:
        view.get_by_role("button", name="Download trace").click()
    started.value.save_as(tmp_path / "trace.json.gz")
    assert tprofile.load(tmp_path / "trace.json.gz").operators.equals(one.operators)
    expect(view.get_by_role("button", name="Copy path")).to_have_count(0)
    tab = perfetto.opened(view.get_by_role("button", name="Open in Perfetto").click)
    assert tprofile.load(perfetto.received(tab)["buffer"]).kernels.equals(one.kernels)
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        expect(view).to_have_attribute("data-tp-theme", scheme)
        screenshot(f"file-{scheme}", page)


def test_an_executed_notebook_is_small(server: Server, tmp_path: Path) -> None:
    server.make_notebook("small.ipynb", SETUP, CELL)
    bare = server.notebooks / "small.ipynb"
    before = bare.stat().st_size
    done = tmp_path / "done.ipynb"
    subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", str(bare),
         "--output", str(done)],
        check=True, capture_output=True,
    )  # fmt: skip
    # WHEN the state of the widget is saved too, as this does
    assert "widgets" in json.loads(done.read_text())["metadata"]
    assert done.stat().st_size - before <= 300_000


def test_rows_are_chosen_by_keyboard_and_everywhere(
    context: BrowserContext, tmp_path: Path
) -> None:
    one = recorded("mlp_train")
    page, view = opened(context, Path(one.to_html(tmp_path / "out.html")))
    # From the field to the table, down, and chosen
    page.keyboard.press("/")
    expect(view.get_by_role("searchbox")).not_to_be_focused()
    view.get_by_role("grid").focus()
    page.keyboard.press("/")
    expect(view.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("aten::")
    view.get_by_role("grid").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    chosen = view.locator('.tp-row[aria-selected="true"]')
    expect(chosen).to_have_count(1)
    expect(chosen).to_contain_text(one.operators["name"][1])
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    last = [n for n in one.operators["name"] if "aten::" in n][-1]
    expect(chosen).to_contain_text(last)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(chosen).to_have_count(0)
    # Tabs by arrows
    view.get_by_role("tab", name="Operators").focus()
    page.keyboard.press("ArrowRight")
    expect(view.get_by_role("tab", name="Kernels")).to_be_focused()
    expect(view.get_by_role("tab", name="Kernels")).to_have_attribute("aria-selected", "true")


def test_the_strip_names_its_bars_and_chooses_them(
    context: BrowserContext, tmp_path: Path, screenshot: Callable[..., Path]
) -> None:
    one = recorded("two_streams_h2d_item")
    page, view = opened(context, Path(one.to_html(tmp_path / "out.html")))
    canvas = view.locator("canvas")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    tip = view.locator(".tp-tip")
    strip = one.strip
    assert strip is not None
    expect(tip).to_contain_text(str(strip.name[0]))
    page.keyboard.press("Enter")
    chosen = view.locator('.tp-row[aria-selected="true"]')
    expect(chosen).to_contain_text(str(strip.name[0]))
    screenshot("strip-chosen", page)
    # Down to the last stream of the device
    for _ in range(20):
        page.keyboard.press("ArrowDown")
    lane = strip.lanes[-1]
    last = [i for i in range(len(strip)) if strip.row[i] == lane.rows - 1 and strip.kind[i] >= 4]
    names = {str(strip.name[i]) for i in last}
    expect(tip).to_contain_text(f"stream {lane.streams[-1]}")
    assert tip.locator(".tp-mono").inner_text() in names
    page.keyboard.press("Enter")
    view.get_by_role("tab", name="Kernels").click()
    expect(chosen).to_have_count(1)
    assert chosen.get_by_role("gridcell").first.inner_text() in names
    page.keyboard.press("Escape")
    expect(chosen).to_have_count(0)
    # Rows that differ in their stream alone are chosen one by one
    for i in range(len(one.kernels)):
        rows(view).nth(i).click()
        expect(chosen).to_have_count(1)
        expect(rows(view).nth(i)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    # Zoom by key and button
    which = view.locator(".tp-which")
    whole = which.inner_text()
    canvas.focus()
    page.keyboard.press("w")
    expect(which).to_contain_text("of it")
    view.get_by_role("button", name="Fit the whole run").click()
    expect(which).to_have_text(whole)
    # The pointer does the same
    box = canvas.bounding_box()
    assert box is not None
    x = (strip.start_us[0] + strip.duration_us[0] / 2) / strip.wall_us * box["width"]
    canvas.hover(position={"x": x, "y": 20})
    expect(tip).to_contain_text(str(strip.name[0]))


@pytest.mark.parametrize("width", [400, 640, 1000, 1600])
def test_it_fits_any_width_and_nothing_jumps(
    context: BrowserContext, tmp_path: Path, width: int, screenshot: Callable[..., Path]
) -> None:
    path = Path(recorded("mlp_train").to_html(tmp_path / "out.html"))
    page, view = opened(context, path, width)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert view.evaluate("e => e.scrollWidth <= e.clientWidth")
    # THEN no text is cut but names, which say the whole on hover
    cut = view.evaluate(
        """e => [...e.querySelectorAll('*')]
            .filter(x => x.scrollWidth > x.clientWidth + 1 && x.clientWidth
                && !x.matches('.tp-table, .tp-told, .tp-name, .tp-name *'))
            .map(x => x.className)"""
    )
    assert cut == []
    # AND the column that the table is sorted by is in sight
    box = head(view, "self CUDA").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= width
    height = view.evaluate("e => e.clientHeight")
    screenshot(f"wide-{width}", page)
    view.get_by_role("tab", name="Kernels").click()
    assert view.evaluate("e => e.clientHeight") == height
    screenshot(f"wide-{width}-kernels", page)
    view.get_by_role("searchbox").fill("no such name")
    assert view.evaluate("e => e.clientHeight") == height
    page.close()


def test_a_long_table_draws_what_is_in_view(context: BrowserContext, tmp_path: Path) -> None:
    events = [op(f"op_{i}", i * 10, 10 - i % 7, i + 1) for i in range(700)]
    one = profile(*events)
    _, view = opened(context, Path(one.to_html(tmp_path / "out.html")))
    assert view.locator(".tp-foot [role=status]").inner_text().startswith("700 operators")
    assert rows(view).count() < 40
    grid = view.get_by_role("grid")
    grid.focus()
    view.page.keyboard.press("End")
    expect(rows(view).filter(has_text=one.operators["name"].iloc[-1])).to_be_visible()
    assert rows(view).count() < 40


def test_odd_profiles_show_what_they_have(context: BrowserContext, tmp_path: Path) -> None:
    # Nothing at all
    page, view = opened(context, Path(profile().to_html(tmp_path / "empty.html")))
    expect(view.locator(".tp-title")).to_have_text("Nothing was profiled")
    expect(view.locator(".tp-foot [role=status]")).to_have_text("no operators")
    expect(view.locator("canvas")).to_have_count(0)
    page.close()
    # Device work whose launches were not recorded
    bare = profile(work("k", 0, 10), work("k", 30, 10))
    page, view = opened(context, Path(bare.to_html(tmp_path / "bare.html")))
    expect(view.get_by_role("tab", name="Kernels")).to_have_attribute("aria-selected", "true")
    expect(rows(view)).to_have_count(1)
    expect(view.locator(".tp-keys")).to_have_text("kernelsidle")
    page.close()
    # A run that an error ended
    stopped = profile(
        note(RUN, 0, 20, 1), op("aten::mm", 1, 10, 2),
        recorded={"profiled": 0, "stopped": {"by": "ValueError", "during": "profiled run 1 of 3"}},
    )  # fmt: skip
    page, view = opened(context, Path(stopped.to_html(tmp_path / "stopped.html")))
    expect(view.locator(".tp-title")).to_have_text("Stopped by ValueError in profiled run 1 of 3")
    expect(view.locator(".tp-which")).to_have_text("The stopped run, up to there · 20.0 µs")
    told = view.locator(".tp-foot [role=status]")
    expect(told).to_have_text("1 operator, of the run that was stopped")
    page.close()


def test_what_was_drawn_as_one_shows_its_gaps(context: BrowserContext, tmp_path: Path) -> None:
    # GIVEN a device that works a tenth of the time, in more pieces than there are pixels
    events = []
    for i in range(4000):
        events.append(op("aten::mul", i * 100, 90, i + 1))
        events.append(work("k", i * 100 + 20, 10, 0, i + 1))
    one = profile(*events)
    _, view = opened(context, Path(one.to_html(tmp_path / "out.html")))
    expect(view.get_by_text("Bars shorter than")).to_be_visible()
    # THEN about a tenth of the lane's pixels are in the colour of kernels, the rest in that of idle
    green, all_ = view.locator("canvas").evaluate(
        """canvas => new Promise(done => requestAnimationFrame(() => {
            const { width, height } = canvas;
            const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
            let green = 0, idle = 0;
            for (let i = 0; i < data.length; i += 4) {
                if (!data[i + 3]) continue;
                if (data[i + 1] > data[i] + 60) green++;
                else if (data[i] > data[i + 2] + 60) idle++;
            }
            done([green, green + idle]);
        }))"""
    )
    assert 0.06 < green / all_ < 0.15
