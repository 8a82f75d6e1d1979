"""Lines, findings and modules as a person meets them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from cells import ROUGH, SMALL, SOURCE, SYNC, cell, given
from pages import Lab, expect
from server import Server
from test_in_browser import all_names, column, head, opened, rows, run, shown, tab
from traces import op, profile, recorded

import tprofile
from tprofile.trace.marks import line

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

HTML = '</script><img src=x onerror="alert(1)"><b>'
BACKGROUND = """e => {
    const ink = getComputedStyle(e).color;
    for (let at = e; at; at = at.parentElement) {
        const style = getComputedStyle(at);
        const tint = /linear-gradient\\((color\\(srgb [^)]*\\)|rgba?\\([^)]*\\))/
            .exec(style.backgroundImage);
        if (tint) return [ink, tint[1], getComputedStyle(at.closest('.tp')).backgroundColor];
        if (!/rgba\\(.*, 0\\)|transparent/.test(style.backgroundColor)) {
            return [ink, style.backgroundColor, style.backgroundColor];
        }
    }
    return [ink, 'rgb(255, 255, 255)', 'rgb(255, 255, 255)'];
}"""
"""The colour of an element's letters, what tints the ground behind them, and that ground."""


def sync_bound(*findings: tprofile.Finding, **how: Any) -> tprofile.Profile:
    reason = "the GPU is idle 58 % of a run"
    return given(cell(**how), *(findings or (SYNC, SMALL, ROUGH)), verdict="sync-bound",
                 reason=reason)  # fmt: skip


def at(context: BrowserContext, folder: Path, one: tprofile.Profile, width: int = 1000) -> Any:
    return opened(context, Path(one.to_html(folder / "out.html")), width)


def chosen(view: Locator) -> Locator:
    return view.locator('.tp-row[aria-selected="true"]')


def findings(view: Locator) -> Locator:
    return view.get_by_role("listitem")


def test_the_answer_and_the_lines_come_first(context: BrowserContext, tmp_path: Path) -> None:
    _, view = at(context, tmp_path, sync_bound())
    expect(view.locator(".tp-title")).to_have_text(
        "Sync-bound the GPU works 21.0\u00a0µs of a 50.0\u00a0µs run"
    )
    why = view.locator(".tp-why")
    expect(why.nth(0)).to_have_text("The GPU is idle 58\u00a0% of a run")
    expect(why.nth(1)).to_have_text(
        "Most to gain: 3 waits for the GPU (line 6 · aten::item → cudaStreamSynchronize), "
        "up to 24.0\u00a0µs of each run"
    )
    expect(view.get_by_role("tab", name="Lines")).to_have_attribute("aria-selected", "true")
    assert view.get_by_role("tab").all_inner_texts() == [
        "Lines", "Operators 5", "Kernels 2", "Call tree", "Timeline", "Findings 3",
    ]  # fmt: skip
    # THEN every line is there, with its indentation, and a dash where nothing was measured
    code = rows(view).locator(".tp-name > span:not(.tp-place)").all_text_contents()
    assert code == SOURCE.replace("\t", "    ").split("\n")
    assert column(view, "CUDA") == ["0", "–", "0", "15.00", "6.00", "0", "–"]
    assert column(view, "launches") == ["0", "–", "0", "3", "0", "0", "–"]
    expect(view.locator(".tp-badge")).to_have_text("3 waits")
    expect(view.locator(".tp-below")).to_contain_text("Keep the sum on the GPU")
    expect(view.locator(".tp-foot [role=status]")).to_have_text("7 lines, per run")


def pixels(page: Page) -> str:
    """Return the strip as it is drawn."""
    page.wait_for_timeout(100)
    return str(page.locator("canvas").evaluate("canvas => canvas.toDataURL()"))


