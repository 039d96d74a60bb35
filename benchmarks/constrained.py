"""Speed of derivatives under constraints: against Pinocchio's matrices, and of steps with projections.

Part of `make bench`; alone: `python -m benchmarks.constrained`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pinocchio as pin
from rich.console import Console

import kinetree as kt
from benchmarks import robots
from benchmarks.table import Table
from benchmarks.timing import pin_to_one_core, race
from kinetree.runtime.threads import set_threads

BATCH, PIECE, POOL = 256, 16, 64
#: Frames that are held, by robot, with all six rows or with their positions.
FEET: dict[str, tuple[list[str], bool]] = {
    "Talos": (["left_sole_link BODY", "right_sole_link BODY"], True),
    "ANYmal": (["LF_FOOT BODY", "LH_FOOT BODY", "RF_FOOT BODY", "RH_FOOT BODY"], False),
}


def table(seconds: float) -> Table:
    """Accelerations under constraints, their derivatives, and those of steps: a single call, and a sample of a batch.

    Args:
        seconds: How long to go on for each contender.
    """
    made = Table(
        f"derivatives under constraints; times in µs, × against the peer, batch of {BATCH}",
        ["robot", "function", "single", "Pinocchio", "batch", "Pinocchio"],
    )
    for name, (frames, whole) in FEET.items():
        of = _Standing(name, frames, whole)
        of.check()
        for function in of.calls:
            one, many = of.single(function, seconds), of.batch(function, seconds)
            cells = []
            for times in (one, many):
                cells += [f"{times['Kinetree'] * 1e6:.3g}", _ratio(times)]
            made.add(f"{name}, {of.held.rows} rows", function, *cells)
    return made


def _ratio(times: dict[str, float]) -> str:
    return f"{times['Pinocchio'] / times['Kinetree']:.2f}×" if "Pinocchio" in times else ""


class _Standing:
    """A robot on its feet, in both libraries."""

    def __init__(self, name: str, frames: list[str], whole: bool) -> None:
        self.robot = robots.load(name)
        model, rng = self.robot.model, np.random.default_rng(0)
        at = model.integrate(model.neutral(), 0.3 * rng.uniform(-1.0, 1.0, model.nv))
        constraints = [kt.Weld(frame, rows="all" if whole else "position") for frame in frames]
        self.held = model.constraints(constraints, at=at)
        self.sim = kt.simulation.Simulator(model, constraints=constraints, at=at)
        q = model.integrate(at, 0.1 * rng.uniform(-1.0, 1.0, (BATCH, model.nv)))
        v, tau, self.w, self.u = rng.normal(size=(4, BATCH, model.nv))
        self.state = q, self.held.project_velocity(q, v), tau

        other, numbers = self.robot.pinocchio, dict(self.robot.frames)
        kind = pin.ContactType.CONTACT_6D if whole else pin.ContactType.CONTACT_3D
        self._models, self._datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        for frame in frames:
            of = other.frames[numbers[frame]]
            self._models.append(
                pin.RigidConstraintModel(kind, other, of.parentJoint, of.placement, pin.ReferenceFrame.LOCAL)
            )
            self._datas.append(self._models[-1].createData())
        self._data, self._settings = other.createData(), pin.ProximalSettings(1e-12, 0.0, 1)
        pin.initConstraintDynamics(other, self._data, self._models, self._datas)
        order = self.robot.order
        self._theirs = tuple(map(np.ascontiguousarray, (order.to_q(q), *map(order.to_v, self.state[1:]))))
        fd = self.held.forward_dynamics
        #: The function, and what it takes besides the state.
        self.calls: dict[str, tuple[Any, tuple[Any, ...]]] = {
            "dynamics": (fd, ()), "linearize": (self.held.linearize, ()), "jvp": (fd.jvp, (self.w,) * 3),
            "vjp": (fd.vjp, (self.w,)), "hvp": (fd.hvp, (self.u, self.w, self.w, self.w)),
            "step": (self.sim.step, ()), "discretize a step": (self.sim.discretize, ()),
            "vjp of a step": (self.sim.step.vjp, (self.w, self.u)),

        }  # fmt: skip

    def _solved(self, q: Any, v: Any, tau: Any, derivatives: bool) -> Any:
        model, data = self.robot.pinocchio, self._data
        found = pin.constraintDynamics(model, data, q, v, tau, self._models, self._datas, self._settings)
        if not derivatives:
            return (found,)
        pin.computeConstraintDynamicsDerivatives(model, data, self._models, self._datas, self._settings)
        return data.ddq_dq, data.ddq_dv, data.ddq_dtau, data.dlambda_dq, data.dlambda_dv, data.dlambda_dtau

    def check(self) -> None:
        """Both compute the same."""
        ours = self.held.linearize(*(x[0] for x in self.state))
        q, v, tau = (x[0] for x in self._theirs)
        for mine, other in zip(ours[:3], self._solved(q, v, tau, True)[:3]):
            expected = self.robot.order.from_matrix(np.array(other))
            if not np.allclose(mine, expected, rtol=1e-8, atol=1e-8 * float(np.max(np.abs(expected)))):
                raise ValueError(f"{self.robot.name}: derivatives under constraints differ from Pinocchio's")

    def _peer(self, function: str) -> Any:
        return (
            partial(self._solved, derivatives=function == "linearize")
            if function in ("dynamics", "linearize")
            else None
        )

    def single(self, function: str, seconds: float) -> dict[str, float]:
        """Least time of a call [s]."""
        call, more = self.calls[function]
        pool = [tuple(map(np.array, each)) for each in zip(*(x[:POOL] for x in (*self.state, *more)))]
        contenders: dict[str, Any] = {"Kinetree": (call, pool)}
        if self._peer(function):
            theirs = [tuple(map(np.array, each)) for each in zip(*(x[:POOL] for x in self._theirs))]
            contenders["Pinocchio"] = (self._peer(function), theirs)
        return race(contenders, seconds)

    def batch(self, function: str, seconds: float) -> dict[str, float]:
        """Least time per sample of a batch [s]; with `out` where there is one, as Pinocchio's loop fills arrays."""
        call, more = self.calls[function]
        given = (*self.state, *more)
        if function in ("dynamics", "linearize", "jvp", "vjp", "hvp"):
            call = partial(call, out=call(*given))
        contenders: dict[str, Any] = {"Kinetree": (call, [given])}
        sizes, peer = {"Kinetree": BATCH, "Pinocchio": PIECE}, self._peer(function)
        if peer:
            places = [np.empty((BATCH, *np.shape(x))) for x in peer(*(x[0] for x in self._theirs))]

            def loop(start: int, *arrays: Any) -> None:
                for i, sample in enumerate(zip(*arrays), start):
                    for place, result in zip(places, peer(*sample)):
                        place[i] = result

            pieces = [(i, *(x[i : i + PIECE] for x in self._theirs)) for i in range(0, BATCH, PIECE)]
            contenders["Pinocchio"] = (loop, pieces)
        return {name: time / sizes[name] for name, time in race(contenders, seconds).items()}


if __name__ == "__main__":
    set_threads(1)
    pin_to_one_core()
    Console(width=110).print(table(0.5).rich())
