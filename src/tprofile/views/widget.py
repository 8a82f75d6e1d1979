"""The live widget: the payload once, and the trace in pieces when it is asked for."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from ..errors import TprofileError
from .pack import encode
from .page import STATIC, trace_name
from .payload import grouped
from .timeline import timeline

if TYPE_CHECKING:
    from ..result import Profile

CHUNK_BYTES = 8_000_000
"""Of a trace per message: notebook servers refuse one that is much larger."""


class HeldTrace:
    """A profile whose trace is written to a file when it is first asked for."""

    def __init__(self, profile: Profile, name: str) -> None:
        self.profile: Profile | None = profile
        self._name = name
        self._file: Path | None = None
        self._run: tuple[int, bytes] = (0, b"")
        self._writing = threading.Lock()

    def chunk(self, offset: object) -> tuple[dict[str, Any], list[bytes]]:
        """Answer with bytes of the file from `offset`, which is what a browser sent."""
        file = self.written()
        with open(file, "rb") as opened:
            opened.seek(_offset(offset, file.stat().st_size))
            return {"kind": "chunk", "offset": offset}, [opened.read(CHUNK_BYTES)]

    def run(self, run: object, offset: object) -> tuple[dict[str, Any], list[bytes]]:
        """Answer with bytes of a run's timeline from `offset`, and the size of it all.

        Both are what a browser sent. The run that was last asked for is kept.
        """
        if type(run) is not int:
            raise TprofileError(f"the run is {run!r}, but must be a number.")
        with self._writing:
            if self._run[0] != run:
                self._run = run, timeline(self._there(), run)
        whole = self._run[1]
        start = _offset(offset, len(whole))
        piece = whole[start : start + CHUNK_BYTES]
        return {"kind": "run", "offset": offset, "size": len(whole)}, [piece]

    def let_go(self) -> None:
        """Hold nothing of the profile in memory any longer."""
        with self._writing:
            self.profile, self._run = None, (0, b"")

    def table(self, of: object, by: object) -> dict[str, Any]:
        """Answer with a table by something else than names alone: a browser says by what."""
        if not isinstance(of, str) or not isinstance(by, str):
            raise TprofileError(f"there is no table of {of!r} by {by!r}.")
        return {"kind": "table", **grouped(self._there(), of, by)}

    def _there(self) -> Profile:
        if self.profile is None:
            raise TprofileError(
                "this profile is no longer in memory, as newer ones are. Profile the cell again, "
                "or open its trace: tprofile.load of its path."
            )
        return self.profile

    def written(self) -> Path:
        """Return the trace as a file.

        It outlives the kernel, as a path that someone copied should.
        """
        with self._writing:
            if self._file is None or not self._file.exists():
                if self.profile is None:
                    raise TprofileError(
                        "the trace is gone: the cell was profiled again. Use the newer result."
                    )
                folder = tempfile.mkdtemp(prefix="tprofile-")
                self._file = Path(self.profile.export_trace(Path(folder, self._name)))
            return self._file


def _offset(offset: object, size: int) -> int:
    if type(offset) is not int or not 0 <= offset < size:
        raise TprofileError(f"there is no byte {offset!r} of {size:,}. Start again.")
    return offset


class TraceWidget(anywidget.AnyWidget):
    """What a notebook shows while its kernel lives, and the traces that it is of.

    The browser sorts, filters and draws by itself. It sends `{"kind", "id", ...}` and gets an
    answer with the same id: `trace` (size and name of the file), `chunk` (bytes from `offset`),
    `path` (where the file is), `run` (bytes of a run's timeline from `offset`),
    `table` (one of the tables, `by` something), or `error`. `of` says which trace is meant, where
    there are several. Messages may come on a thread of their own while a cell runs: the answers
    read the finished trace and nothing else.
    """

    _esm = STATIC / "widget.js"
    _css = STATIC / "widget.css"
    payload = traitlets.Unicode().tag(sync=True)

    def __init__(self, shown: dict[str, Any], traces: dict[str | None, HeldTrace]) -> None:
        self._traces = traces
        super().__init__(payload=encode(shown))
        self.on_msg(self._answer)

    @property
    def events(self) -> int:
        """How many events the widget holds in memory."""
        held = [one.profile for one in self._traces.values()]
        return sum(len(profile.trace) for profile in held if profile is not None)

    def let_go(self) -> None:
        """Write the traces to their files and hold them in memory no longer."""
        for one in self._traces.values():
            if one.profile is not None:
                one.written()
                one.let_go()

    def close(self) -> None:
        """Close the widget, and let go of its profiles: open widgets are kept for ever."""
        for one in self._traces.values():
            one.let_go()
        super().close()

    def _answer(self, _widget: object, content: Any, _buffers: object) -> None:
        content = content if isinstance(content, dict) else {}
        try:
            answer, buffers = self._answered(content)
        except Exception as error:
            # Whoever asked waits for an answer, and a comm's errors are seen by nobody.
            answer, buffers = {"kind": "error", "message": str(error)}, []
        self.send({**answer, "id": content.get("id")}, buffers)

    def _answered(self, content: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        kind, trace = content.get("kind"), self._asked(content.get("of"))
        if kind == "path":
            return {"kind": kind, "path": str(trace.written())}, []
        if kind == "trace":
            file = trace.written()
            return {"kind": kind, "size": file.stat().st_size, "file": file.name}, []
        if kind == "chunk":
            return trace.chunk(content.get("offset"))
        if kind == "table":
            return trace.table(content.get("table"), content.get("by")), []
        if kind == "run":
            return trace.run(content.get("run"), content.get("offset"))
        raise TprofileError(f"the widget asked for {kind!r}, which there is not.")

    def _asked(self, of: object) -> HeldTrace:
        if (of is None or isinstance(of, str)) and of in self._traces:
            return self._traces[of]
        raise TprofileError(f"the widget asked for the trace {of!r}, which there is not.")


class ProfileWidget(TraceWidget):
    """What a notebook shows of one Profile while its kernel lives."""

    def __init__(self, profile: Profile, shown: dict[str, Any]) -> None:
        super().__init__(shown, {None: HeldTrace(profile, trace_name(shown))})

    @property
    def _profile(self) -> Profile | None:
        return self._traces[None].profile


class ComparisonWidget(TraceWidget):
    """What a notebook shows of two Profiles, `of` which the traces are "a" and "b"."""

    def __init__(self, a: Profile, b: Profile, shown: dict[str, Any]) -> None:
        super().__init__(
            shown,
            {
                "a": HeldTrace(a, trace_name(shown["a"])),
                "b": HeldTrace(b, trace_name(shown["b"])),
            },
        )
