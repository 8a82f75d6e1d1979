"""Let through the output of the last run alone."""

from __future__ import annotations

from typing import Any

from IPython.utils.capture import capture_output


class LastOutput:
    """Hold back what a run prints and displays, unless no run follows it."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._held: Any = None

    def run(self, once: Any, last: bool) -> object:
        """Call `once`; its output goes out if it is the last, and is held otherwise."""
        self._held = None
        if last:
            return once()
        system = self._shell.system
        # In a terminal `!cmd` writes to the terminal itself unless it is piped through Python.
        self._shell.system = self._shell.system_piped
        try:
            with capture_output() as held:
                self._held = held
                return once()
        finally:
            self._shell.system = system

    def release(self) -> None:
        """Show what the newest run put out, if that was held back: it became the last after all."""
        held, self._held = self._held, None
        if held is not None:
            held.show()
