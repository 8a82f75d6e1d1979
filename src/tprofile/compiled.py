"""The torch.compile variant of what a cell calls, for as long as a run of it lasts."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
import random
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch

from .errors import TprofileError
from .trace.recorded import Break, Results

_OF_OTHERS = sys.stdlib_module_names | {"IPython", "ipykernel", "ipywidgets", "tprofile"}
"""Packages whose functions a notebook calls, and nobody wants compiled."""

_PLACE = re.compile(r"in user code at (.+):(\d+)$", re.MULTILINE)
_AGAIN = re.compile(r"Recompiling function (\S+)")
_GUARD = re.compile(r"^\d+/\d+: ")
_LIMIT = re.compile(r"hit config\.(\w+) \((\d+)\)\s+function: '(\S+)'")


@dataclass(frozen=True)
class Variant:
    """One name of the notebook: what it stands for in either kind of run."""

    name: str
    plain: Any
    compiled: Any
    already: bool
    """Whether it was compiled before."""


def variants(
    namespace: Mapping[str, Any],
    called: Iterable[str],
    chosen: Iterable[str] | None = None,
    **options: Any,
) -> list[Variant]:
    """Return plain and compiled forms of the functions and modules that a cell calls.

    `called` are the names that it calls, or whose attributes; `chosen` the only ones to be
    compiled, in their place. What is compiled already is taken apart. `options` are those of
    torch.compile. Raises TprofileError where nothing can be compiled, or a chosen name cannot.
    """
    found = []
    for name in dict.fromkeys(called if chosen is None else chosen):
        value = namespace.get(name)
        # Of a class, torch would change the methods, for good.
        if chosen is not None and (isinstance(value, type) or not callable(value)):
            what = "a class" if isinstance(value, type) else "nothing to call"
            what = what if name in namespace else "no name"
            raise TprofileError(
                f"{name!r} cannot be compiled: it is {what} in the notebook's namespace. Give "
                "names of functions or modules."
            )
        if chosen is not None or _compilable(value):
            found.append(_variant(name, value, options))
    if not found:
        raise TprofileError(
            "nothing here can be compiled: the cell calls no function and no module of the "
            "notebook. Put the code into a function, in another cell, and call it in this one."
        )
    return found


def _compilable(value: object) -> bool:
    if isinstance(value, torch.nn.Module):
        # A list of modules is none that can be called.
        return type(value).forward is not torch.nn.Module.forward or "forward" in vars(value)
    if isinstance(value, functools.partial):
        return isinstance(value.func, types.BuiltinFunctionType) or _compilable(value.func)
    if not isinstance(value, types.FunctionType | types.MethodType):
        return _original(value) is not None
    module = getattr(value, "__module__", None) or ""
    return module.partition(".")[0] not in _OF_OTHERS


def _original(value: Any) -> Any:
    """Return what was compiled, or None for what was not."""
    if isinstance(value, torch.nn.Module):
        return vars(value).get("_modules", {}).get("_orig_mod")
    return getattr(value, "_torchdynamo_orig_callable", None)


def _variant(name: str, value: Any, options: Mapping[str, Any]) -> Variant:
    original = _original(value)
    if original is not None:
        return Variant(name, original, value, already=True)
    try:
        return Variant(name, value, _compiled(value, options), already=False)
    except Exception as error:
        raise TprofileError(f"torch does not compile {name!r} so: {error}") from error


def _compiled(value: Any, options: Mapping[str, Any]) -> Any:
    if not isinstance(value, torch.nn.Module):
        return torch.compile(value, **options)
    before = set(vars(value))
    made = torch.compile(value, **options)
    # What torch marks its own wrapper with, that hands on to the module, where it would stay.
    for mark in vars(value).keys() - before:
        object.__setattr__(made, mark, vars(value).pop(mark))
    return made


@contextlib.contextmanager
def standing_in(
    namespace: MutableMapping[str, Any], forms: Iterable[Variant], compiled: bool
) -> Iterator[None]:
    """Let each name stand for its plain or compiled form until the end, however that comes.

    A name that the code itself binds to something else keeps that.
    """
    before = []
    try:
        for one in forms:
            # One that the code has deleted is missing in every later run of it.
            if one.name in namespace:
                put = one.compiled if compiled else one.plain
                before.append((one.name, namespace[one.name], put))
                namespace[one.name] = put
        yield
    finally:
        for name, value, put in before:
            if namespace.get(name) is put:
                namespace[name] = value


class Compiler:
    """Listens to what torch.compile says of graph breaks and of compiling again."""

    _LOGS = (".__graph_breaks", ".__recompiles")
    _LIMITS = "torch._dynamo.convert_frame"
    """Where torch warns that it will not compile something once more."""

    def __init__(self, file_name: Callable[[str], str | None] = lambda name: name) -> None:
        """`file_name` is what a user calls a file of code, None for the profiled cell."""
        self._file_name = file_name
        self.breaks: list[Break] = []
        self.recompiles: list[str] = []
        self.given_up: list[str] = []

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Listen until the end; what torch writes to the screen stays what it was."""
        import torch._dynamo

        handler = _Handler(self._hear)
        changed = []
        # Of these torch only makes the texts where its own switch is on.
        told: set[str] = getattr(torch._logging._internal.log_state, "artifact_names", set())
        on = "recompiles" in told
        try:
            told.add("recompiles")
            for name in list(logging.root.manager.loggerDict):
                if name == self._LIMITS:
                    log = logging.getLogger(name)
                    changed.append((log, log.level, log.propagate))
                    log.addHandler(handler)
                if name.startswith("torch.") and name.endswith(self._LOGS):
                    log = logging.getLogger(name)
                    changed.append((log, log.level, log.propagate))
                    if not log.isEnabledFor(logging.DEBUG):
                        log.setLevel(logging.DEBUG)
                        log.propagate = False
                    log.addHandler(handler)
            yield
        finally:
            if not on:
                told.discard("recompiles")
            for log, level, propagate in changed:
                log.removeHandler(handler)
                log.setLevel(level)
                log.propagate = propagate

    def _hear(self, log: str, text: str) -> None:
        if log == self._LIMITS:
            if limit := _LIMIT.search(text):
                self.given_up.append(f"{limit[3]} ({limit[1]} is {limit[2]})")
        elif log.endswith("__recompiles"):
            self.recompiles.append(_again(text))
        elif (told := self._broken(text)) not in self.breaks:
            self.breaks.append(told)

    def _broken(self, text: str) -> Break:
        place, reason = _PLACE.search(text), text.partition("Reason:")[2]
        lines = [line.strip() for line in (reason or text).splitlines()]
        # The first says where torch was, in words that are the same for all.
        said = next((line for line in lines if line and not line.endswith(":")), "not told")
        if place is None:
            return Break(said)
        return Break(said, self._file_name(place[1]), int(place[2]))


