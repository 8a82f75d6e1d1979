"""Say what is going on while it takes long, and leave nothing behind."""

from __future__ import annotations

import contextvars
import html
import sys
import threading
import uuid
from types import TracebackType
from typing import Any, Protocol

PATIENCE_S = 1.0
"""Nothing is shown before this many seconds have passed."""

TICK_S = 0.25
"""How often the newest stage is looked at after that."""


class Screen(Protocol):
    """Where progress and the result appear."""

    def show(self, text: str) -> None:
        """Put a text in place of the one before."""

    def clear(self) -> None:
        """Take the text away, unless the result will."""

    def leave(self) -> None:
        """Note that the user's own output follows, which is not ours to clear."""

    def result(self, first: dict[str, Any], *others: dict[str, Any]) -> None:
        """Show the result: its first part in place of a text that is still there."""


class Progress:
    """Show what is being done, once all of it has lasted longer than a second.

    A thread of its own shows it, since the work itself is the user's code. To publish takes time
    from a run that is being measured, which a long one does not notice: so a stage is shown that
    has lasted a tick, and of those that do not last, one in a second.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._text = self._shown = ""
        self._open = True
        self._left = False
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
        with self._changed:
            self._open = False
            self._changed.notify()
        self._thread.join()
        if self._shown:
            self._screen.clear()

    def stage(self, text: str) -> None:
        """Note what is done now."""
        with self._changed:
            self._text = text

    def leave(self, result_follows: bool) -> None:
        """Take away what is shown: the last run's own output follows.

        What is shown later can only be replaced by a result, so without one nothing is.
        """
        with self._changed:
            if self._left:
                return
            if self._shown:
                self._screen.clear()
            self._text = self._shown = ""
            # The thread finds out by itself: waking it would take time from the run that follows.
            self._left, self._open = True, result_follows
            self._screen.leave()

    def _watch(self) -> None:
        seen, steady, silent = "", 0.0, PATIENCE_S
        pause = PATIENCE_S
        with self._changed:
            while not self._changed.wait_for(lambda: not self._open, pause):
                pause = TICK_S
                steady = steady + TICK_S if self._text == seen else 0.0
                silent += TICK_S
                seen = self._text
                if seen and seen != self._shown and _due(steady, silent, self._left):
                    self._shown, silent = seen, 0.0
                    self._screen.show(seen)


def _due(steady: float, silent: float, left: bool) -> bool:
    """Tell whether to show a stage that has lasted `steady` seconds, `silent` after the last one.

    What follows the user's output stands under it, so it has to be worth its while.
    """
    return steady >= PATIENCE_S if left else steady > 0 or silent >= PATIENCE_S


class NotebookScreen:
    """The output area of a cell, by the shell's display publisher."""

    def __init__(self, publisher: Any) -> None:
        self._publisher = publisher
        self._slot: str | None = None
        self._taken = False

    def show(self, text: str) -> None:
        bundle = {
            "text/plain": f"tprofile: {text} …",
            "text/html": '<span style="color:var(--jp-ui-font-color2,inherit)">'
            f"{html.escape(text)} …</span>",
        }
        if self._slot is None:
            self._publisher.clear_output(wait=False)
            self._publisher.publish(data=bundle)
        else:
            self._fill(bundle)

    def clear(self) -> None:
        if self._slot is None:
            self._publisher.clear_output(wait=False)

    def leave(self) -> None:
        # What was there may be the user's now, so what comes next has a place of its own.
        self._slot = f"tprofile-{uuid.uuid4().hex}"

    def result(self, first: dict[str, Any], *others: dict[str, Any]) -> None:
        if self._taken:
            self._fill(first)
        else:
            self._publisher.publish(data=first)
        for bundle in others:
            self._publisher.publish(data=bundle)

    def _fill(self, bundle: dict[str, Any]) -> None:
        self._publisher.publish(
            data=bundle, transient={"display_id": self._slot}, update=self._taken
        )
        self._taken = True


class TerminalScreen:
    """One line of a terminal, overwritten; where there is no terminal, nothing but the result."""

    def __init__(self) -> None:
        stream = sys.__stderr__
        self._stream = stream if stream is not None and stream.isatty() else None

    def show(self, text: str) -> None:
        self._write(f"\r\x1b[2Ktprofile: {text} …")

    def clear(self) -> None:
        self._write("\r\x1b[2K")

    def leave(self) -> None:
        """Do nothing: a terminal's lines are never taken back."""

    def result(self, first: dict[str, Any], *others: dict[str, Any]) -> None:
        self.clear()
        print("\n\n".join(bundle["text/plain"] for bundle in (first, *others)))

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()
