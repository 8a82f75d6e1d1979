"""From a path or bytes to the text of a trace, or to an error that says what was found."""

from __future__ import annotations

import codecs
import json
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import TprofileError

_GZIP = b"\x1f\x8b"
_PIECE = 1 << 20
"""Bytes taken at a time, so that a large file is never held in one more copy."""

_PACKED = {
    _GZIP: ("gzip", "gunzip"),
    b"PK\x03\x04": ("zip", "unzip"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -d"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ\x00": ("xz", "unxz"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -d"),
    b"7z\xbc\xaf\x27\x1c": ("7-Zip", "7z x"),
}
_BINARY = frozenset(range(32)) - frozenset(b"\t\n\r\f\x1b")

WRITTEN_BY = (
    "A trace is JSON with a list 'traceEvents' of events, as torch.profiler's export_chrome_trace "
    "and tprofile's export_trace write it."
)


@dataclass
class Source:
    """The text of a trace."""

    what: str
    """What errors call it."""
    text: bytes
    """JSON in UTF-8, as far as its first byte tells."""
    notes: list[str] = field(default_factory=list)
    """What had to be left out or repaired."""


def unpack(source: str | os.PathLike[str] | bytes) -> Source:
    """Return what is in a file or its bytes, unpacked; raise TprofileError for what is no JSON."""
    if isinstance(source, bytes):
        found = Source("what these bytes hold", source)
    else:
        path = Path(os.fsdecode(source))
        found = Source(shown(str(path)), _bytes(path))
    if found.text.startswith(_GZIP):
        _gunzip(found)
    encoding = json.detect_encoding(found.text[:4])
    if encoding.startswith(("utf-16", "utf-32")) and _opens(
        found.text[:64].decode(encoding, "replace")
    ):
        # Codecs take a lone surrogate for an error or for a character, each as it likes.
        found.text = found.text.decode(encoding, "replace").encode("utf-8", "replace")
    found.text = found.text.removeprefix(codecs.BOM_UTF8)
    if not _opens(found.text[:64].decode("latin-1")):
        raise TprofileError(f"{found.what} {_no_json(found.text)}")
    if not _is_utf8(found.text):
        found.text = found.text.decode("utf-8", "replace").encode()
        found.notes.append("the file was not valid JSON; unescaped text in it was repaired")
    return found


def shown(text: str, most: int = 300) -> str:
    """Return text of unknown origin as a literal of bounded length."""
    return repr(text if len(text) <= most else f"{text[:most]}…")


def _bytes(path: Path) -> bytes:
    try:
        path = path.expanduser()
        if path.is_dir():
            raise _folder(path)
        return path.read_bytes()
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if '"ph"' in str(path) or '"traceEvents"' in str(path):
            reason += "; it is no path, but looks like the text of a trace: give that as bytes"
        raise TprofileError(
            f"cannot read the trace {shown(str(path))}: {reason}. "
            "Give the path of a .json or .json.gz file that torch.profiler or tprofile wrote."
        ) from error


def _folder(path: Path) -> TprofileError:
    names = sorted(p.name for p in path.iterdir() if p.name.endswith((".json", ".json.gz")))
    if not names:
        advice = "there is no .json or .json.gz file in it. Give the path of a trace"
    elif len(names) == 1:
        advice = f"there is one .json or .json.gz file in it, {shown(names[0])}: give its path"
    else:
        advice = (
            f"there are {len(names)} .json or .json.gz files in it, the first of them "
            f"{shown(names[0])}. Give the path of one of them"
        )
    return TprofileError(f"{shown(str(path))} is a folder, and {advice}.")


def _gunzip(source: Source) -> None:
    """Unpack all members of a gzip file, which is what `cat a.gz b.gz` makes."""
    packed, pieces, at = memoryview(source.text), [], 0
    while packed[at : at + 2] == _GZIP:
        member = zlib.decompressobj(31)
        while not member.eof and at < len(packed):
            piece = packed[at : at + _PIECE]
            try:
                pieces.append(member.decompress(piece))
            except zlib.error as error:
                raise _no_gzip(source.what, f"it is damaged ({error})") from error
            at += len(piece)
        if not member.eof:
            size = sum(map(len, pieces))
            raise _no_gzip(source.what, f"it is cut short, after {size} bytes of what was packed")
        at -= len(member.unused_data)
    source.text = b"".join(pieces)
    # Some tapes and copies fill up with zeros, which say nothing.
    if behind := bytes(packed[at:]).strip(b"\0"):
        source.notes.append(f"{len(behind)} bytes behind the end of the gzip file were left out")


def _no_gzip(what: str, fault: str) -> TprofileError:
    return TprofileError(
        f"{what} is a gzip file that cannot be unpacked: {fault}. The writing or copying of it was "
        "probably not finished: write or copy it again."
    )


def _opens(text: str) -> bool:
    """Tell whether JSON of the kind that a trace is could begin so."""
    return text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[")


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(text)
    try:
        for at in range(0, len(text), _PIECE):
            decoder.decode(view[at : at + _PIECE])
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True


def _no_json(data: bytes) -> str:
    """Say what data is that is no object and no list, and what to do."""
    head = data[:4096]
    if not head.strip():
        return "is empty: no trace was written to it. Record it again."
    if head.startswith(b"PK\x03\x04") and b"data.pkl" in head:
        return f"is no trace: it is what torch.save writes. {WRITTEN_BY}"
    for magic, (name, command) in _PACKED.items():
        if head.startswith(magic):
            return f"is packed with {name}. Unpack it ({command}), or pack it with gzip."
    if head.startswith(b"SQLite format 3\0"):
        return f"is no trace: it is an SQLite database, such as Nsight exports. {WRITTEN_BY}"
    if head[:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5"):
        return (
            "is no trace: it is a Python pickle, such as torch.save and the memory snapshots of "
            f"torch.cuda.memory write. {WRITTEN_BY}"
        )
    if head.lstrip()[:1] == b"<":
        return (
            f"is no trace: it is HTML or XML that begins with {_beginning(head)}, perhaps the page "
            "of a login or an error, downloaded in its place. Download the trace itself."
        )
    if _BINARY & frozenset(head):
        return (
            f"is no trace: it is binary data that begins with {head[:16]!r}. Nsight's reports and "
            f"Perfetto's own format cannot be read. {WRITTEN_BY}"
        )
    return f"is no trace: it is text that begins with {_beginning(head)}. {WRITTEN_BY}"


def _beginning(head: bytes) -> str:
    return shown(head.decode("utf-8", "replace").strip(), 40)