def test_a_line_is_chosen_with_what_was_found_on_it(
    context: BrowserContext, tmp_path: Path
) -> None:
    page, view = at(context, tmp_path, sync_bound())
    below, plain = view.locator(".tp-below"), pixels(page)
    rows(view).filter(has_text="y = x @ w").click()
    expect(chosen(view)).to_have_count(1)
    # A line on which nothing was found: itself, whole
    expect(below).to_have_text("Line 5y = x @ w")
    assert (marked := pixels(page)) != plain
    rows(view).filter(has_text="item()").click()
    expect(below).to_contain_text("3 waits for the GPU")
    expect(below).to_contain_text("up to 24.0")
    assert pixels(page) not in (plain, marked)
    # One that no bar is of leaves the strip as it is
    rows(view).filter(has_text="never").click()
    assert pixels(page) == plain
    page.keyboard.press("Escape")
    expect(chosen(view)).to_have_count(0)
    expect(below).to_contain_text("3 waits for the GPU")
    # To its evidence, and back to its line
    below.get_by_role("button", name="Evidence").click()
    expect(view.get_by_role("tab", name="Findings")).to_have_attribute("aria-selected", "true")
    expect(findings(view).nth(0)).to_have_attribute("aria-current", "true")
    findings(view).nth(0).get_by_role("button", name="line 6").click()
    expect(view.get_by_role("tab", name="Lines")).to_have_attribute("aria-selected", "true")
    expect(chosen(view)).to_contain_text("total += y.sum().item()")


def test_lines_go_by_the_keyboard(context: BrowserContext, tmp_path: Path) -> None:
    page, view = at(context, tmp_path, sync_bound())
    view.get_by_role("grid").focus()
    for key in ("ArrowDown",) * 4 + ("Enter",):
        page.keyboard.press(key)
    expect(chosen(view)).to_contain_text("y = x @ w")
    page.keyboard.press("End")
    page.keyboard.press(" ")
    expect(chosen(view)).to_contain_text("never")
    page.keyboard.press("Escape")
    expect(chosen(view)).to_have_count(0)
    # The order of the code, by time, and back; what has no figure comes last
    head(view, "CPU").get_by_role("button").click()
    assert column(view, "CPU")[:2] == ["48.00", "30.00"]
    assert column(view, "CPU")[-2:] == ["–", "–"]
    head(view, "cell").get_by_role("button").click()
    assert [text[0] for text in column(view, "cell")] == list("2345678")
    page.keyboard.press("/")
    page.keyboard.type("wait")
    expect(rows(view)).to_have_count(1)
    expect(view.locator(".tp-foot [role=status]")).to_have_text("1 of 7 lines, per run")


