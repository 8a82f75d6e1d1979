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

if TYPE_CHECKING:
    from ..result import Profile

CHUNK_BYTES = 8_000_000
"""Of a trace per message: notebook servers refuse one that is much larger."""


class ProfileWidget(anywidget.AnyWidget):
    """What a notebook shows of one Profile while its kernel lives.

    The browser sorts, filters and draws by itself. It sends `{"kind", "id", ...}` and gets an
    answer with the same id: `trace` (size and name of the file), `chunk` (bytes from `offset`),
    `path` (where the file is), or `error`. Messages may come on a thread of their own while a
    cell runs: the answers read the finished trace and nothing else.
    """

    _esm = STATIC / "widget.js"
    _css = STATIC / "widget.css"
    payload = traitlets.Unicode().tag(sync=True)

    def __init__(self, profile: Profile, shown: dict[str, Any]) -> None:
        self._profile: Profile | None = profile
        self._name = trace_name(shown)
        self._file: Path | None = None
        self._writing = threading.Lock()
        super().__init__(payload=encode(shown))
        self.on_msg(self._answer)

    @property
    def events(self) -> int:
        """How many events the widget holds in memory."""
        return 0 if self._profile is None else len(self._profile.trace)

    def let_go(self) -> None:
        """Write the trace to its file and hold it in memory no longer."""
        self._written()
        self._profile = None

    def close(self) -> None:
        """Close the widget, and let go of its profile: open widgets are kept for ever."""
        self._profile = None
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
        kind = content.get("kind")
        if kind == "path":
            return {"kind": kind, "path": str(self._written())}, []
        if kind == "trace":
            file = self._written()
            return {"kind": kind, "size": file.stat().st_size, "file": file.name}, []
        if kind == "chunk":
            return self._chunk(content.get("offset"))
        raise TprofileError(f"the widget asked for {kind!r}, which there is not.")

    def _chunk(self, offset: object) -> tuple[dict[str, Any], list[bytes]]:
        file = self._written()
        if type(offset) is not int or not 0 <= offset < file.stat().st_size:
            raise TprofileError(f"the trace has no byte {offset!r}. Start the download again.")
        with open(file, "rb") as opened:
            opened.seek(offset)
            return {"kind": "chunk", "offset": offset}, [opened.read(CHUNK_BYTES)]

    def _written(self) -> Path:
        """Return the trace as a file, written when it is first asked for.

        It outlives the kernel, as a path that someone copied should.
        """
        with self._writing:
            if self._file is None or not self._file.exists():
                if self._profile is None:
                    raise TprofileError(
                        "the trace is gone: the cell was profiled again. Use the newer result."
                    )
                folder = tempfile.mkdtemp(prefix="tprofile-")
                self._file = Path(self._profile.export_trace(Path(folder, self._name)))
            return self._file