def _again(text: str) -> str:
    """Return which function was compiled again, and the newest of the reasons."""
    function = _AGAIN.search(text)
    reasons = [line.strip(" -") for line in text.splitlines() if line.lstrip().startswith("- ")]
    reason = _GUARD.sub("", reasons[0]) if reasons else "for a reason that torch does not tell"
    return f"{function[1]}: {reason}" if function else reason


class _Handler(logging.Handler):
    def __init__(self, hear: Callable[[str, str], None]) -> None:
        super().__init__(logging.DEBUG)
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):
            # Whatever torch says, it is not to stop its compiler.
            self._hear(record.name, record.getMessage())


def graphs() -> int:
    """Return how many graphs torch.compile has made in this process."""
    import torch._dynamo

    return int(torch._dynamo.utils.counters["stats"].get("unique_graphs", 0))


def random_state() -> Any:
    """Return the random state of Python and torch, the devices in use included."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    return (
        random.getstate(),
        torch.get_rng_state(),
        [(index, torch.cuda.get_rng_state(index)) for index in devices],
    )


def set_random(state: Any) -> None:
    """Go back to a random state that `random_state` returned."""
    python, torchs, devices = state
    random.setstate(python)
    torch.set_rng_state(torchs)
    for index, one in devices:
        torch.cuda.set_rng_state(one, index)


def was_drawn(before: Any, after: Any) -> bool:
    """Tell whether random numbers of torch were drawn between two states."""
    one, other = ([state[1], *(told for _, told in state[2])] for state in (before, after))
    return len(one) != len(other) or not all(map(torch.equal, one, other))


def tensors(named: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return every tensor in values and what they hold, by what a user would write for it.

    Of values that hold themselves, or fail when they are looked at, there is none.
    """
    found: dict[str, torch.Tensor] = {}
    for name, value in named.items():
        with contextlib.suppress(Exception):
            found |= _inside(name, value)
    return found


