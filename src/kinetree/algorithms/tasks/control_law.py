"""Operational-space control as one recursion: τ = ID(q, v, a₀) + Jᵀf with Λ⁻¹f = b − J̇v − J a₀. Cost O(n + r³).

    pass      loop             leaves
    posture   scatter          a₀ = kp (q_ref ⊖ q) − kd v, in `control_step`
    inertia   any method       Λ⁻¹, and from it −Λ by sweeps
    motion    scatter          velocity, acceleration and force of each node for joint accelerations a₀
    rows      frames           r = b − (J a₀ + J̇v): residual of the rows
    solve     rows             f = Λ r
    force     frames, gather   τ from the inertial forces and from f at the frames
    answer    scatter          a = a₀ + M⁻¹Jᵀf, where asked for: with the factors of M from the first pass

with

    b = ẍ_d + kd (ẋ_d − J v) + kp e                                                              (1)

where e is an error of `kernels.poses`. This is Khatib's τ = Jᵀ(Λ b + μ + p) + Nᵀ(M a₀ + C + g) [K87] without forming N,
J̄ or M; by Gauss's principle it is the motion closest to a₀, in the metric of M, that realises b. No Jacobian is
formed: J a₀ + J̇v is the acceleration of the frame.

`control_law` takes a₀ as it is, `control_step` takes a posture, and `task_residual` is the residual b − J̇v alone, for
controllers that share it among levels or limits. All rows are in world axes. Inputs and outputs:

    a0          joint accelerations to which the motion stays as close as possible, (nv,)
    posture     q_ref, a configuration
    stiffness   kp and kd of each degree of freedom, (nv, 2)
    target      target poses of the frames, (m, 4, 4); for relative tasks, that of the far frame relative to the near
                one; for the centre of mass, its position
    feed        ẋ_d and ẍ_d of each row, (r, 2)
    gains       kp and kd of each row, (r, 2)
    reach       how far the mechanism moves each row, (r,): see `inversion`
    cut         eigenvalue below which directions of a row's level count as singular, (r,)
    tau         joint forces, (nv,)
    force       f, (r,)
    residual    of the rows, (r,)
    spread      of Λ⁻¹: see `kernels.solve`
    fault       sum of squares of what should be zero of the targets, if they are poses
    a           joint accelerations, (nv,)

A level is a set of rows with a common cut, placed before all rows of lower priority. Its eigenvalues, after elimination
of the levels above, are those of the inverse of a block of Λ. So they are above the cut wherever `spread` is less than
one, and 1/√spread is a lower bound on their ratio.

[K87] O. Khatib, "A unified approach for motion and force control of robot manipulators", IEEE Journal of Robotics and
      Automation 3, 1987.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from kinetree.algorithms.methods import recursion_of, takes_any_node
from kinetree.algorithms.tasks import inversion, task_space
from kinetree.algorithms.tasks.task_motion import add_faults, motion, rows_of_motion
from kinetree.algorithms.tasks.task_space import TaskKinds
from kinetree.kernels.language import task_rows
from kinetree.kernels.poses import ERRORS
from kinetree.kernels.solve import add_spread, apply_inverse, invert
from kinetree.language.algorithm import Algorithm, Argument, algorithm
from kinetree.language.roles import FrameRole, RowRole
from kinetree.language.tree import Indexed, Tree, Zeros
from kinetree.spatial.motion import Force, Motion

_AXES = "local_world_aligned"
_GOALS: dict[str, Any] = {"target": ("frames", 4, 4), "feed": ("rows", 2), "gains": ("rows", 2)}
_LAW: dict[str, Any] = {
    "q": ("q",), "v": ("v",), "a0": ("v",), **_GOALS, "reach": ("rows",), "cut": ("rows",), "force": ("rows",),
    "spread": (),
}  # fmt: skip
_RESULTS = ("tau", "force", "residual", "spread")


def _law(method: str, parts: TaskKinds, error: str, moving: bool) -> Callable[..., None]:
    """The law with a method for Λ⁻¹ and an error between poses; if moving, `_answer` may follow. τ may be None."""
    inverse_inertia = recursion_of(method, _AXES, parts)

    def control_law(
        tree: Tree, q: Indexed, v: Indexed, a0: Indexed, target: Indexed, feed: Indexed, gains: Indexed,
        reach: Indexed, cut: Indexed, tau: Indexed | None, force: Indexed, residual: Indexed | None, spread: Indexed,
    ) -> None:  # fmt: skip
        B, weight = tree.array("rows", "rows"), tree.array("rows")
        lacking, along, tips = tree.array("rows"), tree.array("rows"), tree.array("sorted_rows")
        if parts.relative:
            inversion.clear(tree, B)
        inverse_inertia(tree, q, B)
        inversion.weigh(tree, B, reach, weight)
        for row in tree.task_rows():
            weight[row] = weight[row] * cut[row]
        invert(task_rows(tree), B)
        add_spread(task_rows(tree), B, weight, spread)

        motion(tree, v, a0)
        task_space.rows(tree, _AXES, tips, parts)

        def lack(frame: FrameRole, error: Any, velocity: Any, rate: Any) -> None:
            for row in frame.rows():
                lacking[row] = found = _residual_of(row, feed, gains, error, velocity, rate)
                if residual is not None:
                    residual[row] = found

        rows_of_motion(tree, parts, target, lack, ERRORS[error])

        apply_inverse(task_rows(tree), B, lacking, along)
        for one in tree.task_rows():
            force[one] = along[one]

        if moving:
            tree.world.pull = Force.zero()
            for k, _ in tree.scatter():
                k.pull = k.none
        for frame, carrier in tree.frames():
            total = Force.zero()
            for row in frame.rows():
                total = total + Force(tips[row].data * along[row])
            carrier.push += total
            if moving:
                carrier.pull += total
        if parts.mass:
            _lift(tree, along, moving)
        for k, parent in tree.gather():
            if tau is not None:
                tau[k] = k.H.T @ k.push + k.armature * a0[k] + k.resistance(q[k], v[k])
                parent.push += k.X.T @ k.push
            if moving:
                k.share = k.subspace.T @ k.pull
                parent.pull += k.X.T @ k.G.past(k.pull, k.share)

    return control_law


def keeps_factors(method: str) -> bool:
    """Whether a method for Λ⁻¹ leaves the factors of the mass matrix that accelerations need."""
    return method not in ("definition", "sparse_factorization")


def _answer(tree: Tree, a0: Indexed, a: Indexed) -> None:
    """a = a₀ + M⁻¹Jᵀf: the way out of forward dynamics at rest, whose way in the law is."""
    tree.world.gained = Motion.zero()
    for k, parent in tree.scatter():
        onward = k.X @ parent.gained
        own = k.D.solve(k.share) - k.G.T @ onward
        a[k] = a0[k] + k.in_joint(own)
        k.gained = onward + k.subspace @ own


def _residual_of(row: RowRole, feed: Indexed, gains: Indexed, error: Any, velocity: Any, rate: Any) -> Any:
    """b − (J a₀ + J̇v) of a row of a task, with b from (1)."""
    c, (wanted_v, wanted_a), (kp, kd) = row.component, feed[row], gains[row]
    return wanted_a + kp * error[c] + kd * (wanted_v - velocity[c]) - rate[c]


def _lift(tree: Tree, along: Indexed, moving: bool) -> None:
    """Apply the forces on the centre of mass: each node takes its share, as under a common acceleration."""
    tree.world.lifted = Motion.zero()
    share = 1.0 / tree.world.heavy[0]  # from `rows_of_motion`
    for center, world in tree.frames("mass"):
        world.lifted += Motion(sum(row.unit().data * (along[row] * share) for row in center.rows()))
    for k, parent in tree.scatter():
        k.lifted = k.X @ parent.lifted
        k.push = k.push + k.M @ k.lifted
        if moving:
            k.pull = k.pull + k.M @ k.lifted


@cache
def control_law(method: str, parts: TaskKinds) -> Algorithm:
    """Accelerations a, f and spread for given a₀, with Luh's error and a method for Λ⁻¹ that `keeps_factors`."""
    law = _law(method, parts, "sine", True)

    def control_law(
        tree: Tree, q: Indexed, v: Indexed, a0: Indexed, target: Indexed, feed: Indexed, gains: Indexed,
        reach: Indexed, cut: Indexed, a: Indexed, force: Indexed, spread: Indexed,
    ) -> None:  # fmt: skip
        law(tree, q, v, a0, target, feed, gains, reach, cut, None, force, None, spread)
        _answer(tree, a0, a)

    declare = algorithm(
        **_LAW, a=("v",), outputs=("a", "force", "spread"), sparse=("spread",), rigid=not takes_any_node(method)
    )
    return replace(declare(control_law), name=f"control_law_{method}{parts.suffix}")


