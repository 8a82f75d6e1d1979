"""JSON in UTF-8: Perfetto refuses a file for an escape of a character beyond 16 bits."""

from __future__ import annotations

import json
import re
from typing import Any

_PAIR = re.compile(rb"(?<!\\)((?:\\\\)*)(\\u[dD][89abAB]..\\u[dD][c-fC-F]..)")


def as_json(value: Any) -> bytes:
    """Return a value as JSON; raise ValueError for a number that JSON does not have.

    A Decimal is written as the float that it is nearest to.
    """
    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=float
    )
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Half a pair of UTF-16 is no character, and no reader takes it.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def without_pairs(text: bytes) -> bytes:
    """Return JSON of any writer with the characters themselves for such escapes."""
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _PAIR.sub(lambda m: m[1] + json.loads(b'"%s"' % m[2]).encode(), text)
