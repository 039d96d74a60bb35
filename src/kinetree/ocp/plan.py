"""The result of a problem: states, inputs, gains, costs, and why the solver stopped."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import ConvergenceError, InputError
from kinetree.ocp.costs import Bounds
from kinetree.ocp.horizon import Horizon
from kinetree.ocp.solver import Solution
from kinetree.runtime import arguments
from kinetree.spatial.value import Array

#: Most joints that a picture names, and most limits that a message does.
_NAMED, _SHOWN = 12, 3


class Motion(NamedTuple):
    """A plan as `kinetree.viewer.film` shows it, without impacts, which take no time.

    Attributes:
        q: Configurations, (samples, nq).
        time: Their times, increasing, (samples,) [s].
        forces: Forces at feet in the feet's own axes, (samples, 3), or wrenches, (samples, 6); by frame.
    """

    q: Array
    time: Array
    forces: dict[str, Array]


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A motion and the feedback about it. Leading axes are those of the states and targets that were given.

    Attributes:
        time: Time of each node, (T + 1,) [s]; impacts take none.
        q: Configurations, (…, T + 1, nq).
        v: Velocities, (…, T + 1, nv).
        u: Inputs of the actuated joints, (…, T, nu).
        tau: Joint forces, zero without a motor, (…, T, nv).
        forces: Forces at feet, by frame, (…, T, 3), or wrenches, (…, T, 6), in world axes; impulses at impacts.
        gains: Feedback K of each step, (…, T, nu, 2 nv): u + K (x ⊖ x̄), tangents of q before v.
        cost: The cost, (…).
        costs: The same by term.
        gap: The largest gap between the end of a step and the next state, (…); rounding errors if it converged.
        violation: The largest violation of a limit, (…).
        violations: The same by limit and hard term.
        multipliers: By limit ("torque", "position", "velocity") and hard term, (…, nodes, rows); positive at upper
            limits.
        converged: Whether each problem was solved, (…).
        reason: "converged"; "iterations" or "no step", but "constraints" if limits are violated then, or if no motion
            nearby violates them less; or "not finite".
        iterations: Number of iterations, (…).
        table: A row for each iteration, (iterations, …), with cost, gap, violation, expected fall, length of the step,
            damping, share of curvature, and whether states were rolled out; NaN where a problem had ended.
        seconds: Time spent, by part.
        problem: The problem.
    """

    time: Array
    q: Array
    v: Array
    u: Array
    tau: Array
    forces: dict[str, Array]
    gains: Array
    cost: Array
    costs: dict[str, Array]
    gap: Array
    violation: Array
    violations: dict[str, Array]
    multipliers: dict[str, Array]
    converged: Array
    reason: Array
    iterations: Array
    table: Array
    seconds: dict[str, float]
    problem: Any
    #: Hard rows with flat leading axes, for the next problem.
    bounds: tuple[Bounds, ...] = ()

    @classmethod
    def of(cls, problem: Any, solution: Solution, batch: tuple[int, ...]) -> Plan:
        """Internal. What the solver found, with the caller's leading axes."""
        horizon = problem.horizon

        def shaped(x: Array) -> Array:
            return x.reshape((*batch, *x.shape[1:]))

        path, gains = solution.path, solution.gains
        feet = horizon.dynamics.feet
        names = [term.name for term in horizon.terms]
        table = solution.table.reshape((len(solution.table), *batch))
        return cls(
            time=np.concatenate([[0.0], np.cumsum(horizon.dynamics.dt)]),
            q=shaped(path.q), v=shaped(path.v), u=shaped(path.u), tau=shaped(horizon.tau(path.u)),
            forces={foot.frame: shaped(path.force[..., foot.part]) for foot in feet},
            gains=shaped(-np.concatenate([gains.Kq, gains.Kv], axis=-1)),
            cost=shaped(solution.costs.sum(axis=-1)), gap=shaped(solution.gap), violation=shaped(solution.violation),
            violations={name: shaped(x) for name, x in _largest_by_name(solution).items()},
            costs={name: shaped(solution.costs[:, i]) for i, name in enumerate(names)},
            multipliers={name: shaped(y) for name, y in _by_name(solution.bounds).items()},
            converged=shaped(solution.reason == "converged"), reason=shaped(solution.reason),
            iterations=shaped(solution.iterations), table=table, seconds=solution.seconds, problem=problem,
            bounds=tuple(solution.bounds),
        )  # fmt: skip

    @property
    def horizon(self) -> Horizon:
        """Internal. The nodes of the problem."""
        found: Horizon = self.problem.horizon
        return found

    def __getitem__(self, index: Any) -> Plan:
        """One or some of several problems, by their leading axes: plans[3], plans[plans.converged]."""
        batch = self.q.shape[:-2]
        if not batch:
            raise InputError("this plan is of one problem; plan.q[k] and the like are its nodes")
        own = np.arange(int(np.prod(batch))).reshape(batch)[index]

        def some(x: Array) -> Array:
            return np.asarray(x.reshape(-1, *x.shape[len(batch) :])[own])

        def each(given: dict[str, Array]) -> dict[str, Array]:
            return {name: some(x) for name, x in given.items()}

        return replace(
            self, q=some(self.q), v=some(self.v), u=some(self.u), tau=some(self.tau), forces=each(self.forces),
            gains=some(self.gains), cost=some(self.cost), costs=each(self.costs), gap=some(self.gap),
            violation=some(self.violation), violations=each(self.violations), multipliers=each(self.multipliers),
            converged=some(self.converged), reason=some(self.reason), iterations=some(self.iterations),
            table=self.table.reshape(len(self.table), -1)[:, own],
            bounds=tuple(bound.some(np.ravel(own)) for bound in self.bounds),
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "bounds": [bound.arrays for bound in self.bounds]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        costs = state["problem"].horizon.costs
        rows = [costs.rows[number] for number in costs.hard]
        bounds = tuple(Bounds(row, *each) for row, each in zip(rows, state["bounds"], strict=True))
        self.__dict__.update(state, bounds=bounds)

    def __repr__(self) -> str:
        if self.q.ndim > 2:
            done = f"{int(self.converged.sum())} of {self.converged.size} converged"
            return (
                f"<Plan of {self.horizon.robot.name}: {len(self.time) - 1} steps, {self.q.shape[:-2]} problems, {done}>"
            )
        steps, reason = len(self.time) - 1, str(self.reason)
        return (
            f"<Plan of {self.horizon.robot.name}: {steps} steps, cost {float(self.cost):.9g}, {reason} after "
            f"{int(self.iterations)} iterations{self._broken() if reason == 'constraints' else ''}>"
        )

    def _broken(self) -> str:
        """The limits that are violated most."""
        worst = sorted((-float(x.max()), name) for name, x in self.violations.items() if x.max() > 0.0)
        return "".join(f", {name!r} violated by {-x:.2g}" for x, name in worst[:_SHOWN])

    def require(self) -> Plan:
        """Itself, if every problem converged.

        Raises:
            ConvergenceError: Some did not; the message says why.
        """
        if not self.converged.all():
            failed = np.argwhere(~np.atleast_1d(self.converged))
            reasons = sorted(set(np.atleast_1d(self.reason)[~np.atleast_1d(self.converged)].tolist()))
            raise ConvergenceError(
                f"{len(failed)} of {self.converged.size} problems did not converge in {int(np.max(self.iterations))} "
                f"iterations: {', '.join(reasons)}; gap {float(self.gap.max()):.2g}{self._broken()}. See plan.table, "
                "and docs/optimal_control.md on what to do"
            )
        return self

    def torques(self, q: Any, v: Any, node: int = 0) -> Array:
        """Joint forces at a state near a node: its inputs plus feedback, within torque limits, (…, nv).

        Args:
            q: Configuration, (…, nq).
            v: Velocities, (…, nv).
            node: Number of the node.
        """
        robot = self.horizon.robot
        whole = isinstance(node, (int, np.integer)) and not isinstance(node, bool)
        if not whole or not -self.u.shape[-2] <= node < self.u.shape[-2]:
            raise InputError(f"torques: node={node!r} is not among the {self.u.shape[-2]} steps")
        node %= self.u.shape[-2]
        q = arguments.doubles("torques", "q", q, (robot.nq,))
        v = arguments.doubles("torques", "v", v, (robot.nv,))
        away = np.concatenate([robot.difference(self.q[..., node, :], q), v - self.v[..., node, :]], axis=-1)
        u = self.u[..., node, :] + (self.gains[..., node, :, :] * away[..., None, :]).sum(axis=-1)
        for bound in self.bounds:
            if bound.row.term is None and bound.row.part.of == "u":
                u = np.clip(u, bound.row.lower, bound.row.upper)
        return self.horizon.tau(u)

    def shifted(self, nodes: int = 1) -> Plan:
        """The same, some steps later: a start for the next problem. The last state, input and multipliers repeat.

        Args:
            nodes: Number of steps, at least 0.
        """
        nodes, last = arguments.whole("shifted: nodes", nodes, 0, "a number of steps"), len(self.time) - 1
        later = np.arange(last + 1) + nodes
        return self._at(np.minimum(later, last), np.minimum(later[:-1], last - 1))

    def _at(self, nodes: Array, steps: Array) -> Plan:
        """The same at some nodes, and in some steps."""

        def some(x: Array, axis: int = -2) -> Array:
            found: Array = np.take(x, nodes if x.shape[axis] == len(self.time) else steps, axis=axis)
            return found

        return replace(
            self, q=some(self.q), v=some(self.v), u=some(self.u), tau=some(self.tau), gains=some(self.gains, -3),
            forces={name: some(x) for name, x in self.forces.items()},
            multipliers={name: some(y) for name, y in self.multipliers.items()},
            bounds=tuple(Bounds(b.row, *(some(x, 1) for x in b.arrays)) for b in self.bounds),
        )  # fmt: skip

    def motion(self) -> Motion:
        """What `kinetree.viewer.film("plan.html", robot, plan)` shows. Of one problem.

        Raises:
            InputError: The plan has several problems.
        """
        if self.q.ndim != 2:
            raise InputError("motion: a plan of several problems; show one of them, plan[0]")
        robot, steps = self.horizon.robot, np.append(np.diff(self.time) > 0.0, True)
        forces = {}
        for foot, force in self.forces.items():
            world = np.concatenate([force, np.zeros_like(force[:1])])[steps]
            turn = robot.pose(self.q[steps], foot)[:, None, :3, :3]
            parts = world.reshape(len(world), -1, 1, 3)  # a moment, and a force
            forces[foot] = (parts * np.swapaxes(turn, -1, -2)).sum(axis=-1).reshape(world.shape)
        return Motion(self.q[steps], self.time[steps], forces)

    def resampled(self, nodes: int, dt: Any) -> Plan:
        """The same motion with other time steps: a start for a problem with these. Afterwards the last state repeats.

        States are interpolated along tangents; inputs, gains, forces and multipliers are those in force at the time.

        Args:
            nodes: Number of steps.
            dt: Time step [s], or one for each step, (nodes,).
        """
        nodes = arguments.whole("resampled: nodes", nodes, what="a positive number of steps")
        steps = arguments.numbers("resampled", "dt", dt).astype(np.float64)
        if steps.shape not in ((), (nodes,)) or not (steps > 0.0).all() or not np.isfinite(steps).all():
            raise InputError(f"resampled: dt={dt!r} is neither a positive time step [s] nor one for each step")
        robot, last = self.horizon.robot, len(self.time) - 2
        time = np.concatenate([[0.0], np.cumsum(np.broadcast_to(steps, (nodes,)))])
        soon = time + 1e-6 * float(steps.min())  # sums of steps are rounded
        at = np.clip(np.searchsorted(self.time, soon, side="right") - 1, 0, last)
        length = self.time[at + 1] - self.time[at]
        share = np.clip((time - self.time[at]) / np.where(length > 0.0, length, 1.0), 0.0, 1.0)[:, None]
        q, after = (np.ascontiguousarray(self.q[..., i, :]) for i in (at, at + 1))
        q = robot.integrate(q, share * robot.difference(q, after))
        v = self.v[..., at, :] + share * (self.v[..., at + 1, :] - self.v[..., at, :])
        return replace(self._at(np.where(share[:, 0] > 0.5, at + 1, at), at[:-1]), time=time, q=q, v=v)

    def plot(self) -> Any:
        """Configurations, velocities and inputs over time, as a figure of Matplotlib. Of one problem.

        Raises:
            ImportError: Matplotlib is not installed.
            InputError: The plan has several problems.
        """
        if self.q.ndim != 2:
            raise InputError("plot: a plan of several problems; draw one of them, plan[0]")
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError('plot needs Matplotlib: pip install "kinetree[plot]"') from error
        robot, actuated = self.horizon.robot, self.horizon.actuated
        joints = [joint.name for joint in robot.joints for _ in range(joint.nv)]
        plain = robot.nq == robot.nv
        lines = (
            ("q [rad, m]", self.q, joints if plain else []),
            ("v [rad/s, m/s]", self.v, [] if plain else joints),
            ("u [N m, N]", self.u, [] if len(actuated) == robot.nv else [joints[i] for i in actuated]),
        )
        figure = Figure(figsize=(8.0, 7.0), layout="constrained")
        axes = figure.subplots(3, 1, sharex=True)
        for axis, (label, x, names) in zip(axes, lines, strict=True):
            steps = len(x) < len(self.time)
            x = np.concatenate([x, x[-1:]]) if steps else x  # inputs hold until the last node
            drawn = axis.plot(self.time, x, drawstyle="steps-post" if steps else "default")
            axis.set_ylabel(label)
            axis.grid(alpha=0.3)
            if 0 < len(names) <= _NAMED:
                axis.legend(drawn, names, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes[-1].set_xlabel("time [s]")
        return figure


def _largest_by_name(solution: Solution) -> dict[str, Array]:
    """Violations of each term and limit."""
    found: dict[str, Array] = {}
    for bound, worst in zip(solution.bounds, solution.violations.T, strict=True):
        found[bound.row.name] = np.maximum(found.get(bound.row.name, 0.0), worst)
    return found


def _by_name(bounds: list[Bounds]) -> dict[str, Array]:
    """Multipliers of each term and limit; inputs have no last node."""
    found: dict[str, list[Array]] = {}
    for bound in bounds:
        y = bound.multipliers[:, :-1] if bound.row.part.of == "u" else bound.multipliers
        found.setdefault(bound.row.name, []).append(y)
    return {name: np.concatenate(each, axis=-1) for name, each in found.items()}