def _inside(name: str, value: Any) -> dict[str, torch.Tensor]:
    from torch.utils import _pytree

    found = {}
    for path, leaf in _pytree.tree_flatten_with_path(value)[0]:
        told = name + _pytree.keystr(path)
        if isinstance(leaf, torch.Tensor):
            found[told] = leaf
        elif dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            for one in dataclasses.fields(leaf):
                found |= _inside(f"{told}.{one.name}", getattr(leaf, one.name, None))
    return found


def compared(
    a: Mapping[str, torch.Tensor],
    again: Mapping[str, torch.Tensor],
    b: Mapping[str, torch.Tensor],
    drawn: bool,
) -> Results:
    """Return how results compare, tensors by name: of two runs of the plain form and a compiled.

    `drawn` says that random numbers were drawn: compiled code draws others.
    """
    found, repeated = _compared(a, b), _compared(a, again)
    if not found.tensors or found.unchecked is not None or not (found.unlike or found.absolute):
        return found
    if repeated.unlike or repeated.absolute:
        return found.but(
            unchecked="two runs of the cell as it is differ too, from the same random state "
            f"({_in_short(repeated)}), as compiled code does from them ({_in_short(found)})",
        )
    if drawn:
        reason = "the cell draws random numbers, and compiled code draws others"
        return found.but(unchecked=reason)
    return found


def _in_short(found: Results) -> str:
    if found.unlike:
        return found.unlike[0]
    if found.relative is None:
        return f"by at most {found.absolute:.2g} ({found.where})"
    return f"by at most {found.relative:.2g} of the largest element ({found.where})"


def _compared(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> Results:
    unlike = [f"{name} is in one of them only" for name in sorted(one.keys() ^ other.keys())]
    count, absolute, relative, where, unread = len(unlike), 0.0, 0.0, None, None
    for name in one:
        # What both have is no result of either.
        if name not in other or one[name] is other[name]:
            continue
        try:
            told = _difference(one[name].detach(), other[name].detach())
        except (RuntimeError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            unread = unread or f"{name} cannot be compared: {reason}"
            continue
        count += 1
        if isinstance(told, str):
            unlike.append(f"{name}: {told}")
            continue
        absolute = max(absolute, told[0])
        if where is None or told[1] > relative:
            relative, where = told[1], name
    if not count:
        why = unread or "the cell binds no tensor, and its last value is none"
        return Results(unchecked=why)
    # Over nothing but zeros, a difference is of no size.
    part = relative if math.isfinite(relative) else None
    found = Results(tensors=count, absolute=absolute, relative=part, where=where, unlike=unlike)
    if unread is None or unlike:
        return found
    others = "others are equal" if not absolute else f"others differ {_in_short(found)}"
    return found.but(unchecked=f"{unread}; the {others}")


def _difference(a: torch.Tensor, b: torch.Tensor) -> tuple[float, float] | str:
    """Return the largest difference, and that over the largest element; or what differs in kind."""
    if a.is_nested or b.is_nested:
        raise TypeError("it is nested")
    for what in ("shape", "dtype", "device", "layout"):
        one, other = (getattr(tensor, what) for tensor in (a, b))
        if one != other:
            told = (list(one), list(other)) if what == "shape" else (one, other)
            return f"{what} {told[0]} and {told[1]}"
    if a.layout != torch.strided:
        a, b = a.to_dense(), b.to_dense()
    if a.is_quantized:
        a, b = a.dequantize(), b.dequantize()
    if not a.numel():
        return 0.0, 0.0
    if not (a.is_floating_point() or a.is_complex()):
        # As they are: a float does not hold every whole number.
        n = int((a != b).sum())
        return f"{n} of {a.numel()} elements differ" if n else (0.0, 0.0)
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    odd = ~(torch.isfinite(a) & torch.isfinite(b))
    if odd.any():
        if not torch.equal(torch.nan_to_num(a[odd]), torch.nan_to_num(b[odd])) or not torch.equal(
            torch.isnan(a[odd]), torch.isnan(b[odd])
        ):
            return "NaN or infinite in other places"
        a, b = a[~odd], b[~odd]
        if not a.numel():
            return 0.0, 0.0
    largest, most = float((a - b).abs().max()), float(a.abs().max())
    if not math.isfinite(largest):
        return "elements lie further apart than numbers of float64 go"
    return largest, largest / most if most else (float("inf") if largest else 0.0)
