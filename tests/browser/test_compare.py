"""Two profiles side by side, as a person meets them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pages import Lab, expect
from server import Server
from test_in_browser import all_names, column, head, opened, rows, run, shown, tab
from test_lines_and_findings import BACKGROUND, CUT, HTML, chosen, contrast, findings
from traces import DATA, op, profile, recorded, work

import tprofile
from tprofile.profiling import label

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page


def pair(a: str = "pointwise_eager", b: str = "pointwise_compiled") -> tprofile.Comparison:
    return tprofile.compare(label(recorded(a), "eager"), label(recorded(b), "compiled"))


def at(
    context: BrowserContext, folder: Path, one: tprofile.Comparison, width: int = 1000
) -> tuple[Page, Locator]:
    page, view = opened(context, Path(one.to_html(folder / "out.html")), width)
    return page, view


def whose(view: Locator, name: str) -> Locator:
    """Find a button of the switch between the comparison and each profile."""
    return view.get_by_role("group", name="What is shown").get_by_role("button", name=name)


def figures(view: Locator) -> list[list[str]]:
    return [
        [" ".join(text.split()) for text in row.locator("> div").all_text_contents()]
        for row in view.get_by_role("table").get_by_role("row").all()
    ]


def pixels(page: Page) -> list[str]:
    """Return the two runs as they are drawn."""
    page.wait_for_timeout(100)
    drawn: list[str] = page.locator("canvas").evaluate_all(
        "all => all.map(canvas => canvas.toDataURL())"
    )
    return drawn


def test_the_answer_the_figures_and_both_runs_come_first(
    context: BrowserContext, tmp_path: Path
) -> None:
    one = pair()
    _, view = at(context, tmp_path, one)
    title = one.findings[0].title
    expect(view.locator(".tp-title")).to_have_text(title[0].upper() + title[1:])
    expect(view.locator(".tp-detail").first).to_contain_text("Each: ")
    rows_ = figures(view)
    assert rows_[0] == ["", "eager", "compiled", "ratio"]
    assert [row[0] for row in rows_[1:]] == [
        "wall of a run", "in a loop", "device busy", "launches", "kernels", "peak memory",
        "first run",
    ]  # fmt: skip
    told = one.summary
    assert rows_[5][1:3] == [f"{told.kernels_a:.0f}", f"{told.kernels_b:.0f}"]
    # THEN what was not measured is a dash with its reason
    assert rows_[2][1:] == ["–", "–", "not timed in a loop"]
    expect(view.locator("canvas")).to_have_count(2)
    assert view.locator(".tp-side b").all_inner_texts() == ["eager", "compiled"]
    assert [text.split()[0] for text in view.get_by_role("tab").all_inner_texts()] == [
        "Findings", "Became", "Operators", "Kernels",
    ]  # fmt: skip
    expect(findings(view)).to_have_count(len(one.findings))


def test_tables_are_sorted_filtered_and_gone_through_by_keys(
    context: BrowserContext, tmp_path: Path
) -> None:
    page, view = at(context, tmp_path, pair())
    tab(view, "Operators")
    table = view.get_by_role("tabpanel")
    expect(head(table, "difference")).to_have_attribute("aria-sort", "descending")
    sizes = [abs(float(text.replace("−", "-").replace("<", "").replace(">", "")))
             for text in column(table, "difference") if text != "–"]  # fmt: skip
    assert sizes == sorted(sizes, reverse=True)
    assert {"new", "gone"} <= set(column(table, "ratio"))
    head(table, "operator").get_by_role("button").click()
    assert all_names(table) == sorted(all_names(table))
    page.keyboard.press("/")
    page.keyboard.type("gone")
    expect(view.locator(".tp-foot [role=status]")).to_contain_text(" of ")
    assert set(column(table, "ratio")) == {"gone"}
    page.keyboard.press("Escape")
    view.get_by_role("grid").focus()
    for key in ("Home", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(chosen(view)).to_have_count(1)
    page.keyboard.press("Escape")
    expect(chosen(view)).to_have_count(0)
    view.get_by_role("tab", name="Operators").focus()
    page.keyboard.press("ArrowRight")
    expect(view.get_by_role("tab", name="Kernels")).to_be_focused()


def test_a_group_says_what_became_of_what_and_marks_both_runs(
    context: BrowserContext, tmp_path: Path, screenshot: Callable[..., Path]
) -> None:
    one = pair()
    page, view = at(context, tmp_path, one)
    plain = pixels(page)
    tab(view, "Became")
    frame = one.replaced
    assert frame is not None
    (at_,) = [i for i, change in enumerate(frame["change"]) if change == "fused"][:1]
    rows(view).filter(has_text="fused").first.click()
    group, fused = view.locator(".tp-group"), frame.iloc[at_]
    expect(group).to_contain_text("Fused")
    names = group.locator(".tp-name")
    expect(names).to_have_count(len(fused["kernels_a"]) + 1)
    # Whole where a pointer rests on it
    expect(names.first).to_have_attribute(
        "title", f"{fused['operators_a'][0]} · {fused['kernels_a'][0]}"
    )
    expect(names.last).to_have_attribute("title", fused["kernel_b"])
    marked = pixels(page)
    assert marked[0] != plain[0]
    screenshot("compare-group", page)
    page.keyboard.press("Escape")
    assert pixels(page) == plain
    # By the keyboard in a run, too
    view.locator("canvas").nth(1).focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    tab(view, "Kernels")
    expect(chosen(view)).to_contain_text("triton")


def test_both_runs_have_one_scale(context: BrowserContext, tmp_path: Path) -> None:
    page, view = at(context, tmp_path, pair())
    plain, which = pixels(page), view.locator(".tp-which")
    expect(which).to_have_text("A run of each, to scale")
    view.locator("canvas").first.focus()
    page.keyboard.press("w")
    expect(which).to_contain_text("of it")
    assert [one == other for one, other in zip(pixels(page), plain, strict=True)] == [False] * 2
    view.get_by_role("button", name="Fit the whole run").click()
    view.locator(".tp-title").click()
    assert pixels(page) == plain


def test_each_profile_is_whole_and_as_it_was_left(context: BrowserContext, tmp_path: Path) -> None:
    one = pair()
    page, view = at(context, tmp_path, one)
    tab(view, "Operators")
    whose(view, "eager").focus()
    page.keyboard.press("Enter")
    expect(whose(view, "eager")).to_be_focused()
    expect(whose(view, "eager")).to_have_attribute("aria-pressed", "true")
    expect(view.locator(".tp-figure:visible")).to_have_count(5)
    tab(view, "Kernels")
    assert rows(view).filter(visible=True).count() == len(one.a.kernels)
    # THEN its trace is its own
    for name, of in (("eager", one.a), ("compiled", one.b)):
        whose(view, name).click()
        with page.expect_download() as download:
            view.get_by_role("button", name="Download trace").click()
        path = tmp_path / f"{name}.json.gz"
        download.value.save_as(path)
        assert tprofile.load(path).operators.equals(of.operators)
    whose(view, "eager").click()
    expect(view.get_by_role("tab", name="Kernels")).to_have_attribute("aria-selected", "true")
    whose(view, "Compare").click()
    expect(view.get_by_role("tab", name="Operators")).to_have_attribute("aria-selected", "true")
    expect(view.locator(".tp-figure:visible")).to_have_count(0)


def hostile() -> tprofile.Comparison:
    """Return two profiles in which a script would stand wherever a text does."""

    def side(kernel: str, name: str) -> tprofile.Profile:
        return profile(
            op(HTML, 0, 10, 1), work(kernel, 20, 5, 0, 1), work(HTML, 30, 5, 0, 1),
            deviceProperties=[{"id": 0, "name": name}],
            recorded={"notes": [HTML], "label": name, "profiled": None, "unprofiled_s": [1e-4]},
        )  # fmt: skip

    return tprofile.compare(side(HTML + "k", HTML + "a"), side("x" * 300, "long label " * 12))


def test_names_and_labels_are_text(context: BrowserContext, tmp_path: Path) -> None:
    alerts: list[str] = []
    context.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    _, view = at(context, tmp_path, hostile())
    for name in ("Findings", "Became", "Operators", "Kernels"):
        tab(view, name)
        expect(view.get_by_text(HTML).first).to_be_visible()
        view.get_by_role("tabpanel").locator(".tp-row, [role=listitem]").first.click()
    for i in (1, 2):
        view.get_by_role("group", name="What is shown").get_by_role("button").nth(i).click()
    tags = view.evaluate("e => [...new Set([...e.querySelectorAll('*')].map(x => x.tagName))]")
    assert set(tags) <= {"DIV", "H2", "P", "B", "BUTTON", "INPUT", "SMALL", "SPAN", "I",
                         "CODE", "CANVAS", "SECTION", "DETAILS", "SUMMARY", "LABEL"}  # fmt: skip
    assert alerts == []


MAY_BE_CUT = CUT.replace(
    ".tp-below *", ".tp-below *, .tp-side, .tp-mark, .tp-whose button, .tp-head button"
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 700, 1000, 1600])
def test_any_width_shows_all_tabs_at_one_height(
    context: BrowserContext, tmp_path: Path, width: int, scheme: Any,
    screenshot: Callable[..., Path],
) -> None:  # fmt: skip
    without = tprofile.compare(profile(op("a", 0, 9)), recorded("two_threads"))
    for name, one in (("pair", pair()), ("hostile", hostile()), ("without", without),
                      ("other", pair("resnet18_train", "mlp_train"))):  # fmt: skip
        page, view = at(context, tmp_path, one, width)
        page.emulate_media(color_scheme=scheme)
        expect(view).to_have_attribute("data-tp-theme", scheme)
        height = view.evaluate("e => e.clientHeight")
        for text in view.get_by_role("tab").all_inner_texts():
            tab(view, text)
            screenshot(f"compare-{name}-{width}-{scheme}-{text.split()[0]}", view)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
            assert view.evaluate(MAY_BE_CUT) == []
            assert view.evaluate("e => e.clientHeight") == height
        tab(view, "Became")
        for row in rows(view).all()[:3]:
            row.click()
            assert view.evaluate("e => e.clientHeight") == height
        for i in (1, 2):
            view.get_by_role("group", name="What is shown").get_by_role("button").nth(i).click()
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
            assert view.evaluate(MAY_BE_CUT) == []
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_letters_can_be_read_in_both_themes(
    context: BrowserContext, tmp_path: Path, scheme: Any
) -> None:
    page, view = at(context, tmp_path, pair())
    page.emulate_media(color_scheme=scheme)
    expect(view).to_have_attribute("data-tp-theme", scheme)
    seen = 0
    looked_at = (
        ".tp-whose [aria-pressed=false], .tp-title, .tp-detail, .tp-both [role] > *, .tp-both b"
    )
    looked_at += (
        ", .tp-side, .tp-row span, .tp-group b, .tp-group span, .tp-foot, [role=listitem] p"
    )
    looked_at += ", [role=listitem] b, .tp-head button"
    for name in ("Findings", "Became", "Operators"):
        tab(view, name)
        if name != "Findings":
            rows(view).first.click()
        for one in view.locator(looked_at).filter(visible=True).all():
            colors = one.evaluate(BACKGROUND)
            assert contrast(*colors) >= 4.5, (one.inner_text(), colors)
            seen += 1
    assert seen > 80


LIVE = f"""import tprofile
from tprofile.profiling import label
one = label(tprofile.load({str(DATA / "pointwise_eager.json.gz")!r}), "eager")
other = label(tprofile.load({str(DATA / "pointwise_compiled.json.gz")!r}), "compiled")
one.compare(other)"""


def test_a_notebook_shows_it_live_and_keeps_it(
    lab: Lab, server: Server, screenshot: Callable[..., Path]
) -> None:
    run(lab, server, LIVE)
    view = shown(lab.outputs(0))
    expect(lab.outputs(0).locator(".tp-live .tp")).to_have_count(1)
    expect(view.locator(".tp-title")).to_contain_text("ompiled")
    # THEN keys there make no cells
    whose(view, "Compare").focus()
    for key in ("a", "b"):
        lab.page.keyboard.press(key)
    expect(lab.page.locator(".jp-Notebook:visible .jp-CodeCell")).to_have_count(1)
    for theme in ("dark", "light"):
        lab.theme(theme)
        expect(view).to_have_attribute("data-tp-theme", theme)
        for name in ("Findings", "Became", "Operators", "Kernels"):
            tab(view, name)
            screenshot(f"compare-lab-{theme}-{name}", view)
    # AND each trace is that of the profile that is looked at
    for name in ("eager", "compiled"):
        whose(view, name).click()
        view.get_by_role("button", name="Copy path").filter(visible=True).click()
        path = view.locator(".tp-path:visible")
        expect(path).to_contain_text(".json.gz")
        assert tprofile.load(path.inner_text()).operators.equals(
            recorded(f"pointwise_{name}").operators
        )
    # AND without a kernel the page takes its place
    lab.save()
    lab.shut_down_kernel()
    lab.open("w.ipynb", kernel=False)
    assert lab.kernels() == []
    view = shown(lab.outputs(0))
    expect(view).to_have_count(1)
    expect(lab.outputs(0).locator(".tp-live")).to_have_count(0)
    for said in ("Error displaying widget", "Loading widget"):
        expect(lab.page.get_by_text(said)).not_to_be_visible()
    tab(view, "Became")
    expect(view.locator(".tp-group")).to_be_visible()
    whose(view, "compiled").click()
    expect(view.locator(".tp-figure:visible")).to_have_count(5)


SETUP = "%load_ext tprofile\nimport torch\nx = torch.randn(64, 64)"


def test_a_cell_against_another_is_one_result(lab: Lab, server: Server) -> None:
    cells = [
        "%%tprofile --label before\ny = x @ x",
        "%%tprofile --vs before --label after\ny = x + x",
    ]
    run(lab, server, SETUP, *cells)
    view = shown(lab.outputs(2))
    expect(view).to_have_count(1)
    assert view.get_by_role("group", name="What is shown").get_by_role(
        "button"
    ).all_inner_texts() == ["Compare", "before", "after"]
    expect(view.locator(".tp-figure")).to_have_count(0)
    tab(view, "Operators")
    assert "aten::mm" in all_names(view)
    # What was not seen on this machine's CPU is a dash, and says why
    busy = figures(view)[3]
    assert busy[1:3] == ["–", "–"]
    assert busy[3]
