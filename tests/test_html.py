"""The HTML table: what is a name stays text."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from cells import SOURCE, SYNC, cell, given
from traces import RECORDED, note, op, profile, recorded, work

import tprofile
from tprofile.views.html import html

TAGS = {"div", "style", "p", "table", "caption", "thead", "tbody", "tr", "th", "td"}
CLASSES = {"tp-plain", "tp-what", "tp-note", "tp-name"}

HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onmouseover='x",
    "</td></table>", "&lt;b&gt;", "<!-- x", "]]>", "</style>", "javascript:alert(1)", "\0<b>\n",
]  # fmt: skip


class Page(HTMLParser):
    """What a browser makes of the text: elements, their attributes, and cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.open: list[str] = []
        self.cells: list[str] = []
        self.titles: list[str] = []
        self.notes: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert len(given) == len(attrs)
        assert tag in TAGS
        assert set(given) <= {"class", "title", "style"}
        assert given.get("style", "text-align:left") == "text-align:left"
        assert given.get("class", "tp-name") in CLASSES
        self.open.append(tag)
        self.found.append((tag, tuple(given)))
        if "title" in given:
            self.titles.append(given["title"] or "")
        if tag in ("td", "th"):
            self.cells.append("")
        if given.get("class") == "tp-note":
            self.notes.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] in ("td", "th"):
            self.cells[-1] += data
        if self.notes and self.open[-1] == "p":
            self.notes[-1] += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a name made a comment")


def page(name: str) -> str:
    one = profile(
        op(name, 0, 10, 1), work(name, 20, 5, 0, 1),
        deviceProperties=[{"id": 0, "name": name}], recorded={"notes": [name]},
    )  # fmt: skip
    return html(one)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_element_or_attribute_comes_from_a_name(name: str) -> None:
    found = Page(page(name))
    # THEN the page has the same elements as with a harmless name
    assert found.found == Page(page("harmless")).found
    # AND the name, with its controls as escapes, in each place that shows it, whole
    shown = name.replace("\0", "\\x00").replace("\n", "\\n")
    assert found.cells.count(shown) == 3
    assert found.titles.count(shown) == 3
    assert found.notes == [shown]


@pytest.mark.parametrize("name", HOSTILE)
def test_code_and_findings_are_text(name: str) -> None:
    def told(text: str) -> Page:
        finding = tprofile.Finding("sync", text, text, text, 1.0, text, 6, text)
        flat = text.replace("\n", " ")
        return Page(html(given(cell(source=SOURCE.replace("total = 0.0", flat)), finding)))

    found = told(name)
    assert found.found == told("harmless").found
    # THEN it is in the row of its line, as code
    assert name.replace("\0", "\\x00").strip() in found.cells


def test_findings_come_before_the_tables() -> None:
    text = html(given(cell(), SYNC))
    assert text.index(SYNC.evidence) < text.index("→ Keep the sum") < text.index("Lines, per run")
    assert text.index("Lines, per run") < text.index("Operators, per run")
    assert "<p>More: tprofile.explain(&quot;sync&quot;)</p>" in text


def test_a_long_warning_is_cut_in_its_middle() -> None:
    found = Page(html(profile(op("a", 0, 1), recorded={"notes": ["<" * 1_000_000]})))
    assert found.notes == ["<" * 490 + " … 999,020 characters left out … " + "<" * 490]


def test_what_start_up_was_is_told() -> None:
    marks = [note("tprofile::run", 1000 * i, 900 if i == 0 else 464) for i in range(3)]
    text = html(profile(*marks, op("a", 5, 2), recorded={"profiled": 3, "asked_warmup": 0}))
    assert "<p>first run 900 µs, later ones 464 µs: no start-up to speak of</p>" in text
    assert "<p>the tables contain the first run</p>" in text
    assert "first run" not in page("harmless")


def test_a_script_appears_only_escaped() -> None:
    text = page("<script>alert(1)</script>")
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 3 + 3 + 1 + 1


def test_cells_are_those_of_the_text() -> None:
    one = recorded("matmul_add_64")
    found = Page(html(one))
    assert found.cells[:8] == [
        "operator", "calls", "self CPU µs", "%", "CPU total µs", "self CUDA µs", "%",
        "CUDA total µs",
    ]  # fmt: skip
    assert found.cells[8:16] == [
        "aten::mm", "1", "37.77", "29.6", "48.65", "3.04", "77.4", "3.04",
    ]  # fmt: skip
    # AND kernel names are whole where one asks for them
    assert set(one.kernels["name"]) <= set(found.titles)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_traces_are_well_formed(name: str) -> None:
    one = recorded(name)
    found = Page(html(one))
    tables = [one.operators, one.kernels, *([one.lines] if len(one.lines) > 1 else [])]
    assert [tag for tag, _ in found.found].count("table") == len(tables)
    rows = sum(1 + min(len(frame), 15) for frame in tables)
    assert [tag for tag, _ in found.found].count("tr") == rows


def test_an_empty_trace_has_no_table() -> None:
    assert [tag for tag, _ in Page(html(profile())).found] == ["div", "style", "p", "p"]
