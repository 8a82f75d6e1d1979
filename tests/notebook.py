"""A real Jupyter kernel for tests: runs one cell at a time and gives what a notebook would hold."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

LONG = 60
"""Seconds that no passing test waits for."""


class Kernel(NotebookClient):
    """A kernel and the notebook that its cells are in.

    `messages` are those of the newest cell, `reply` is the answer to it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            nbformat.v4.new_notebook(),
            km=AsyncKernelManager(kernel_name="python3"),
            timeout=LONG,
            allow_errors=True,
            on_cell_executed=self._executed,
        )
        self._loop = loop
        self.messages: list[Any] = []
        self.reply: Any = None

    def run(self, text: str) -> Any:
        """Run a cell and return it, with its outputs."""
        return self._loop.run_until_complete(self._run(text))

    def run_all(self, *texts: str) -> list[Any]:
        """Run cells until one fails, as "Run All" does; return them, later ones without outputs."""
        first = len(self.nb.cells)
        self.allow_errors = False
        with contextlib.suppress(CellExecutionError):
            for text in texts:
                self.run(text)
        self.allow_errors = True
        cells = self.nb.cells[first:]
        return cells + [nbformat.v4.new_code_cell(text) for text in texts[len(cells) :]]

    def run_interrupted(self, text: str, flag: Path) -> Any:
        """Run a cell and interrupt it, as the stop button does, once it has made a file."""

        async def interrupt() -> None:
            while not flag.exists():
                await asyncio.sleep(0.01)
            await self.km.interrupt_kernel()

        async def both() -> Any:
            interrupting = asyncio.create_task(interrupt())
            try:
                return await self._run(text)
            finally:
                interrupting.cancel()

        return self._loop.run_until_complete(both())

    async def _run(self, text: str) -> Any:
        cell = nbformat.v4.new_code_cell(text)
        self.nb.cells.append(cell)
        self.messages, self.reply = [], None
        return await self.async_execute_cell(cell, len(self.nb.cells) - 1)

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        self.messages.append(msg)
        return super().process_message(msg, cell, cell_index)

    def _executed(self, cell: Any, cell_index: int, execute_reply: Any) -> None:
        self.reply = execute_reply


@contextlib.contextmanager
def kernel() -> Iterator[Kernel]:
    """Start a kernel with tprofile loaded, and stop it at the end."""
    loop = asyncio.new_event_loop()
    client = Kernel(loop)
    started = client.async_setup_kernel(cleanup_kc=True)
    loop.run_until_complete(started.__aenter__())
    try:
        assert client.run("%load_ext tprofile").outputs == []
        yield client
    finally:
        loop.run_until_complete(started.__aexit__(None, None, None))
        loop.close()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def errors(cell: Any) -> list[str]:
    """Return the tracebacks in a cell's outputs, as a person reads them."""
    return [
        plain("\n".join(output.traceback))
        for output in cell.outputs
        if output.output_type == "error"
    ]


def error(cell: Any) -> str:
    (found,) = errors(cell)
    return found


def streams(cell: Any, name: str = "stdout") -> str:
    return "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == name)


def results(cell: Any) -> list[Any]:
    """Return the displayed profiles in a cell's outputs: their bundles."""
    return [o.data for o in cell.outputs if is_result(o)]


def is_result(output: Any) -> bool:
    return "tp-static" in output.get("data", {}).get("text/html", "")


def is_widget(output: Any) -> bool:
    return "application/vnd.jupyter.widget-view+json" in output.get("data", {})


def seen(cell: Any) -> list[Any]:
    """Return a cell's outputs without our widgets, each of which follows its page at once."""
    for page, widget in itertools.zip_longest(cell.outputs, cell.outputs[1:], fillvalue={}):
        assert is_result(page) == is_widget(widget)
    return [o for o in cell.outputs if not is_widget(o)]


def result(cell: Any) -> str:
    """Return the one displayed profile of a cell as text."""
    (bundle,) = results(cell)
    return str(bundle["text/plain"])


def values(cell: Any) -> list[str]:
    """Return what the cell's expressions gave, and what it displayed besides profiles."""
    return [
        o.data["text/plain"]
        for o in seen(cell)
        if o.output_type in ("execute_result", "display_data") and not is_result(o)
    ]


def kinds(cell: Any) -> list[str]:
    """Return what a cell's outputs are, in order."""
    return ["result" if is_result(o) else o.get("name", o.output_type) for o in seen(cell)]
