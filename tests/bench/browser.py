"""Time what a person waits for in JupyterLab: `python tests/bench/browser.py`.

Drives a real JupyterLab in headless Chromium, prints a table and writes the figures as JSON
(`--json FILE`). Times are milliseconds in the page's own clock, bytes those of the saved notebook
or of the messages from the kernel.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
from conftest import FLAGS, WAIT
from needs import find_chromium
from pages import Lab
from playwright.sync_api import Locator, sync_playwright
from server import Server

SIZES = (10_000, 100_000, 1_000_000)
ROWS = 10_000
FRAMES = 120
"""Frames in which a pointer or a wheel moves on, one event in each."""

LIMIT = 300_000
"""Bytes that an output may add to a notebook."""

SETUP = "%load_ext tprofile\nimport torch\nx = torch.randn(8, 8)"
SHORT = "%%tprofile\nx @ x"
"""A cell of few microseconds."""
TRAINING = """%%tprofile --label before
for _ in range(5):
    loss = torch.nn.functional.linear(x, x).relu().sum()"""
COMPARED = "%%tprofile --vs before\n(x @ x).relu().sum()"

PAINTED = """() => {
    const cell = () => document.querySelectorAll('.jp-NotebookPanel .jp-CodeCell')[1];
    const live = () => cell().querySelector('.tp-live');
    const before = live()?.dataset.tpId;
    const seen = window.seen = {begun: performance.now()};
    let started = false;
    const look = () => {
        const prompt = cell().querySelector('.jp-InputPrompt').textContent;
        started ||= prompt.includes('*');
        if (started && /\\[\\d+\\]/.test(prompt)) seen.ended ??= performance.now();
        const now = live();
        const rows = now && now.dataset.tpId !== before ? [...now.querySelectorAll('.tp-row')] : [];
        if (rows.some(row => row.checkVisibility())) seen.painted ??= performance.now();
        if (!seen.ended || !seen.painted) requestAnimationFrame(look);
    };
    look();
}"""
"""Note the first frames in which a cell has its number, and in which its new widget has rows."""

TOOK = """async ([selector, doing, value]) => {
    const target = [...document.querySelectorAll(selector)].find(e => e.checkVisibility());
    const frame = () => new Promise(requestAnimationFrame);
    await frame();
    const begin = performance.now();
    if (doing === 'input') {
        const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
        set.call(target, value);
        target.dispatchEvent(new Event('input', {bubbles: true}));
    } else target.click();
    await frame();
    await frame();
    return performance.now() - begin;
}"""
"""Do something and return how long it takes until the frame after it is on the screen."""

WATCHED = """
    window.drawn = [];
    window.received = 0;
    window.WebSocket = class extends WebSocket {
        constructor(...of) {
            super(...of);
            this.addEventListener('message', ({data}) => {
                window.received += data.byteLength ?? data.size ?? data.length;
            });
        }
    };
    const {setTransform} = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.setTransform = function (...of) {
        if (this.canvas.closest('.tp-timeline')) window.drawn.push(performance.now());
        return setTransform.apply(this, of);
    };
