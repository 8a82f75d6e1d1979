"""A Profile as HTML that holds all it needs: a table that shows anywhere, and the bundle with its
data, which takes the table's place where scripts may run."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from .figures import headline
from .html import html
from .pack import encode
from .payload import payload
from .timeline import timeline

if TYPE_CHECKING:
    from ..result import Profile

STATIC = Path(__file__).parents[1] / "static"

MOST_TRACE_BYTES = 16_000_000
"""Of the trace file that a document carries, and of the run: a browser reads all of it before it
shows a thing."""


def page(
    profile: Profile,
    shown: dict[str, Any],
    sort: str | None = None,
    limit: int | None = 15,
    *,
    paired: bool = False,
) -> str:
    """Return a payload of the profile as a piece of HTML, for the output of a notebook's cell.

    `paired` says that the output after it is a widget of the same payload.
    """
    plain = html(profile, sort, limit)
    return held(shown, {"payload": shown, "trace": None}, plain, paired=paired)


def document(profile: Profile) -> str:
    """Return the profile as a whole HTML document, with its trace if that is not too large."""
    shown = payload(profile)
    body = held(shown, {"payload": shown, "trace": embedded(profile, shown)}, html(profile))
    return whole(headline(profile).sentence, body)


def whole(title: str, body: str) -> str:
    """Return a piece of HTML as a document of its own."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>tprofile: {escape(title)}</title>"
        "<style>:root{color-scheme:light dark}body{margin:16px auto;max-width:1280px;"
        f"padding:0 16px}}</style></head>\n<body><main>{body}</main></body></html>\n"
    )


def trace_name(shown: dict[str, Any]) -> str:
    """Return the name under which the trace of a payload is saved."""
    return f"tprofile-{shown['id'][:8]}.json.gz"


def held(shown: dict[str, Any], data: dict[str, Any], plain: str, *, paired: bool = False) -> str:
    """Return a piece of HTML that shows `data`, with the bundle; `plain` is shown without it."""
    kind = "tp-static tp-paired" if paired else "tp-static"
    style = (STATIC / "widget.css").read_text(encoding="utf-8")
    script = (STATIC / "widget.js").read_text(encoding="utf-8")
    # The widget hides the piece that bears its payload's id.
    return (
        f'<div class="{kind}" data-tp-id="{escape(shown["id"])}"><style>{style}</style>'
        f'<div class="tp-place">{plain}</div>'
        f'<script type="application/json">{_inert(encode(data))}</script>'
        f'<script type="module">{script}</script></div>'
    )


def _inert(json: str) -> str:
    """Return JSON in which nothing can end, or comment out, the script element around it."""
    return json.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def embedded(profile: Profile, shown: dict[str, Any]) -> dict[str, str | None] | None:
    """Return the trace of a payload as what a document carries, or None if it is too large.

    With it, if that is not too large either, all that was recorded in the run that is drawn.
    """
    with TemporaryDirectory(prefix="tprofile-") as folder:
        file = Path(profile.export_trace(Path(folder, "trace.json.gz")))
        if file.stat().st_size > MOST_TRACE_BYTES:
            return None
        trace = file.read_bytes()
    strip = profile.strip
    run = timeline(profile, strip.run) if strip is not None else b""
    return {
        "file": trace_name(shown),
        "base64": _base64(trace),
        "run": _base64(run) if 0 < len(run) <= MOST_TRACE_BYTES else None,
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
