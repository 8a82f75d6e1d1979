"""The page: a table, the bundle and its data in one piece of HTML."""

from __future__ import annotations

import base64
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from cells import given
from test_html import HOSTILE
from traces import RECORDED, op, profile, recorded, work

import tprofile
from tprofile.trace.marks import line
from tprofile.views import page as module
from tprofile.views.html import html
from tprofile.views.pack import size
from tprofile.views.page import STATIC, document, page, trace_name
from tprofile.views.payload import MOST_BYTES, payload


class Elements(HTMLParser):
    """Elements and the text of the scripts: what a browser would run, and on what."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: dict[str, str] = {}
        self.title = ""
        self._in = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._in = str(dict(attrs).get("type")) if tag == "script" else tag

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if "/" in self._in or self._in == "module":
            self.scripts[self._in] = self.scripts.get(self._in, "") + data
        elif self._in == "title":
            self.title += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a name made a comment")

    @property
    def held(self) -> dict[str, object]:
        return json.loads(self.scripts["application/json"])


def shown(one: tprofile.Profile) -> Elements:
    return Elements(page(one, payload(one), None, 15))


def hostile(name: str) -> tprofile.Profile:
    """Return a profile in which each text that is not ours is this."""
    one = profile(
        op(line(1), 0, 12), op(line(2), 15, 2), op(name, 0, 10, 1), work(name, 20, 5, 0, 1),
        deviceProperties=[{"id": 0, "name": name}],
        recorded={"notes": [name], "source": name.replace("\n", " ") + "\nb()"},
    )  # fmt: skip
    return given(one, tprofile.Finding("sync", name, name, name, 1.0, name, 1, name), reason=name)


def test_a_page_holds_its_data_its_bundle_and_the_plain_table() -> None:
    one = recorded("matmul_add_64")
    data = payload(one)
    text = page(one, data, None, 15)
    found = Elements(text)
    assert found.held == {"payload": data, "trace": None}
    assert found.scripts["module"] == (STATIC / "widget.js").read_text(encoding="utf-8")
    assert html(one) in text
    assert ("data-tp-id", data["id"]) in found.attributes
    # AND nothing that a browser would fetch
    assert not {"link", "img", "iframe", "base"} & set(found.tags)
    assert not {"src", "href"} & {name for name, _ in found.attributes}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_element_or_attribute_comes_from_a_name(name: str) -> None:
    harmless = shown(hostile("harmless"))
    found = shown(hostile(name))
    assert found.tags == harmless.tags
    assert [n for n, _ in found.attributes] == [n for n, _ in harmless.attributes]
    # AND the data has the name, with its controls as escapes
    data = found.held["payload"]
    assert isinstance(data, dict)
    assert name.replace("\0", "\\x00").replace("\n", "\\n") in data["names"]
    whole = Elements(document(hostile(name)))
    assert whole.tags == Elements(document(hostile("harmless"))).tags


def test_a_script_that_is_a_name_appears_only_escaped() -> None:
    text = document(hostile("</script><script>alert(1)</script><!--"))
    assert text.count("<script") == text.count("</script") == 2
    assert "<!--" not in text


@pytest.mark.parametrize("name", RECORDED)
def test_a_notebook_grows_by_less_than_its_allowance(name: str) -> None:
    one = recorded(name)
    data = payload(one)
    output = json.dumps([one.text(), page(one, data, None, 15)], ensure_ascii=False)
    # THEN that is so with the largest payload, too
    room = MOST_BYTES - size(data)
    assert len(output.encode()) + room <= 300_000


def test_a_document_holds_the_trace(tmp_path: Path) -> None:
    one = recorded("mlp_train")
    path = tmp_path / "out.html"
    assert one.to_html(path) == str(path)
    found = Elements(path.read_text(encoding="utf-8"))
    assert found.title == "tprofile: Overhead-bound: the GPU works 0.43 ms of a 2.35 ms run"
    trace = found.held["trace"]
    assert isinstance(trace, dict)
    data = found.held["payload"]
    assert isinstance(data, dict)
    assert trace["file"] == trace_name(data) == f"tprofile-{data['id'][:8]}.json.gz"
    again = tprofile.load(base64.b64decode(trace["base64"]))
    assert again.operators.equals(one.operators)


def test_a_large_trace_stays_out_of_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TRACE_BYTES", 100)
    assert Elements(document(recorded("mlp_train"))).held["trace"] is None


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    one = recorded("matmul_add_64")
    path = tmp_path / "out.html"
    path.write_text("mine")
    with pytest.raises(tprofile.TprofileError, match="overwrite"):
        one.to_html(path, overwrite=False)
    assert path.read_text() == "mine"
    with pytest.raises(tprofile.TprofileError, match="no folder"):
        one.to_html(tmp_path / "none" / "out.html")
    assert [p.name for p in tmp_path.iterdir()] == ["out.html"]


def test_what_other_front_ends_ask_for_is_the_page_alone() -> None:
    found = Elements(recorded("matmul_add_64")._repr_html_())
    assert found.held["trace"] is None
    # THEN nothing that follows it is taken for its widget
    assert ("class", "tp-static") in found.attributes
