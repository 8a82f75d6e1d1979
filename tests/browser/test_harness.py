"""The harness, with plain notebooks: what it says of Jupyter and of a page is so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from needs import find_chromium, find_packages
from pages import Front, Lab, Perfetto, expect
from server import Server
from traffic import Traffic, foreign, jupyters_own

SCRIPT = """
from IPython.display import HTML, display
display(HTML('''<p class="t-spot">plain</p>
<script type="module">document.querySelector(".t-spot").textContent = "live"</script>'''))
"""
PERFETTO = """<button class="t-open">open</button><script type="module">
const origin = "https://ui.perfetto.dev";
document.querySelector(".t-open").onclick = () => {
  const win = window.open(origin);
  const timer = setInterval(() => win.postMessage("PING", origin), 50);
  addEventListener("message", (event) => {
    if (event.source !== win || event.origin !== origin || event.data !== "PONG") return;
    clearInterval(timer);
    const buffer = new Uint8Array([0, 127, 128, 255]).buffer;
    const perfetto = {buffer, title: "a title", fileName: "a.json", localOnly: false};
    win.postMessage({perfetto}, origin, [buffer]);
  });
};
</script>"""


def test_scripts_of_a_saved_output_run_again_if_it_is_trusted(
    either: Front, server: Server
) -> None:
    server.make_notebook("script.ipynb", SCRIPT)
    either.open("script.ipynb")
    either.run_all()
    either.wait_done()
    expect(either.outputs(0).locator(".t-spot")).to_have_text("live")
    either.save()
    (output,) = server.read_notebook("script.ipynb").cells[0].outputs
    assert '<p class="t-spot">plain</p>' in output.data["text/html"]

    either.shut_down_kernel()
    assert either.kernels() == []
    either.open("script.ipynb", kernel=False)
    expect(either.outputs(0).locator(".t-spot")).to_have_text("live")
    assert either.trusted()
    assert either.kernels() == []

    server.copy_notebook("script.ipynb", "mailed.ipynb", trusted=False)
    either.open("mailed.ipynb", kernel=False)
    expect(either.outputs(0).locator(".t-spot")).to_have_text("plain")
    assert not either.trusted()
    either.trust()
    assert either.trusted()
    expect(either.outputs(0).locator(".t-spot")).to_have_text("live")
    assert either.kernels() == []


def test_kernel_restarts_and_outlives_the_tab_and_themes_change(
    either: Front, server: Server, screenshot: Callable[..., Path]
) -> None:
    server.make_notebook("state.ipynb", "x = globals().get('x', 0) + 1\nprint('x is', x)", "1 / 0")
    either.open("state.ipynb")
    either.run(0)
    either.wait_done()
    either.run(0)
    either.wait_done()
    expect(either.outputs(0)).to_contain_text("x is 2")
    (kernel,) = either.kernels()

    either.reload()
    assert either.kernels() == [kernel]
    either.run(0)
    either.wait_done()
    expect(either.outputs(0)).to_contain_text("x is 3")

    either.restart_kernel()
    either.run_all()
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        either.wait_done()
    either.wait_done(errors=True)
    expect(either.outputs(0)).to_contain_text("x is 1")

    background = "() => getComputedStyle(document.body).getPropertyValue('--jp-layout-color0')"
    either.theme("dark")
    assert either.page.evaluate(background).strip() in ("black", "#111")
    assert screenshot("cell", either.cell(0)).read_bytes().startswith(b"\x89PNG")
    either.theme("light")
    assert either.page.evaluate(background).strip() in ("white", "#fff")


def test_foreign_addresses() -> None:
    fine = [
        "http://127.0.0.1:8888/lab",
        "ws://127.0.0.1:8888/api/kernels/1/channels",
        "data:image/png;base64,AA==",
        "blob:http://127.0.0.1:8888/1",
        "about:blank",
        "file:///tmp/page.html",
        "https://ui.perfetto.dev/#!/viewer",
    ]
    strange = [
        "https://example.org/font.woff",
        "http://127.0.0.1:9999/lab",
        "http://127.0.0.1:8888@example.org/lab",
        "http://ui.perfetto.dev/",
        "https://evil-ui.perfetto.dev/",
    ]
    allowed = ["127.0.0.1:8888", "ui.perfetto.dev:443"]
    assert foreign(fine + strange, allowed) == strange


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("<img src='https://example.org/pixel.png'>", "https://example.org/pixel.png"),
        ("<script>new WebSocket('wss://example.org/')</script>", "wss://example.org/"),
        ("<script>setTimeout(() => { throw Error('broken') })</script>", "broken"),
        ("<script>Promise.reject(Error('unkept'))</script>", "unkept"),
        ("<script>console.error('tprofile: no figures')</script>", "tprofile: no figures"),
    ],
)
def test_what_a_page_must_not_do_fails_its_test(
    source: str, complaint: str, traffic: Traffic, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>page</title>{source}")
    page = traffic.context.new_page()
    page.goto(path.as_uri())
    page.wait_for_load_state("networkidle")
    with pytest.raises(AssertionError, match=complaint):
        traffic.check()
    traffic.requests.clear()
    traffic.errors.clear()


def test_perfetto_stand_in_takes_a_trace(lab: Lab, server: Server, perfetto: Perfetto) -> None:
    html = nbformat.v4.new_output("display_data", {"text/html": PERFETTO})
    cell = nbformat.v4.new_code_cell("...", outputs=[html])
    server.make_notebook("perfetto.ipynb", cell, trusted=True)
    lab.open("perfetto.ipynb", kernel=False)
    assert lab.trusted()
    tab = perfetto.opened(lab.outputs(0).locator(".t-open").click)
    assert tab.url == "https://ui.perfetto.dev/"
    assert perfetto.received(tab) == {
        "buffer": bytes([0, 127, 128, 255]),
        "title": "a title",
        "fileName": "a.json",
        "localOnly": False,
    }
    assert perfetto.pings(tab) >= 1


def test_errors_of_jupyter_itself_are_not_ours() -> None:
    lab = "    at f (http://127.0.0.1:8888/static/lab/jlab_core.js?v=1:1:2)\n"
    widgets = "    at async http://127.0.0.1:8888/lab/extensions/@jupyter-widgets/m/160.js:1:2\n"
    anywidget = "    at g (http://127.0.0.1:8888/lab/extensions/anywidget/static/1.js:1:2)\n"
    ours = "    at render (blob:http://127.0.0.1:8888/3b1e:1:2)\n"
    inline = "    at http://127.0.0.1:8888/lab/tree/x.ipynb:1:2\n"
    assert jupyters_own("TypeError: x\n" + lab + widgets)
    assert not any(jupyters_own("Error: x\n" + top + lab) for top in (ours, anywidget, inline))
    assert not jupyters_own("Error: x")


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_no_chromium_skips_and_fails_in_ci(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("TPROFILE_CHROMIUM", "no-such-program")
    with pytest.raises(outcome, match="no browser: no-such-program not found"):
        find_chromium()
    with pytest.raises(outcome, match="no_such_package is not installed"):
        find_packages("pytest", "no_such_package")
