from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from tprofile.changes import Watch


def note(namespace: dict[str, Any], change: Any, names: str | None = None) -> str | None:
    watch = Watch(namespace, (names or " ".join(namespace)).split())
    change()
    return watch.note(namespace)


def test_tensors_changed_in_place_are_named_and_counted() -> None:
    ns = {"x": torch.ones(2), "y": torch.ones(2), "z": torch.ones(2)}

    def change() -> None:
        ns["x"] += 1
        ns["x"].mul_(2)
        ns["z"].zero_()
        ns["y"] + 1

    said = note(ns, change)
    assert said is not None
    assert "x (tensor, 2 changes), z (tensor, 1 change)." in said
    assert "y" not in said.split(". ")[0].replace("every", "")
    assert "--once" in said
    assert "--each" in said


def test_a_trained_module_is_named() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ns = {"model": model, "optimizer": optimizer}

    def change() -> None:
        model(torch.ones(3, 2)).sum().backward()
        optimizer.step()

    said = note(ns, change)
    assert said is not None
    # Four parameters by the optimizer, and the normalisation's count of batches.
    assert "model (module, 5 changes)" in said


def test_what_is_replaced_or_uncounted_is_not_changed_in_place() -> None:
    # GIVEN a module that makes its cache in inference mode, and one that gets a fresh parameter
    cached, fresh = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    with torch.no_grad():
        fresh.weight.add_(1).add_(1)
    ns = {"cached": cached, "fresh": fresh}

    def change() -> None:
        with torch.inference_mode():
            cached.register_buffer("cache", torch.ones(4))
        fresh.weight = torch.nn.Parameter(torch.ones(2, 2))

    assert note(ns, change) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda ns: None,
        lambda ns: ns["x"] + 1,
        lambda ns: ns.update(x=torch.ones(2).add_(1)),
        lambda ns: ns.pop("x"),
        lambda ns: ns["other"].add_(1),
        lambda ns: ns.update(new=torch.ones(2).add_(1)),
        lambda ns: ns["inference"].add_(1) if torch.is_inference_mode_enabled() else None,
    ],
)
def test_no_note(change: Any) -> None:
    with torch.inference_mode():
        inference = torch.ones(2)
    ns = {"x": torch.ones(2), "n": 1, "other": torch.ones(2), "inference": inference}
    assert note(ns, lambda: change(ns), "x n new inference missing") is None


def test_hostile_objects_are_left_alone() -> None:
    class Hostile:
        __slots__ = ()  # and so no weak references

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    class Module(torch.nn.Module):
        def parameters(self, recurse: bool = True) -> Any:
            raise AttributeError("not initialised")

    ns = {"a": Hostile(), "b": torch.nn.Module.__new__(torch.nn.Module), "c": Module()}
    assert note(ns, lambda: None) is None


def test_nothing_is_kept_alive() -> None:
    ns = {"x": torch.ones(2)}
    watch = Watch(ns, ["x"])
    dead = weakref.ref(ns.pop("x"))
    gc.collect()
    assert dead() is None
    assert watch.note(ns) is None
