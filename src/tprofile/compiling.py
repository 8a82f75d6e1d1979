"""A cell as it is, and with torch.compile: both recorded, and their results checked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from .changes import Watch
from .compiled import (
    Compiler,
    Variant,
    compared,
    graphs,
    random_state,
    set_random,
    standing_in,
    tensors,
    was_drawn,
)
from .pairing import Outcome, record_pair
from .session import Around, Noted, Plan, Session
from .trace.recorded import Compiled, Results

NAMES = ("eager", "compiled")
"""What the two are called."""


def record_compiled(
    run: Callable[[], object],
    plan: Plan,
    forms: Sequence[Variant],
    namespace: MutableMapping[str, Any],
    *,
    results: Callable[[], Mapping[str, Any]],
    changing: Sequence[str] = (),
    before: Callable[[], object] | None = None,
    around: Around,
    stage: Callable[[str], None] = lambda text: None,
    noted: Noted | None = None,
    file_name: Callable[[str], str | None] = lambda filename: filename,
) -> tuple[Outcome, Outcome]:
    """Record `run` with plain forms of the names in a namespace, and with compiled ones.

    `results` returns what a run has left, by name; `changing` are names of what it may change in
    place. The other arguments are those of `session.record`. What the names stand for afterwards is
    what they stood for before.
    """
    early, late = Compiler(file_name), Compiler(file_name)
    checked: list[Results] = []
    made = 0
    heard = early
    warm: int | None = None

    def as_variant(compiled: bool) -> Around:
        @contextlib.contextmanager
        def variant(last: bool) -> Iterator[None]:
            nonlocal made
            listening = heard.heard() if compiled else contextlib.nullcontext()
            with around(last and not compiled), standing_in(namespace, forms, compiled), listening:
                begun = graphs() if compiled else 0
                try:
                    yield
                finally:
                    made += graphs() - begun if compiled else 0

        return variant

    def check(plain: Session, other: Callable[[], bool]) -> None:
        nonlocal warm
        look(plain, other)
        warm = len(early.recompiles)

    def look(plain: Session, other: Callable[[], bool]) -> None:
        if taken := _iterators(namespace, changing):
            told = ", ".join(taken)
            reason = f"the cell may take its inputs from {told}, and so others in each run"
            checked.append(Results(unchecked=reason))
            return
        watch = Watch(namespace, () if before is not None else changing)
        state = random_state()
        plain.check()
        left, after = tensors(results()), random_state()
        if changed := watch.changed(namespace):
            told = ", ".join(changed)
            checked.append(Results(unchecked=f"the cell changes {told} in place"))
            return
        # What it changes out of sight, or draws from elsewhere, shows in a second run of the same.
        kept = Watch(left, left)
        set_random(state)
        plain.check()
        again = tensors(results())
        set_random(state)
        if not other():
            return
        if changed := kept.changed(left):
            told = ", ".join(changed)
            checked.append(Results(unchecked=f"each run writes over {told} of the one before"))
            return
        checked.append(compared(left, again, tensors(results()), was_drawn(state, after)))

    sessions = [
        Session(run, plan, before, as_variant(compiled), stage, noted, file_name)
        for compiled in (False, True)
    ]
    for session, called in zip(sessions, NAMES, strict=True):
        session.called = called

    def profile() -> None:
        nonlocal heard
        heard = late

    plain, other = record_pair(sessions[0], sessions[1], plan, check, profile)
    told = Compiled(
        names=[one.name for one in forms],
        already=[one.name for one in forms if one.already],
        graphs=made,
        breaks=early.breaks,
        recompiles=early.recompiles,
        timed_recompiles=0 if warm is None else len(early.recompiles) - warm,
        late_recompiles=late.recompiles,
        given_up=list(dict.fromkeys([*early.given_up, *late.given_up])),
        results=checked[0] if checked else None,
    )
    return (
        Outcome(plain.trace.with_recorded(label=NAMES[0]), plain.error),
        Outcome(other.trace.with_recorded(label=NAMES[1], compiled=told), other.error),
    )


def _iterators(namespace: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return the names of what gives something else each time."""
    return [name for name in sorted(names) if isinstance(namespace.get(name), Iterator)]
