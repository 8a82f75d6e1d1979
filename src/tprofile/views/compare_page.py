"""A Comparison as HTML that holds all it needs, in the manner of a Profile's page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .compare import text
from .compare_figures import title
from .compare_html import compare_html
from .compare_payload import compare_payload
from .page import embedded, held, whole

if TYPE_CHECKING:
    from ..comparison import Comparison

MOST_TEXT_BYTES = 30_000
"""Of the text that a notebook keeps for front ends without HTML."""


def compare_page(
    comparison: Comparison, shown: dict[str, Any], limit: int | None = 15, *, paired: bool = False
) -> str:
    """Return a payload of the comparison as a piece of HTML, for the output of a notebook's cell.

    `paired` says that the output after it is a widget of the same payload.
    """
    plain = compare_html(comparison, limit)
    return held(shown, {"payload": shown, "traces": None}, plain, paired=paired)


def compare_document(comparison: Comparison) -> str:
    """Return the comparison as a whole HTML document, with the traces if they are not too large."""
    shown = compare_payload(comparison)
    traces = {
        key: embedded(profile, shown[key])
        for key, profile in (("a", comparison.a), ("b", comparison.b))
    }
    body = held(shown, {"payload": shown, "traces": traces}, compare_html(comparison))
    return whole(title(comparison), body)


def compare_text(comparison: Comparison, limit: int | None = 15) -> str:
    """Return the text that a notebook keeps: of fewer rows where names are very long."""
    shown = text(comparison, limit)
    for fewer in (10, 5, 2, 1):
        if len(shown.encode()) <= MOST_TEXT_BYTES:
            return shown
        shown = text(comparison, min(limit or fewer, fewer))
    if len(shown.encode()) <= MOST_TEXT_BYTES:
        return shown
    begin = shown.encode()[:MOST_TEXT_BYTES].decode(errors="ignore")
    return f"{begin}\n… and more in Comparison.text()"
