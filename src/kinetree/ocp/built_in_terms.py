"""Terms of states, inputs, frames, the centre of mass and momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.errors import InputError
from kinetree.kernels.node_costs import (
    mean_of_both,
    moved_on,
    pose_bend,
    pose_residual,
    pose_rows,
    position_bend,
    product,
)
from kinetree.kernels.node_models import difference
from kinetree.model.model import Model
from kinetree.ocp.terms import (
    BuiltIn,
    CostTerm,
    Part,
    Scope,
    curved_blocks,
    numbers_of_target,
    remade,
    shaped,
    texted,
)
from kinetree.runtime.function import compiled
from kinetree.spatial.value import Array

#: What RᵀR of a target may differ from 1 by.
_TURNED = 1e-5
#: Steps of central differences of gradients along tangents.
_STEP = 1e-5


@remade
def state(
    q: Any = None, v: Any = None, *, weight: Any = 1.0, last: Any = None, impact: Any = None, lower: Any = None,
    upper: Any = None, nodes: Any = None, name: str = "state", hard: bool = False,
) -> CostTerm:  # fmt: skip
    """Distance from a reference state: difference(q_ref, q) and v − v_ref, 2 nv rows.

    Args:
        q: Reference configuration, (nq,) or (…, T + 1, nq); neutral by default. `targets` of `solve` replace it.
        v: Reference velocities, (nv,) or (…, T + 1, nv); zero by default.
        weight: See `Term`; rows of configuration, then of velocity.
        last: See `Term`.
        impact: See `Term`.
        lower: See `Term`: with a reference of zeros, bounds on the state as a penalty.
        upper: See `lower`.
        nodes: See `Term`.
        name: See `Term`.
        hard: See `Term`.
    """
    speed = None if v is None else numbers_of_target(name, v)

    def aim(robot: Model, given: Any) -> Array:
        given = robot.neutral() if given is None else numbers_of_target(name, given)
        rate = np.zeros(robot.nv) if speed is None else speed
        if given.ndim == 0 or given.shape[-1] not in (robot.nq, robot.nq + robot.nv):
            raise InputError(
                f"the target of {name!r} has shape {given.shape}; it takes q (…, {robot.nq}), or q and v together "
                f"(…, {robot.nq + robot.nv})"
            )
        if given.shape[-1] == robot.nq + robot.nv and robot.nv:
            whole: Array = given
            return whole
        if rate.ndim == 0 or rate.shape[-1] != robot.nv:
            raise InputError(f"v of {name!r} has shape {rate.shape}, expected (…, {robot.nv})")
        try:
            lead = np.broadcast_shapes(given.shape[:-1], rate.shape[:-1])
        except ValueError:
            raise InputError(f"q {given.shape} and v {rate.shape} of {name!r} do not broadcast") from None
        both: Array = np.concatenate([np.broadcast_to(x, (*lead, x.shape[-1])) for x in (given, rate)], axis=-1)
        return both

    def make(scope: Scope) -> list[Part]:
        robot, nq, nv, found, start = scope.robot, scope.robot.nq, scope.robot.nv, list[Part](), 0
        # numbers are entries of the tangent, and joints that are not numbers have rows
        for first, size in [*curved_blocks(robot), (nv, 0)]:
            if first > start:
                found.append(_apart(scope, "q", slice(start, first)))
            if size:
                found.append(_apart(scope, "rows", slice(first, first + size)))
            start = first + size

        def faster(run: Any, _q: Any, v: Any, _u: Any, target: Any, _rows: bool) -> Any:
            return run(compiled(difference, n=nv), v, run.taken(target, np.arange(nq, nq + nv)))

        return [*found, texted(scope, "v", nv, (nq + nv,), faster)]

    return BuiltIn(
        weight=weight, last=last, impact=impact, lower=lower, upper=upper, nodes=nodes, name=name, hard=hard, make=make,
        aim=aim, default=q,
    )  # fmt: skip


def _apart(scope: Scope, of: str, own: slice) -> Part:
    """The distance of joints from a reference: entries of the tangent, or rows of one that is not a number."""
    robot, numbers = scope.robot, np.arange(own.start, own.stop)
    nq, nv = robot.nq, robot.nv
    lines = nv * numbers[:, None] + np.arange(nv)

    def away(run: Any, q: Any, _v: Any, _u: Any, target: Any, rows: bool) -> Any:
        reference = run.taken(target, np.arange(nq))
        r = run.taken(run(robot.difference, reference, q), numbers)
        return [r, run.taken(run(robot.ddifference, reference, q)[1], lines)] if rows and of == "rows" else r

    def bend(run: Any, q: Any, target: Any, slope: Any, start: Any) -> Any:
        reference, n, rows = run.taken(target, np.arange(nq)), len(numbers), []
        for i in numbers:
            ends = []
            for sign in (_STEP, -_STEP):
                moved = run(robot.integrate, q, sign * np.eye(nv)[i], 1.0)
                by_q = run.taken(run(robot.ddifference, reference, moved)[1], lines[:, numbers].T)
                ends.append(run(compiled(product, m=n, n=n), by_q, slope))
            rows.append(run(compiled(difference, n=n), *ends))
        both = run(compiled(mean_of_both, n=n), run.joined(*rows), 0.5 / _STEP)
        places = numbers[:, None] * nv + numbers
        return run(compiled(moved_on, n=nv * nv), start, run.placed(both, places, (nv, nv)), 1.0)

    rows = of == "rows"
    return texted(scope, of, len(numbers), (nq + nv,), away, slice(None) if rows else own, bend=bend if rows else None)


@remade
def control(
    u: Any = 0.0, *, weight: Any = 1.0, nodes: Any = None, name: str = "control", hard: bool = False
) -> CostTerm:
    """Distance of the inputs from reference ones, nu rows; not at the last node, which has none.

    Args:
        u: Reference inputs: a number, (nu,) or (…, T, nu). `targets` of `solve` replace them.
        weight: See `Term`.
        nodes: See `Term`.
        name: See `Term`.
        hard: See `Term`.
    """

    def make(scope: Scope) -> list[Part]:
        def away(run: Any, _q: Any, _v: Any, u: Any, target: Any, _rows: bool) -> Any:
            return run(compiled(difference, n=scope.nu), u, target)

        return [texted(scope, "u", scope.nu, (scope.nu,), away)]

    def aim(_robot: Model, given: Any) -> Array:
        return numbers_of_target(name, given)

    return BuiltIn(weight=weight, nodes=nodes, name=name, hard=hard, make=make, aim=aim, default=u)


@remade
def pose(
    frame: str, target: Any = None, *, weight: Any = 1.0, last: Any = None, impact: Any = None, nodes: Any = None,
    name: str = "", hard: bool = False,
) -> CostTerm:  # fmt: skip
    """Distance of a frame from a pose: the twist log(target⁻¹ pose) in the frame's axes, angular part first, 6 rows.

    Args:
        frame: Name of the frame.
        target: (4, 4) or (…, T + 1, 4, 4); `targets` of `solve` replace it.
        weight: See `Term`.
        last: See `Term`.
        impact: See `Term`.
        nodes: See `Term`.
        name: See `Term`; the frame's by default.
        hard: See `Term`.
    """
    return _of_pose(frame, slice(0, 6), target, weight, last, impact, nodes, name, hard)


@remade
def orientation(
    frame: str, target: Any = None, *, weight: Any = 1.0, last: Any = None, impact: Any = None, nodes: Any = None,
    name: str = "", hard: bool = False,
) -> CostTerm:  # fmt: skip
    """Distance of a frame from the orientation of a pose: the rotation vector in the frame's axes, 3 rows.

    Args:
        frame: Name of the frame.
        target: (4, 4) or (…, T + 1, 4, 4), of which the rotation counts; `targets` of `solve` replace it.
        weight: See `Term`.
        last: See `Term`.
        impact: See `Term`.
        nodes: See `Term`.
        name: See `Term`; the frame's by default.
        hard: See `Term`.
    """
    return _of_pose(frame, slice(0, 3), target, weight, last, impact, nodes, name, hard)


def _of_pose(
    frame: str, chosen: slice, target: Any, weight: Any, last: Any, impact: Any, nodes: Any, name: str, hard: bool
) -> CostTerm:
    name, size = name or frame, chosen.stop

    def make(scope: Scope) -> list[Part]:
        robot, nv, first = scope.robot, scope.robot.nv, np.arange(size)
        lines = np.arange(size * nv).reshape(size, nv)
        pose, jacobian = robot.pose.bound(frame), robot.jacobian.bound(frame, "local")

        def away(run: Any, q: Any, _v: Any, _u: Any, target: Any, rows: bool) -> Any:
            X = run(pose, q)
            if not rows:
                return run.taken(run(compiled(pose_residual), X, target), first)
            r, by_q = run(compiled(pose_rows, nv=nv), X, target, run(jacobian, q))
            return [run.taken(r, first), run.taken(by_q, lines)]

        def bend(run: Any, q: Any, target: Any, slope: Any, start: Any) -> Any:
            X, J = run(pose, q), run(jacobian, q)
            return run(compiled(pose_bend, nv=nv), X, target, J, run.placed(slope, first, (6,)), start)

        return [texted(scope, "rows", size, (4, 4), away, bend=bend if _is_chain(robot) else None)]

    def aim(_robot: Model, given: Any) -> Array:
        X = shaped(name, given, (4, 4), "a pose")
        R = X[..., :3, :3]
        with np.errstate(invalid="ignore"):  # NaN ends problems of their own
            turned = np.abs(R @ np.swapaxes(R, -1, -2) - np.eye(3)) > _TURNED
            mirrored = np.linalg.det(R) < 0.0
            sheared = np.abs(X[..., 3, :] - [0.0, 0.0, 0.0, 1.0]) > _TURNED
        if turned.any() or mirrored.any():
            raise InputError(f"the target of {name!r} is no pose: its first three rows and columns are not a rotation")
        if sheared.any():
            raise InputError(f"the target of {name!r} is no pose: its last row is not 0, 0, 0, 1")
        return X

    return BuiltIn(
        weight=weight, last=last, impact=impact, nodes=nodes, name=name, hard=hard, make=make, aim=aim, axes=2,
        default=target, awaited=target is None,
    )  # fmt: skip


@remade
def position(
    frame: str, target: Any = None, *, weight: Any = 1.0, last: Any = None, impact: Any = None, nodes: Any = None,
    name: str = "", hard: bool = False,
) -> CostTerm:  # fmt: skip
    """Distance of a frame's origin from a point, in the world's axes, 3 rows.

    Args:
        frame: Name of the frame.
        target: (3,) or (…, T + 1, 3) [m]; `targets` of `solve` replace it.
        weight: See `Term`.
        last: See `Term`.
        impact: See `Term`.
        nodes: See `Term`.
        name: See `Term`; the frame's by default.
        hard: See `Term`.
    """
    name = name or frame

    def make(scope: Scope) -> list[Part]:
        robot = scope.robot
        lower_rows = np.arange(3 * robot.nv, 6 * robot.nv).reshape(3, robot.nv)
        jacobian = robot.jacobian.bound(frame, "local_world_aligned")

        def away(run: Any, q: Any, _v: Any, _u: Any, target: Any, rows: bool) -> Any:
            origin = run.taken(run(robot.pose.bound(frame), q), [3, 7, 11])
            r = run(compiled(difference, n=3), origin, target)
            return [r, run.taken(run(jacobian, q), lower_rows)] if rows else r

        def bend(run: Any, q: Any, _target: Any, slope: Any, start: Any) -> Any:
            return run(compiled(position_bend, nv=robot.nv), run(jacobian, q), slope, start)

        return [texted(scope, "rows", 3, (3,), away, bend=bend if _is_chain(robot) else None)]

    return BuiltIn(
        weight=weight, last=last, impact=impact, nodes=nodes, name=name, hard=hard, make=make,
        aim=lambda _, given: shaped(name, given, (3,), "a point"), default=target, awaited=target is None,
    )  # fmt: skip


@remade
def velocity(
    frame: str, target: Any = None, *, reference: Any = "local", weight: Any = 1.0, last: Any = None,
    impact: Any = None, nodes: Any = None, name: str = "", hard: bool = False,
) -> CostTerm:  # fmt: skip
    """Distance of a frame's twist from a given one, angular part first, 6 rows.

    Args:
        frame: Name of the frame.
        target: (6,) or (…, T + 1, 6) [rad/s, m/s]; at rest by default. `targets` of `solve` replace it.
        reference: As for `robot.velocity`.
        weight: See `Term`.
        last: See `Term`.
        impact: See `Term`.
        nodes: See `Term`.
        name: See `Term`; "velocity of …" by default.
        hard: See `Term`.
    """
    name = name or f"velocity of {frame}"

    def make(scope: Scope) -> list[Part]:
        robot = scope.robot
        twist, jacobian = robot.velocity.bound(frame, reference), robot.jacobian.bound(frame, reference)
        derivative = robot.velocity_derivative.bound(frame, reference)

        def away(run: Any, q: Any, v: Any, _u: Any, target: Any, rows: bool) -> Any:
            r = run(compiled(difference, n=6), run(twist, q, v), target)
            return [r, run(derivative, q, v), run(jacobian, q), np.zeros((6, scope.nu))] if rows else r

        return [texted(scope, "all", 6, (6,), away)]

    return BuiltIn(
        weight=weight, last=last, impact=impact, nodes=nodes, name=name, hard=hard, make=make,
        aim=lambda _, given: shaped(name, given, (6,), "a twist"), default=np.zeros(6) if target is None else target,
    )  # fmt: skip


@remade
def center_of_mass(
    target: Any = None, *, weight: Any = 1.0, last: Any = None, impact: Any = None, nodes: Any = None,
    name: str = "center_of_mass", hard: bool = False,
) -> CostTerm:  # fmt: skip
    """Distance of the centre of mass from a point, in the world's axes, 3 rows.

    Args:
        target: (3,) or (…, T + 1, 3) [m]; `targets` of `solve` replace it.
        weight: See `Term`.
        last: See `Term`.
        impact: See `Term`.
        nodes: See `Term`.
        name: See `Term`.
        hard: See `Term`.
    """

    def make(scope: Scope) -> list[Part]:
        robot = scope.robot

        def away(run: Any, q: Any, _v: Any, _u: Any, target: Any, rows: bool) -> Any:
            r = run(compiled(difference, n=3), run(robot.center_of_mass, q), target)
            return [r, run(robot.center_of_mass_jacobian, q)] if rows else r

        return [texted(scope, "rows", 3, (3,), away)]

    return BuiltIn(
        weight=weight, last=last, impact=impact, nodes=nodes, name=name, hard=hard, make=make,
        aim=lambda _, given: shaped(name, given, (3,), "a point"), default=target, awaited=target is None,
    )  # fmt: skip


@remade
def momentum(
    target: Any = None, *, weight: Any = 1.0, last: Any = None, impact: Any = None, nodes: Any = None,
    name: str = "momentum", hard: bool = False,
) -> CostTerm:  # fmt: skip
    """Distance of the momentum about the centre of mass from a given one, angular part first, in world axes, 6 rows.

    In flight, angular momentum is conserved by physics, but not by steps of semi-implicit Euler: a weight there rewards
    what the integrator does wrong.

    Args:
        target: (6,) or (…, T + 1, 6) [kg m²/s, kg m/s]; zero by default. `targets` of `solve` replace it.
        weight: See `Term`.
        last: See `Term`.
        impact: See `Term`.
        nodes: See `Term`.
        name: See `Term`.
        hard: See `Term`.
    """

    def make(scope: Scope) -> list[Part]:
        robot = scope.robot
        along = compiled(product, m=6, n=robot.nv)

        def away(q: Array, v: Array, _u: Any, target: Array) -> Array:
            found: Array = along(robot.centroidal_momentum_matrix(q), v) - target
            return found

        def rows(q: Array, v: Array, _u: Any, target: Array) -> tuple[Any, ...]:
            by_v = robot.centroidal_momentum_matrix(q)
            wide = np.repeat(q[..., None, :], robot.nv, axis=-2)
            units = np.broadcast_to(np.eye(robot.nv), (*q.shape[:-1], robot.nv, robot.nv))
            turned = robot.centroidal_momentum_matrix.jvp(wide, units)
            by_q = np.swapaxes(along(turned, v[..., None, :]), -1, -2)
            return along(by_v, v) - target, by_q, by_v, None

        return [Part("all", 6, away, rows)]

    return BuiltIn(
        weight=weight, last=last, impact=impact, nodes=nodes, name=name, hard=hard, make=make,
        aim=lambda _, given: shaped(name, given, (6,), "a momentum"), default=np.zeros(6) if target is None else target,
    )  # fmt: skip


def _is_chain(robot: Model) -> bool:
    """Whether all joints have one degree of freedom of their own, in an order in which parents come first."""
    return all(joint.nv == 1 and not joint.coupled and joint.node is None for joint in robot.joints)
