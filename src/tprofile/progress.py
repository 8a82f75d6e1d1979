"""Say what is going on while it takes long, and leave nothing behind."""

from __future__ import annotations

import contextvars
import html
import sys
import threading
from collections.abc import Callable
from types import TracebackType

PATIENCE_S = 1.0
"""Nothing is shown before this many seconds have passed."""


class Progress:
    """Show the newest stage once the work has lasted longer than a second.

    A thread of its own shows it, since the work itself is the user's code. `show` is called with
    text to put in place of the text before, and `clear` when something was shown and must go.
    """

    def __init__(self, show: Callable[[str], None], clear: Callable[[], None]) -> None:
        self._show, self._clear = show, clear
        self._text = ""
        self._shown = ""
        self._open = True
        self._changed = threading.Condition()
        # Notebooks route output by context: to the cell that started the thread.
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._watch,), daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.hide()
        with self._changed:
            self._open = False
            self._changed.notify()
        self._thread.join()

    def stage(self, text: str) -> None:
        """Note what is done now."""
        with self._changed:
            self._text = text
            self._changed.notify()

    def hide(self) -> None:
        """Take away what is shown, until the next stage."""
        with self._changed:
            self._text = ""
            if self._shown:
                self._shown = ""
                self._clear()

    def _watch(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._open, PATIENCE_S)
            while self._open:
                if self._text and self._text != self._shown:
                    self._shown = self._text
                    self._show(self._text)
                self._changed.wait()


def in_notebook(publisher: object) -> Progress:
    """Return a Progress that shows in the cell's output area, by the shell's display publisher."""

    def show(text: str) -> None:
        # Cleared before each text, and by the next output: one line at most is ever there.
        publisher.clear_output(wait=False)  # type: ignore[attr-defined]
        publisher.publish(  # type: ignore[attr-defined]
            data={
                "text/plain": f"tprofile: {text} …",
                "text/html": '<span style="color:var(--jp-ui-font-color2,inherit)">'
                f"{html.escape(text)} …</span>",
            }
        )

    return Progress(show, lambda: publisher.clear_output(wait=False))  # type: ignore[attr-defined]


def in_terminal() -> Progress:
    """Return a Progress that overwrites one line of a terminal, and does nothing elsewhere."""
    stream = sys.__stderr__
    if stream is None or not stream.isatty():
        return Progress(lambda text: None, lambda: None)

    def show(text: str) -> None:
        stream.write(f"\r\x1b[2Ktprofile: {text} …")
        stream.flush()

    def clear() -> None:
        stream.write("\r\x1b[2K")
        stream.flush()

    return Progress(show, clear)