@cache
def control_step(method: str, parts: TaskKinds, error: str = "sine", *, moving: bool = False) -> Algorithm:
    """The law with a posture, an error of `ERRORS` and a check of the targets; a₀ and `fault` are results, too.

    If moving, so are the accelerations a, for methods that `keeps_factors`.
    """
    law = _law(method, parts, error, moving)

    def control_step(
        tree: Tree, q: Indexed, v: Indexed, posture: Indexed, stiffness: Indexed, target: Indexed, feed: Indexed,
        gains: Indexed, reach: Indexed, cut: Indexed, tau: Indexed, force: Indexed, residual: Indexed, spread: Indexed,
        a0: Indexed, fault: Indexed,
    ) -> None:  # fmt: skip
        for k, _ in tree.scatter():
            kp, kd = stiffness[k][:, 0], stiffness[k][:, 1]
            a0[k] = kp * k.manifold.difference(q[k], posture[k]) - kd * v[k]
        law(tree, q, v, a0, target, feed, gains, reach, cut, tau, force, residual, spread)
        add_faults(tree, target, fault)

    declare = algorithm(
        **_LAW, posture=("q",), stiffness=("v", 2), tau=("v",), residual=("rows",), fault=(),
        outputs=(*_RESULTS, "a0", "fault"), sparse=("spread", "a0", "fault"), rigid=not takes_any_node(method),
    )  # fmt: skip
    made = replace(declare(control_step), name=f"control_step_{method}_{error}{parts.suffix}{'_moving' * moving}")
    if not moving:
        return made

    def moving_step(tree: Tree, *arguments: Indexed) -> None:
        *known, a0, fault, a = arguments
        made.run(tree, *known, a0, fault)
        _answer(tree, a0, a)

    return replace(made, run=moving_step, outputs=(*made.outputs, Argument("a", ("v",))))


@cache
def task_residual(parts: TaskKinds, error: str = "sine") -> Algorithm:
    """b − J̇v of all rows, and `fault`, with an error of `ERRORS`."""

    def task_residual(
        tree: Tree, q: Indexed, v: Indexed, target: Indexed, feed: Indexed, gains: Indexed,
        residual: Indexed, fault: Indexed,
    ) -> None:  # fmt: skip
        task_space.place(tree, q)
        motion(tree, v, Zeros())

        def lack(frame: FrameRole, error: Any, velocity: Any, rate: Any) -> None:
            for row in frame.rows():
                residual[row] = _residual_of(row, feed, gains, error, velocity, rate)

        rows_of_motion(tree, parts, target, lack, ERRORS[error])
        add_faults(tree, target, fault)

    declare = algorithm(
        q=("q",), v=("v",), **_GOALS, residual=("rows",), fault=(), outputs=("residual", "fault"), sparse=("fault",)
    )
    return replace(declare(task_residual), name=f"task_residual_{error}{parts.suffix}")
