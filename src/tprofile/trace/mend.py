"""Mend what is almost JSON, and say of what is beyond that where it breaks off."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .unpack import shown

_LIST = re.compile(r'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[][{}]', re.DOTALL)
_LOOKED_AT = 1 << 20
"""Characters after the last whole event that are looked at closely; no event is as long."""


def mends(text: bytes) -> Iterator[tuple[bytes, list[str]]]:
    """Yield the text mended more and more, each time with all that has been done to it."""
    done: list[str] = []
    for mend, told in (
        (_escape_controls, "unescaped text in it was repaired"),
        # To find a name that has quotes in it takes a guess at where it ends.
        (_escape_names, "unescaped text in it was repaired"),
        (_replace_surrogates, "lone surrogates in it were replaced"),
        (_quote_words, "NaN and infinities in it were read as text"),
        (_drop_comma, "a comma after its last event was left out"),
        (_close, "its list of events has no end, so the last of them may be missing"),
    ):
        mended = mend(text)
        if mended == text:
            continue
        text = mended
        done += [told] * (told not in done)
        yield text, done


_CONTROL = re.compile(rb"[\x00-\x09\x0b\x0c\x0e-\x1f]")
_NAME_ON_ITS_LINE = re.compile(rb'("name": ")((?:(?!"name": ").)*?)(", "pid": )')
_BARE_QUOTE = re.compile(rb'(?<!\\)"')
_SURROGATE = re.compile(
    rb"(?<!\\)((?:\\\\)*)(?:(\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u[dD][89a-fA-F]..)"
)
_WORD = re.compile(rb'("(?:[^"\\]|\\.)*")|(-?\b(?:nan|inf|infinity)\b)', re.DOTALL | re.IGNORECASE)


def _escape_controls(text: bytes) -> bytes:
    """Escape controls, wherever they are."""
    return _CONTROL.sub(lambda m: b" " if m[0] == b"\t" else b"\\u%04x" % m[0][0], text)


def _escape_names(text: bytes) -> bytes:
    """Escape quotes in names where Kineto's writer puts them."""

    def escape(match: re.Match[bytes]) -> bytes:
        return match[1] + _BARE_QUOTE.sub(rb"\"", match[2]) + match[3]

    return _NAME_ON_ITS_LINE.sub(escape, text)


def _replace_surrogates(text: bytes) -> bytes:
    """Replace half a pair of UTF-16, which is no character."""
    return _SURROGATE.sub(lambda m: m[0] if m[2] else m[1] + rb"\ufffd", text)


def _quote_words(text: bytes) -> bytes:
    """Make text of what Python and C++ write for numbers that JSON does not have."""
    if not re.search(rb"[:\[,\s]-?(?:nan|inf)", text, re.IGNORECASE):
        return text
    return _WORD.sub(lambda m: m[1] or b'"%s"' % m[2], text)


@dataclass(frozen=True)
class _Walk:
    """How far the events of a text can be followed."""

    text: str
    bare: bool
    """Whether the text is the list itself rather than an object with a key `traceEvents`."""
    began: bool
    """Whether there is a list at all."""
    events: int
    end: int
    """Where the last whole event ends."""


def _walk(data: bytes) -> _Walk:
    text = data.decode("utf-8", "replace")
    bare = text.lstrip()[:1] == "["
    found = re.match(r"\s*\[", text) if bare else _LIST.search(text)
    if found is None:
        return _Walk(text, bare, False, 0, 0)
    decode = json.JSONDecoder(strict=False).raw_decode
    end, events = found.end(), 0
    while text.startswith("{", at := _between(text, end)):
        try:
            _, end = decode(text, at)
        except (ValueError, RecursionError):
            break
        events += 1
    return _Walk(text, bare, True, events, end)


def _between(text: str, end: int) -> int:
    between = _BETWEEN.match(text, end)
    return between.end() if between else end


def _close(data: bytes) -> bytes:
    """End a list that has no end: Chrome's format lets writers leave that out."""
    walk = _walk(data)
    if not walk.bare or not walk.events or _between(walk.text, walk.end) < len(walk.text):
        return data
    return (walk.text[: walk.end] + "]").encode()


def _drop_comma(data: bytes) -> bytes:
    walk = _walk(data)
    comma = re.compile(r"\s*,\s*(?=\])").match(walk.text, walk.end)
    if comma is None or not walk.events:
        return data
    return (walk.text[: walk.end] + walk.text[comma.end() :]).encode()


def fault(data: bytes, error: Exception) -> str:
    """Say where a text stops being JSON, and what to do; `error` is what its decoder says."""
    text = data.decode("utf-8", "replace")
    if isinstance(error, RecursionError):
        return "is nested too deep to be read as a trace. Record it again."
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(text, _between(text, 0))
    except (ValueError, RecursionError):
        pass
    else:
        if behind := text[end:].strip():
            return (
                f"goes on after the JSON in it has ended, at character {end}, with "
                f"{shown(behind, 40)}. Give one trace without anything behind it."
            )
    walk = _walk(data)
    told = f"after {walk.events} whole event{'s' * (walk.events != 1)}"
    if _is_cut(walk):
        return (
            f"is cut short: it ends {told}, at byte {len(data)}. The writing or copying of it was "
            "probably not finished: write or copy it again."
        )
    return f"is no valid JSON: {error}, {told}. Write it again, with torch.profiler or tprofile."


def _is_cut(walk: _Walk) -> bool:
    """Tell whether a text ends before what it opened is closed."""
    if not walk.text.rstrip().endswith("]" if walk.bare else "}"):
        return True
    behind = walk.text[walk.end :]
    if len(behind) > _LOOKED_AT:
        return False
    depth = walk.began + (not walk.bare and walk.began)
    for token in _TOKEN.finditer(behind):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        if depth == 0:
            return False
    return True