"""
"""Note when the Timeline is drawn, and count the bytes that a page receives."""

OPENED = """async tab => {
    const frame = () => new Promise(requestAnimationFrame);
    const told = () => [...document.querySelectorAll('.tp-timeline .tp-chain')]
        .find(e => e.checkVisibility())?.textContent ?? '';
    await frame();
    const begin = performance.now();
    tab.click();
    while (!/^(Asking|Fetching)/.test(told())) await frame();
    while (/^(Asking|Fetching)/.test(told())) await frame();
    window.drawn.length = 0;
    while (!window.drawn.length) await frame();
    await frame();
    return performance.now() - begin;
}"""
"""Open the tab of the Timeline and return how long it takes until all of the run is drawn."""

CLICKED = """canvas => {
    window.clicked = null;
    canvas.addEventListener('pointerup', async () => {
        const begin = performance.now();
        const frame = () => new Promise(requestAnimationFrame);
        await frame();
        await frame();
        await frame();
        window.clicked = performance.now() - begin;
    }, {capture: true, once: true});
}"""
"""Note how long the next click takes until what it selects is on the screen."""

MOVED = """async ([how, frames]) => {
    const canvas = [...document.querySelectorAll('.tp-timeline canvas')]
        .find(e => e.checkVisibility());
    const {width, height, left, top} = canvas.getBoundingClientRect();
    // Between two frames, as the browser tells of a pointer.
    const frame = async () => {
        await new Promise(requestAnimationFrame);
        await new Promise(done => setTimeout(done));
    };
    const at = (x, y) => ({
        bubbles: true, cancelable: true, clientX: left + x, clientY: top + y,
    });
    const wheel = (more) => canvas.dispatchEvent(
        new WheelEvent('wheel', {...at(width / 2, height / 2), ...more}));
    const steps = {
        pan: (i) => wheel({shiftKey: true, deltaX: i % 60 < 30 ? 8 : -8}),
        zoom: (i) => wheel({ctrlKey: true, deltaY: i % 60 < 30 ? -40 : 40}),
        hover: (i) => canvas.dispatchEvent(new PointerEvent('pointermove',
            at((i * 7) % width, 25 + (i * 3) % (height - 60)))),
    };
    await frame();
    window.drawn.length = 0;
    for (let i = 0; i < frames; i++) {
        steps[how](i);
        await frame();
    }
    await frame();
    return window.drawn.slice(1).map((time, i) => time - window.drawn[i]);
}"""
"""Move in the chart in every frame, and return the milliseconds between the frames drawn."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, metavar="SPANS")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeat", type=int, default=7, help="of what is short (default 7)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = Server(Path(folder, "jupyter"))
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        try:
            context = browser.new_context(viewport={"width": 1300, "height": 1000})
            context.set_default_timeout(2 * WAIT)
            context.add_init_script(WATCHED)
            print(f"{'ms':44}{'median':>9}{'95th':>9}{'worst':>9}")
            bench = Bench(Lab(context, server), server, Path(folder), chosen)
            for part in chosen.parts:
                found[part] = PARTS[part](bench)
                bench.lab.close()
                server.clear()
        finally:
            browser.close()
            server.stop()
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


