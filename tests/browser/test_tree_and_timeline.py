"""Call tree, flame graphs, timeline, groups and menus as a person meets them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pages import Front, expect
from server import Server
from test_in_browser import opened, rows, run, shown, tab
from traces import DATA, recorded

import tprofile

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

NAME = "mlp_train_stack_mem"


def at(context: BrowserContext, folder: Path, one: tprofile.Profile | None = None) -> Any:
    return opened(context, Path((one or recorded(NAME)).to_html(folder / "out.html")), 1100)


def names(view: Locator) -> list[str]:
    return view.locator(".tp-row .tp-name > span:not(.tp-fold)").all_text_contents()


def row(view: Locator, name: str) -> Locator:
    return rows(view).filter(has=view.page.get_by_text(name, exact=True)).first


def pixels(canvas: Locator) -> str:
    canvas.page.wait_for_timeout(150)
    return str(canvas.evaluate("canvas => canvas.toDataURL()"))


def test_a_call_tree_opens_and_folds(context: BrowserContext, tmp_path: Path) -> None:
    page, view = at(context, tmp_path)
    tab(view, "Call tree")
    grid = view.get_by_role("treegrid")
    step = row(view, "ProfilerStep*")
    expect(step).to_have_attribute("aria-expanded", "true")
    expect(step).to_have_attribute("aria-level", "1")
    expect(row(view, "opt")).to_have_attribute("aria-level", "2")
    # WHEN it is folded by the pointer, and unfolded by the keyboard
    before = rows(view).count()
    step.locator(".tp-fold").click()
    expect(step).to_have_attribute("aria-expanded", "false")
    assert "opt" not in names(view)
    grid.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(rows(view)).to_have_count(before)
    page.keyboard.press("ArrowLeft")
    assert "opt" not in names(view)
    # A filter shows what it finds with all around it
    view.get_by_role("searchbox").fill("addmm")
    expect(row(view, "aten::addmm")).to_be_visible()
    expect(row(view, "aten::linear")).to_be_visible()
    expect(view.locator(".tp-foot [role=status]")).to_contain_text(" of 91 nodes")


def test_a_node_is_selected_in_all_views(context: BrowserContext, tmp_path: Path) -> None:
    _, view = at(context, tmp_path)
    tab(view, "Call tree")
    view.get_by_role("searchbox").fill("addmm")
    row(view, "aten::addmm").click()
    view.get_by_role("searchbox").fill("")
    tab(view, "Operators")
    expect(view.locator('.tp-row[aria-selected="true"]')).to_contain_text("aten::addmm")


def test_a_flame_graph_goes_into_what_is_clicked(context: BrowserContext, tmp_path: Path) -> None:
    page, view = at(context, tmp_path)
    tab(view, "Call tree")
    view.get_by_label("Shown as").select_option("device_us")
    canvas = view.get_by_role("tabpanel").locator("canvas")
    whole = pixels(canvas)
    canvas.focus()
    page.keyboard.press("ArrowRight")
    expect(view.locator(".tp-tip")).to_contain_text("ProfilerStep")
    page.keyboard.press("ArrowDown")
    expect(view.locator(".tp-tip")).to_contain_text("opt")
    page.keyboard.press("Enter")
    inside = pixels(canvas)
    assert inside != whole
    # Once more, and it is all there again; a name that is looked for is marked
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.mouse.move(0, 0)
    canvas.blur()
    assert pixels(canvas) == whole
    view.get_by_role("searchbox").fill("addmm")
    assert pixels(canvas) not in (whole, inside)


def test_a_timeline_says_what_led_to_a_bar(context: BrowserContext, tmp_path: Path) -> None:
    page, view = at(context, tmp_path)
    tab(view, "Timeline")
    chain = view.locator(".tp-chain")
    expect(chain).to_contain_text("Click a bar")
    canvas = view.locator(".tp-timeline canvas")
    plain = pixels(canvas)
    canvas.focus()
    # To the first kernel of the device, which is below all threads
    page.keyboard.press("ArrowRight")
    for _ in range(40):
        page.keyboard.press("ArrowDown")
    expect(view.locator(".tp-tip")).to_contain_text("kernel")
    page.keyboard.press("Enter")
    titles = chain.locator(".tp-mono").evaluate_all("all => all.map(e => e.title)")
    # THEN these are the steps that the profile itself tells of one of the kernels of that name
    one = recorded(NAME)
    run = int(view.locator(".tp-timeline .tp-which").inner_text().split()[1])
    events = one.events
    same = events.index[(events["run"] == run) & (events["name"] == titles[-1])]
    calls = ["forward", "annotation", "operator", "launch", "kernel"]
    told = [one.chain(int(event)) for event in same]
    assert titles in [frame["name"][frame["level"].isin(calls)].tolist() for frame in told]
    expect(chain).to_contain_text("later")
    assert pixels(canvas) != plain
    page.keyboard.press("Escape")
    expect(chain).to_contain_text("Click a bar")


@pytest.fixture
def live(either: Front, server: Server) -> tuple[Page, Locator]:
    """A profile of a file, shown by a notebook whose kernel lives."""
    run(either, server, f"import tprofile\ntprofile.load({str(DATA / NAME)!r} + '.json.gz')")
    view = shown(either.outputs(0))
    expect(view).to_have_count(1)
    return either.page, view


def test_a_live_profile_has_groups_and_single_runs(live: tuple[Page, Locator]) -> None:
    _, view = live
    one = recorded(NAME)
    tab(view, "Operators")
    group = view.get_by_label("Rows", exact=True)
    group.select_option("shape")
    frame = one.operators_by("shape")
    status = view.locator(".tp-foot [role=status]")
    expect(status).to_have_text(f"{len(frame)} operators, per run")
    expect(view.get_by_role("columnheader", name="shape")).to_be_visible()
    group.select_option("")
    expect(status).to_have_text(f"{len(one.operators)} operators, per run")
    # A tree of one run
    tab(view, "Call tree")
    view.get_by_label("Rows", exact=True).select_option("1")
    expect(status).to_contain_text(f"{len(one.tree_of(1))} nodes")
    # A run with all that it has
    tab(view, "Timeline")
    which = view.locator(".tp-timeline .tp-which")
    view.get_by_label("Run", exact=True).select_option("3")
    expect(which).to_contain_text("Run 3 of 3")
    expect(view.locator(".tp-chain")).to_contain_text("Click a bar")


def test_a_table_says_which_columns_it_has_and_is_copied(
    context: BrowserContext, tmp_path: Path
) -> None:
    page, view = at(context, tmp_path)
    page.evaluate(
        "() => { navigator.clipboard.writeText = async text => { window.copied = text; }; }"
    )
    tab(view, "Operators")
    calls = view.get_by_role("columnheader", name="calls")
    expect(calls).to_have_count(1)
    menu = view.locator(".tp-menu")
    menu.locator("summary").focus()
    page.keyboard.press("Enter")
    menu.get_by_label("calls").uncheck()
    expect(calls).to_have_count(0)
    menu.get_by_role("button", name="CSV").click()
    expect(menu.get_by_role("status")).to_have_text("Copied.")
    lines = page.evaluate("() => window.copied").split("\r\n")
    assert lines[0].startswith("name,self_cpu_us,")
    assert len(lines) - 2 == len(recorded(NAME).operators)
    page.keyboard.press("Escape")
    expect(menu.get_by_role("button", name="CSV")).to_be_hidden()
    view.get_by_role("button", name="Copy summary").click()
    expect(view.get_by_role("button", name="Copied")).to_be_visible()
    summary = page.evaluate("() => window.copied")
    assert summary.startswith("**Overhead-bound: the GPU works ")
    assert summary.count("\n| ") == 12
    assert f"tprofile {tprofile.__version__}" in summary


def test_terms_are_explained_to_pointer_and_keyboard(
    context: BrowserContext, tmp_path: Path
) -> None:
    _, view = at(context, tmp_path)
    busy = view.locator(".tp-figure").nth(1)
    content = "e => getComputedStyle(e, '::after').content"
    assert busy.evaluate(content) == "none"
    busy.hover()
    said = busy.evaluate(content)
    assert said == (
        '"Time of a run in which at least one kernel, copy or set was running on the device. '
        'Overlapping work counts once."'
    )
    view.locator(".tp-figure").nth(0).hover()
    busy.focus()
    view.page.keyboard.press("Shift")
    assert busy.evaluate(content) == said
