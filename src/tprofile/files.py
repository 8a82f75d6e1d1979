"""Write a file whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .errors import TprofileError


@contextmanager
def whole_file(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a file that appears under `path` when the block ends, and only if it ends well.

    Raises TprofileError where it cannot be written, or exists and `overwrite` is off.
    """
    target = Path(path).expanduser()
    part = target.with_name(f".tprofile-{uuid.uuid4().hex}.part")
    try:
        if target.is_dir():
            raise TprofileError(f"{str(target)!r} is a folder. Give the name of a file to write.")
        if target.exists() and not overwrite:
            raise TprofileError(
                f"{str(target)!r} exists and overwrite is off. "
                "Give another name, or overwrite=True."
            )
        file = open(part, "wb")  # noqa: SIM115 (closed below, where its errors are told apart)
    except (OSError, ValueError) as error:
        raise _not_written(target, error) from error
    try:
        with file:
            yield file
        os.replace(part, target)
    except OSError as error:
        raise _not_written(target, error) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _not_written(target: Path, error: Exception) -> TprofileError:
    return TprofileError(
        f"cannot write {str(target)!r}: {getattr(error, 'strerror', None) or error}. "
        "Choose a folder that exists and that you may write to."
    )