def test_findings_go_by_the_keyboard(context: BrowserContext, tmp_path: Path) -> None:
    page, view = at(context, tmp_path, sync_bound())
    # From the sentence at the top
    view.locator(".tp-why").get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(findings(view)).to_have_count(3)
    expect(findings(view).nth(0)).to_have_attribute("aria-current", "true")
    view.get_by_role("tab", name="Findings").focus()
    page.keyboard.press("ArrowRight")
    expect(view.get_by_role("tab", name="Lines")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(view.get_by_role("tab", name="Findings")).to_be_focused()
    # Only one of them is a stop of the Tab key; arrows go to the others
    findings(view).nth(0).focus()
    page.keyboard.press("End")
    expect(findings(view).nth(2)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(findings(view).nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(findings(view).nth(1)).to_have_attribute("aria-current", "true")
    assert findings(view).evaluate_all("all => all.map(one => one.tabIndex)") == [-1, 0, -1]
    page.keyboard.press("Escape")
    expect(view.locator('[aria-current="true"]')).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("one call")
    expect(findings(view)).to_have_count(1)
    expect(view.locator(".tp-foot [role=status]")).to_have_text("1 of 3 findings")
    page.keyboard.press("Escape")
    # Figures of runs say nothing here
    expect(view.get_by_role("button", name="per run")).not_to_be_visible()


def test_a_finding_has_four_parts_and_is_copied(context: BrowserContext, tmp_path: Path) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page, view = at(context, tmp_path, sync_bound())
    tab(view, "Findings")
    first = findings(view).nth(0)
    for text in (SYNC.title, SYNC.where, "up to 24.0\u00a0µs of each run",
                 "24.0\u00a0µs in all", 'tprofile.explain("sync") tells more'):  # fmt: skip
        expect(first).to_contain_text(text)
    expect(first.locator("code").first).to_have_text("total = total + y.sum()")
    # One without a bound says none
    expect(findings(view).nth(2).locator(".tp-gain")).to_have_text("Copy")
    button = first.get_by_role("button", name="Copy")
    before = button.bounding_box()
    button.click()
    expect(first.get_by_role("button", name="Copied")).to_be_visible()
    assert first.get_by_role("button", name="Copied").bounding_box() == before
    assert page.evaluate("() => navigator.clipboard.readText()") == (
        "**3 waits for the GPU** · line 6 · aten::item → cudaStreamSynchronize · "
        f"up to 24.0 µs of each run\n\n{SYNC.evidence}\n\n{SYNC.advice}\n"
    )
    # AND to copy is not to choose
    expect(view.locator('[aria-current="true"]')).to_have_count(0)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (given(cell(), verdict="compute-bound"), "Nothing found that holds this code back"),
        (profile(op("a", 0, 9)), "Findings are about the work of a GPU, and that is not in the "
         "record: no device work was recorded"),
    ],
)  # fmt: skip
def test_where_nothing_was_found_it_is_silent(
    context: BrowserContext, tmp_path: Path, one: tprofile.Profile, said: str
) -> None:
    _, view = at(context, tmp_path, given(one))
    expect(view.locator(".tp-badge, .tp-below, .tp-link")).to_have_count(0)
    tab(view, "Findings 0")
    expect(view.locator(".tp-empty")).to_have_text(said)
    expect(view.locator(".tp-foot [role=status]")).to_have_text("no findings")


def hostile() -> tprofile.Profile:
    """Return a profile in which a script would stand wherever a text does."""
    long = "    " + HTML + "x" * 300
    finding = tprofile.Finding("sync", HTML, f"`{HTML}`", HTML, 1.0, HTML, 6, HTML)
    one = cell(source=SOURCE.replace("    y = x @ w", long), lines={3: line(1, "f", HTML)})
    frame = pd.DataFrame({
        "module": [HTML], "type": [HTML], "calls": [2], "cpu_us": [1.0], "self_cpu_us": [1.0],
        "device_us": [1.0], "self_device_us": [1.0], "backward_device_us": [1.0],
        "launches": [1.0], "compiled": [False],
    })  # fmt: skip
    one._frames["modules"] = frame
    return given(one, finding, finding, reason=HTML)


def test_code_and_findings_are_text(context: BrowserContext, tmp_path: Path) -> None:
    alerts: list[str] = []
    context.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    _, view = at(context, tmp_path, hostile())
    for name in ("Lines", "Modules", "Findings"):
        tab(view, name)
        expect(view.get_by_text(HTML).first).to_be_visible()
        view.get_by_role("tabpanel").locator(".tp-row, [role=listitem]").first.click()
        tags = view.evaluate("e => [...new Set([...e.querySelectorAll('*')].map(x => x.tagName))]")
        assert set(tags) <= {
            "DIV", "H2", "P", "B", "BUTTON", "INPUT", "SMALL", "SPAN", "I", "CODE", "CANVAS",
            "SECTION", "DETAILS", "SUMMARY", "LABEL",
        }  # fmt: skip
    assert alerts == []


def long_cell() -> tprofile.Profile:
    """Return a cell of 200 lines with 12 findings, long and short ones, the first on line 150."""
    code = [f"    x{i} = " + " + ".join(["layer(x)"] * (i % 20 + 1)) for i in range(2, 202)]
    marks = [op(line(i), 100 * i, 50 + i) for i in range(2, 202, 3)]
    one = profile(*marks, recorded={"profiled": None, "source": "\n".join(code), "first_line": 2})
    long = {"evidence": "Evidence goes on. " * 30, "advice": "Write `less`. " * 30,
            "title": "a title of many words that goes on and on", "where": "w" * 200}  # fmt: skip
    made = [dataclasses.replace(SYNC, line=150 - i, **(long if i % 2 else {})) for i in range(12)]
    return given(one, *made, verdict="sync-bound", reason="the GPU is idle " * 12)


CUT = """e => [...e.querySelectorAll('*')]
    .filter(x => x.scrollWidth > x.clientWidth + 1 && x.clientWidth
        && !x.matches('.tp-table, .tp-told, .tp-name, .tp-name *, .tp-below *'))
    .map(x => x.className)"""


@pytest.mark.parametrize("width", [400, 640, 1000, 1600])
def test_any_width_shows_all_tabs_at_one_height(
    context: BrowserContext, tmp_path: Path, width: int, screenshot: Callable[..., Path]
) -> None:
    for name, one in (("short", hostile()), ("long", long_cell())):
        page, view = at(context, tmp_path, one, width)
        height = view.evaluate("e => e.clientHeight")
        for label in view.get_by_role("tab").all_inner_texts():
            tab(view, label)
            screenshot(f"{name}-{width}-{label.split()[0]}", page)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
            assert view.evaluate(CUT) == []
            assert view.evaluate("e => e.clientHeight") == height
        # AND choosing changes none of it
        tab(view, "Lines")
        for i in range(3):
            rows(view).nth(i).click()
            assert view.evaluate("e => e.clientHeight") == height
        page.close()


def test_a_long_cell_opens_at_what_was_found(context: BrowserContext, tmp_path: Path) -> None:
    page, view = at(context, tmp_path, long_cell())
    first = rows(view).filter(has=page.locator(".tp-place", has_text="150"))
    expect(first).to_be_in_viewport()
    box, inside = first.bounding_box(), view.get_by_role("grid").bounding_box()
    assert box is not None
    assert inside is not None
    assert inside["y"] + 30 <= box["y"] <= inside["y"] + inside["height"] - 26
    assert rows(view).count() < 40
    # Both ends of long code are there, and the whole on hover
    text = first.locator(".tp-name").get_attribute("title")
    assert text == "    x150 = " + " + ".join(["layer(x)"] * 11)
    # The last of the findings is reached by scrolling
    tab(view, "Findings 12")
    findings(view).nth(0).focus()
    page.keyboard.press("End")
    expect(findings(view).nth(11)).to_be_in_viewport()


def test_where_there_is_little_room_a_dot_stands_for_the_label(
    context: BrowserContext, tmp_path: Path
) -> None:
    page, view = at(context, tmp_path, sync_bound(), 400)
    badge = view.locator(".tp-badge")
    expect(badge).to_have_text("●")
    expect(badge).to_have_attribute("title", "3 waits")
    expect(view.locator(".tp-below")).to_contain_text("3 waits for the GPU")
    page.set_viewport_size({"width": 1000, "height": 900})
    expect(badge).to_have_text("3 waits")


def contrast(ink: str, tint: str, ground: str) -> float:
    """Return the contrast of letters on a tinted ground, of colours as a browser writes them."""

    def parts(color: str) -> list[float]:
        inside = color[color.index("(") + 1 :].replace("srgb", "").replace("/", " ")
        found = [float(n) for n in inside.rstrip(")").replace(",", " ").split()]
        scale = 1 if "srgb" in color else 255
        return [*(n / scale for n in found[:3]), found[3] if len(found) > 3 else 1.0]

    def luminance(rgb: list[float]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    *over, share = parts(tint)
    under = parts(ground)[:3]
    mixed = [share * a + (1 - share) * b for a, b in zip(over, under, strict=True)]
    low, high = sorted([luminance(parts(ink)[:3]), luminance(mixed)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_letters_can_be_read_in_both_themes(
    context: BrowserContext, tmp_path: Path, scheme: Any
) -> None:
    kinds = ("sync", "pageable-copy", "fusion", "graph-breaks")
    made = [dataclasses.replace(SYNC, kind=kind, line=i + 4) for i, kind in enumerate(kinds)]
    page, view = at(context, tmp_path, sync_bound(*made))
    page.emulate_media(color_scheme=scheme)
    expect(view).to_have_attribute("data-tp-theme", scheme)
    seen = 0
    for name in ("Lines", "Findings"):
        tab(view, name)
        looked_at = ".tp-title b, .tp-why, .tp-detail, .tp-link, .tp-badge, .tp-place, .tp-row"
        looked_at += " span, .tp-below b, .tp-below p, .tp-where, .tp-gain, [role=listitem] p,"
        looked_at += " [role=listitem] b, [role=listitem] code"
        for one in view.locator(looked_at).all():
            colors = one.evaluate(BACKGROUND)
            assert contrast(*colors) >= 4.5, (one.inner_text(), colors)
            seen += 1
    assert seen > 60


def test_modules_have_their_tab(context: BrowserContext, tmp_path: Path) -> None:
    one = recorded("mlp_train")
    one._frames["modules"] = pd.DataFrame({
        "module": ["Net", "0", "1"], "type": ["Net", "Linear", "GELU"], "calls": [3, 3, 3],
        "cpu_us": [90.0, 60.0, 15.0], "self_cpu_us": [15.0, 60.0, 15.0],
        "device_us": [30.0, 24.0, 6.0], "self_device_us": [0.0, 24.0, 6.0],
        "backward_device_us": [6.0, 3.0, 3.0], "launches": [9.0, 6.0, 3.0],
        "compiled": [False] * 3,
    })  # fmt: skip
    page, view = at(context, tmp_path, one)
    tab(view, "Modules 3")
    assert all_names(view) == ["Net", "0", "1"]
    assert column(view, "CUDA total") == ["10.00", "8.00", "2.00"]
    head(view, "CPU").get_by_role("button").click()
    head(view, "CPU").get_by_role("button").click()
    assert column(view, "CPU") == ["5.00", "20.00", "30.00"]
    rows(view).nth(1).click()
    expect(chosen(view)).to_contain_text("Linear")
    page.keyboard.press("Escape")
    expect(chosen(view)).to_have_count(0)


SETUP = "%load_ext tprofile\nimport torch\nx = torch.randn(64, 64)"
LOOP = """%%tprofile

total = 0.0
for step in range(20):
    y = x @ x  # "quoted" <b>
    total += y.sum().item()
if total is None:
    print('never')"""


def test_a_cell_shows_its_lines(lab: Lab, server: Server, screenshot: Callable[..., Path]) -> None:
    run(lab, server, SETUP, LOOP)
    view = shown(lab.outputs(1))
    expect(view.get_by_role("tab", name="Lines")).to_have_attribute("aria-selected", "true")
    # THEN line numbers are those of the cell in the notebook
    written = LOOP.split("\n")
    code = rows(view).locator(".tp-name > span:not(.tp-place)").all_text_contents()
    assert code == written[2:]
    assert [text[0] for text in column(view, "cell")] == list("345678")
    assert column(view, "calls") == ["1", "1", "20", "20", "1", "–"]
    # AND keys there make no cells
    view.get_by_role("grid").focus()
    for key in ("a", "b", "ArrowDown", "ArrowDown", "Enter"):
        lab.page.keyboard.press(key)
    expect(chosen(view)).to_contain_text("for step in")
    expect(lab.page.locator(".jp-Notebook:visible .jp-CodeCell")).to_have_count(2)
    tab(view, "Findings")
    for key in ("a", "b"):
        view.get_by_role("tab", name="Findings").press(key)
    expect(lab.page.locator(".jp-Notebook:visible .jp-CodeCell")).to_have_count(2)
    tab(view, "Lines")
    for theme in ("dark", "light"):
        lab.theme(theme)
        expect(view).to_have_attribute("data-tp-theme", theme)
        screenshot(f"lines-lab-{theme}", view)
