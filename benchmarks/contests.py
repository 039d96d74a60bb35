"""Single calls and batches of one function in several libraries, timed against each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

import kinetree as kt
from benchmarks import robots
from benchmarks.peers import FUNCTIONS, Peer, kinetree_arguments, looped
from benchmarks.timing import race

BATCH = 1024
#: Peers' batches are also timed in pieces that fit a timing block, and the better time counts.
PIECE = 32
POOL = 256


def _states(robot: robots.Robot, peer: Peer | None, count: int, letters: str) -> tuple[Any, ...]:
    """Random states in the coordinates of a peer, or of Kinetree."""
    q, v, a = robots.state_pool(robot.model, count)
    if peer is not None:
        q, v, a = peer.q(q), peer.v(v), peer.v(a)
    return tuple({"q": q, "v": v, "a": a}[letter] for letter in letters)


def single(
    robot: robots.Robot, peers: list[Peer], function: str, seconds: float, models: Mapping[str, kt.Model] | None = None
) -> dict[str, float]:
    """Least time of one call of each library [s].

    Args:
        robot: The robot in all libraries.
        peers: The others.
        function: What to compute.
        seconds: Time spent on each contender.
        models: Models that compete for Kinetree, by name.
    """
    letters, rest = FUNCTIONS[function], kinetree_arguments(robot, function)
    method = getattr(robot.model, function)
    own = [(*map(np.array, sample), *rest) for sample in zip(*_states(robot, None, POOL, letters))]
    entered = models or {"Kinetree": robot.model}
    contenders: dict[str, Any] = {name: (getattr(model, function), own) for name, model in entered.items()}
    for peer in peers:
        samples = [tuple(map(np.array, sample)) for sample in zip(*_states(robot, peer, POOL, letters))]
        for way, call in peer.ways[function].items():
            _compare(robot, peer, function, method(*own[0]), call(*samples[0]))
            contenders[f"{peer.name}/{way}"] = (call, samples)
        if function in peer.bare:
            contenders[f"{peer.name} bare"] = (peer.bare[function], samples)
    return _fastest(race(contenders, seconds))


def batch(
    robot: robots.Robot, peers: list[Peer], function: str, seconds: float, models: Mapping[str, kt.Model] | None = None
) -> dict[str, float]:
    """Least time per sample of a batch of each library [s], as `single`. All fill an array that exists already."""
    letters, rest = FUNCTIONS[function], kinetree_arguments(robot, function)
    states = _states(robot, None, BATCH, letters)
    method = getattr(robot.model, function)
    home = method(*states, *rest)
    contenders: dict[str, Any] = {}
    for name, model in (models or {"Kinetree": robot.model}).items():
        contenders[name] = partial(getattr(model, function), out=np.empty_like(home)), [(*states, *rest)]
    sizes = dict.fromkeys(contenders, BATCH)
    for peer in peers:
        arrays = _states(robot, peer, BATCH, letters)
        theirs = np.empty_like(home)
        pieces = [tuple(array[i : i + PIECE] for array in (theirs, *arrays)) for i in range(0, BATCH, PIECE)]
        for way, call in peer.ways[function].items():
            contenders[f"{peer.name}/{way}"], sizes[f"{peer.name}/{way}"] = (looped(call), pieces), PIECE
        if function in peer.batched:
            # Its batches are columns, in Fortran order.
            whole = tuple(np.asfortranarray(array.T) for array in (theirs, *arrays))
            parts = [tuple(np.asfortranarray(array.T) for array in piece) for piece in pieces]
            contenders[f"{peer.name}/whole"] = (peer.batched[function], [whole])
            contenders[f"{peer.name}/pieces"] = (peer.batched[function], parts)
            sizes |= {f"{peer.name}/whole": BATCH, f"{peer.name}/pieces": PIECE}
    return _fastest({name: time / sizes[name] for name, time in race(contenders, seconds).items()})


def _fastest(times: dict[str, float]) -> dict[str, float]:
    """The best of each library's ways."""
    best: dict[str, float] = {}
    for name, time in times.items():
        library = name.split("/")[0]
        best[library] = min(time, best.get(library, time))
    return best


def _compare(robot: robots.Robot, peer: Peer, function: str, ours: Any, theirs: Any) -> None:
    """Refuse to time a peer that computes something else, where the coordinates allow a comparison."""
    if peer.name == "Pinocchio":
        if function == "jacobian":
            theirs = robot.order.from_jacobian(theirs)
        elif function.startswith("mass"):
            theirs = robot.order.from_matrix(theirs)
        elif function != "pose":
            theirs = robot.order.from_v(theirs)
    elif any(joint.kind == "floating" for joint in robot.model.joints) or function == "jacobian":
        return
    if not np.allclose(ours, theirs, rtol=1e-6, atol=1e-6 * float(np.max(np.abs(theirs)))):
        raise ValueError(f"{robot.name}: {function} of {peer.name} differs from Kinetree's")
