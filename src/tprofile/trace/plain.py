"""JSON that Perfetto v52 reads: its own parser has faults that cost a slice, or the whole file."""

from __future__ import annotations

import json
import re
from typing import Any

_PAIR = re.compile(rb"(?<!\\)((?:\\\\)*)(\\u[dD][89abAB]..\\u[dD][c-fC-F]..)")
_LAST_BACKSLASH = re.compile(rb'(?<!\\)((?:\\\\)*)\\\\"')


def as_json(value: Any) -> bytes:
    """Return a value as JSON; raise ValueError for a number that JSON does not have.

    A Decimal is written as the float that it is nearest to.
    """
    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=float
    )
    try:
        return plain(text.encode())
    except UnicodeEncodeError:
        # Half a pair of UTF-16 is no character, and no reader takes it.
        return plain(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode())


def plain(text: bytes) -> bytes:
    r"""Return the same JSON without what Perfetto refuses or misreads.

    That is `"\ud83d\ude80"`, a character escaped as two, and `"C:\\"`, whose last quote it takes
    for an escaped one.
    """
    if b"\\ud" in text or b"\\uD" in text:
        text = _PAIR.sub(lambda m: m[1] + json.loads(b'"%s"' % m[2]).encode(), text)
    if b'\\\\"' in text:
        text = _LAST_BACKSLASH.sub(rb'\1\\u005c"', text)
    return text