class Bench:
    """A tab of JupyterLab, and what is measured in it."""

    def __init__(self, lab: Lab, server: Server, folder: Path, chosen: Any) -> None:
        self.lab, self.server, self.folder, self.chosen = lab, server, folder, chosen

    def run(self, *cells: str) -> Locator:
        """Run cells in a new notebook, and return the widget of the last one."""
        self.server.make_notebook("bench.ipynb", *cells)
        self.lab.open("bench.ipynb")
        self.lab.run_all()
        self.lab.wait_done()
        return self.lab.outputs(len(cells) - 1).locator(".tp-live")

    def load(self, write: Callable[[Path, int], None], size: int) -> Locator:
        """Show a trace made by `write`, and return its widget."""
        path = self.folder / f"{write.__name__}.json"
        write(path, size)
        view = self.run(f"import tprofile\nprofile = tprofile.load({str(path)!r})\nprofile")
        view.get_by_role("tab").first.wait_for()
        return view

    def took(self, selector: str, doing: str, value: str = "") -> float:
        return float(self.lab.page.evaluate(TOOK, [selector, doing, value]))

    def first_paint(self) -> dict[str, Any]:
        """Measure when the table stands there: since the cell was run, and after its end."""
        self.run(SETUP, SHORT)
        since, after = [], []
        for _ in range(self.chosen.repeat):
            self.lab.page.evaluate(PAINTED)
            self.lab.run(1)
            self.lab.wait_done()
            self.lab.page.wait_for_function("() => window.seen.painted && window.seen.ended")
            seen = self.lab.page.evaluate("() => window.seen")
            since.append(seen["painted"] - seen["begun"])
            after.append(max(seen["painted"] - seen["ended"], 0.0))
        return {
            "since_run": told("a cell of µs run, to its table", since),
            "after_end": told("the cell's end, to its table", after),
        }

    def table(self) -> dict[str, Any]:
        """Measure filter and order of a table of many rows."""
        view = self.load(made.shapes, ROWS)
        view.get_by_role("tab", name="Operators").click()
        view.get_by_label("Rows", exact=True).select_option("shape")
        foot = view.locator(".tp-foot [role=status]")
        self.lab.page.wait_for_function(
            "([foot, rows]) => parseInt(foot.textContent) >= rows",
            arg=[foot.element_handle(), ROWS],
        )
        filtered, sorted_ = [], []
        for i in range(self.chosen.repeat):
            filtered += [
                self.took(".tp-live input[type=search]", "input", text)
                for text in ("a", "add", "addm", "gelu_18", "")
            ]
            for column in (1, 2 + i % 2):
                head = f".tp-live [role=columnheader]:nth-child({column}) button"
                sorted_.append(self.took(head, "click"))
        return {
            "filter": told(f"filter {ROWS:,} rows", filtered),
            "sort": told(f"sort {ROWS:,} rows", sorted_),
        }

    def timeline(self) -> dict[int, Any]:
        """Measure how soon a run of each size is drawn, and how often while it moves."""
        return {size: self._timeline(size) for size in self.chosen.sizes}

    def _timeline(self, size: int) -> dict[str, Any]:
        view = self.load(made.timeline, size)
        print(f"\nTimeline of {size:,} spans")
        found: dict[str, Any] = self._open(view)
        print(f"{'opened':44}{found['opened_ms']:9.1f}{found['bytes'] / 1e6:9.2f} MB")
        for selected in ("nothing", "an operator"):
            if selected != "nothing":
                view.get_by_role("tab", name="Operators").click()
                view.locator(".tp-row").first.click()
                self._open(view)
            for how in ("hover", "zoom", "pan"):
                view.locator(".tp-timeline").get_by_label("Fit the whole run").evaluate(
                    "button => button.click()"
                )
                if how == "pan":
                    view.locator(".tp-timeline").get_by_label("Zoom in").click()
                frames = self.lab.page.evaluate(MOVED, [how, FRAMES])
                found[f"{how}, {selected} selected"] = told(f"{how}, {selected} selected", frames)
        found["click"] = told("click on a bar", [self._click(i) for i in range(4)])
        return found

    def _open(self, view: Locator) -> dict[str, float]:
        self.lab.page.evaluate("() => { window.received = 0; }")
        opened = view.get_by_role("tab", name="Timeline").evaluate(OPENED)
        return {"opened_ms": opened, "bytes": self.lab.page.evaluate("() => window.received")}

    def _click(self, i: int) -> float:
        page = self.lab.page
        canvas = page.locator(".tp-timeline canvas")
        canvas.evaluate(CLICKED)
        canvas.click(position={"x": 200 + 150 * i, "y": 20 + 14 * (i % 3)})
        page.wait_for_function("() => window.clicked !== null")
        return float(page.evaluate("() => window.clicked"))

    def saved(self) -> dict[str, int]:
        """Measure what the outputs of cells add to a notebook that is saved."""
        cells = {
            "a cell of µs": SHORT, "a loop of operators": TRAINING, "the same again": TRAINING,
            "a comparison": COMPARED,
        }  # fmt: skip
        self.run(SETUP, *cells.values())
        self.lab.save()
        outputs = [cell.outputs for cell in self.server.read_notebook("bench.ipynb").cells[1:]]
        found = {what: len(json.dumps(o)) for what, o in zip(cells, outputs, strict=True)}
        print(f"\nadded to a saved notebook (limit {LIMIT:,} bytes)")
        for what, size in found.items():
            print(f"{what:44}{size:9,}{'  TOO MUCH' * (size > LIMIT)}")
        return found


def told(what: str, times: list[float]) -> dict[str, float]:
    """Print a line of the table, and return its figures."""
    ordered = sorted(times)
    found = {
        "median_ms": statistics.median(ordered),
        "p95_ms": ordered[min(round(0.95 * len(ordered)), len(ordered) - 1)],
        "worst_ms": ordered[-1],
        "n": len(ordered),
    }
    print(f"{what:44}" + "".join(f"{found[key]:9.1f}" for key in found if key != "n"), flush=True)
    return found


PARTS: dict[str, Callable[[Bench], Any]] = {
    "first_paint": Bench.first_paint,
    "table": Bench.table,
    "timeline": Bench.timeline,
    "saved": Bench.saved,
}

if __name__ == "__main__":
    main()
