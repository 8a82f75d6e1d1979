"""Hold back what code prints and displays, to show it later or not at all."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from IPython.utils.capture import CapturedIO, capture_output


class Held:
    """Output held back: of all that was captured, the newest."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._output: CapturedIO | None = None

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Hold back what the block puts out; what was held before is forgotten."""
        system = self._shell.system
        # In a terminal `!cmd` writes to the terminal itself unless it is piped through Python.
        self._shell.system = self._shell.system_piped
        try:
            with capture_output() as self._output:
                yield
        finally:
            self._shell.system = system

    def forget(self) -> None:
        """Drop what is held."""
        self._output = None

    def show(self) -> None:
        """Put out what is held, once."""
        output, self._output = self._output, None
        if output is None:
            return
        # Not its own `show`: even a write of nothing wakes the thread that sends output, in the
        # run that follows.
        for stream, text in ((sys.stdout, output.stdout), (sys.stderr, output.stderr)):
            if text:
                stream.write(text)
        for rich in output.outputs:
            rich.display()


class Warned:
    """Warnings of runs whose output is held back: Python gives most only once, so in such a run."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collect the warnings of the block instead of writing them."""

        def collect(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            text = warnings.formatwarning(message, category, filename, lineno, line)
            self._texts[text] = None

        # Not `catch_warnings`: it would undo the filters that modules imported in the block set.
        usual, warnings.showwarning = warnings.showwarning, collect
        try:
            yield
        finally:
            if warnings.showwarning is collect:
                warnings.showwarning = usual

    def show(self) -> None:
        """Write each warning once."""
        if self._texts:
            sys.stderr.write("".join(self._texts))
        self._texts.clear()


class Outputs:
    """The output of a session's code: the setup's and the last run's go out, all else is held."""

    def __init__(self, shell: Any, before_users: Callable[[], None]) -> None:
        """`before_users` is called ahead of the first thing that goes out."""
        self._before_users = before_users
        self._setup, self._run, self._warned = Held(shell), Held(shell), Warned()

    @contextmanager
    def setup(self) -> Iterator[None]:
        """Hold back what the setup puts out, until progress has made room for it."""
        with self._setup.capture():
            yield

    @contextmanager
    def run(self, last: bool) -> Iterator[None]:
        """Hold back what a run puts out, unless no other follows."""
        self._run.forget()
        if last:
            self.release()
            yield
        else:
            with self._run.capture(), self._warned.collected():
                yield

    def release(self) -> None:
        """Let out what is held: of the runs the newest, which was the last after all."""
        self._before_users()
        self._setup.show()
        self._warned.show()
        self._run.show()
