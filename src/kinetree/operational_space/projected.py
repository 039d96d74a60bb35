"""Tasks of robots with loops and coupled joints, computed from the spanning tree.

All joints move with q̇ = G v, so tasks have J = J_t G with the Jacobian J_t of the spanning tree, and
J̇v = J̇_t q̇ + J_t Ġ v. Λ⁻¹ = J M⁻¹Jᵀ follows from its definition, and Λ from the eigenvalues of Λ⁻¹. This is exact; it
costs products of dense matrices in NumPy, O(r n²), instead of one compiled recursion.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from kinetree.algorithms.operational_space import inertia, inverse_inertia, task_dynamics
from kinetree.algorithms.operational_space.drift import task_drift
from kinetree.algorithms.operational_space.response import response, task_jacobian
from kinetree.engines import arguments
from kinetree.engines.native.compiled import standard_arithmetic
from kinetree.errors import UnsupportedError
from kinetree.operational_space.products import product, times
from kinetree.operational_space.reach import looked_at, reach
from kinetree.operational_space.recursions import Recursions, Robot
from kinetree.operational_space.task_function import TaskFunction
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.spatial.value import Array


class ProjectedRecursions(Recursions):
    """What `Recursions` offers, of some sites of a robot with loops or coupled joints.

    Args:
        robot: The robot.
        tree: Its spanning tree.
        sites: The frames on the robot, with their rows and their parts in tasks.
        tree_sites: The same frames on the spanning tree.
        reference: Reference point and axes of the motions of single frames.
        engine: Name of the engine.
    """

    def __init__(
        self,
        robot: Robot,
        tree: Robot,
        sites: tuple[Site, ...],
        tree_sites: tuple[Site, ...],
        reference: str,
        engine: str = "native",
    ) -> None:
        super().__init__(robot, sites, "definition", reference, engine)
        self._model, self._tree, self._tree_sites = robot.model, tree, tree_sites
        self._of_tree = {name: Recursions(tree, tree_sites, "definition", reference, name) for name in _ENGINES}

    @property
    def method(self) -> str:
        """Λ⁻¹ by its definition."""
        return "definition"

    @cached_property
    def inverse_inertia(self) -> TaskFunction:
        """Λ⁻¹ = J M⁻¹ Jᵀ of q, (…, r, r)."""
        return self._projected(
            "inverse_inertia", inverse_inertia("definition", self.reference, self._parts), self._mobility
        )

    @cached_property
    def inertia(self) -> TaskFunction:
        """A place for Λ, and an infinite spread: all samples are computed from eigenvalues."""
        return self._projected("inertia", inertia("definition", self.reference, self._parts), self._no_inertia)

    @cached_property
    def dynamics(self) -> TaskFunction:
        """The same with places for J̄ and N."""
        return self._projected("dynamics", task_dynamics(self.reference, self._parts), self._no_dynamics)

    @cached_property
    def jacobian(self) -> TaskFunction:
        """J of q, (…, r, nv)."""
        return self._projected("jacobian", task_jacobian(self.reference, self._parts), self._jacobian)

    @cached_property
    def response(self) -> TaskFunction:
        """M⁻¹Jᵀ of q, (…, nv, r)."""
        return self._projected("response", response(self.reference, self._parts), self._response)

    @cached_property
    def jacobian_dot_v(self) -> TaskFunction:
        """J̇v of q and v, (…, r)."""
        return self._projected("jacobian_dot_v", task_drift(self.reference, self._parts), self._drift)

    @cached_property
    def reach(self) -> Array:
        """Typical mobility of each row at other configurations, (r,)."""
        seen = looked_at(self.sites), looked_at(self._tree_sites)
        shown = ProjectedRecursions(self.robot, self._tree, *seen, self.reference).inverse_inertia
        found = reach(self.sites, shown, self.robot.configurations(), self.robot.size(), self.robot.mass())
        found.setflags(write=False)
        return found

    def _projected(self, name: str, algorithm: Algorithm, project: Callable[..., Any]) -> TaskFunction:
        return _Projected(name, self.robot.mechanism, algorithm, self.sites, project).engine(self.engine)

    # Each takes the name of an engine first

    def _jacobian(self, engine: str, q: Any) -> Array:
        J = self._of_tree[engine].jacobian(self._model.to_tree(q))
        return product(J, self._model.coupling.engine(engine)(q)[..., self._model.tree_order, :])

    def _response(self, engine: str, q: Any) -> Array:
        return product(
            self._model.mass_matrix_inverse.engine(engine)(q), np.swapaxes(self._jacobian(engine, q), -1, -2)
        )

    def _mobility(self, engine: str, q: Any) -> Array:
        found = product(self._jacobian(engine, q), self._response(engine, q))
        return 0.5 * (found + np.swapaxes(found, -1, -2))

    def _drift(self, engine: str, q: Any, v: Any) -> Array:
        model, tree, order = self._model, self._of_tree[engine], self._model.tree_order
        q_t, rates = model.to_tree(q), model.joint_rates.engine(engine)(q, v)[..., order]
        at_rest = np.zeros(self.robot.mechanism.nv)
        follows = model.joint_accelerations.engine(engine)(q, v, at_rest)[..., order]  # Ġ v
        found: Array = tree.jacobian_dot_v(q_t, rates) + times(tree.jacobian(q_t), follows)
        return found

    def _no_inertia(self, _engine: str, q: Any, _reach: Any) -> tuple[Array, ...]:
        batch = np.shape(q)[:-1]
        return np.empty((*batch, self.rows, self.rows)), np.full(batch, np.inf)

    def _no_dynamics(self, engine: str, q: Any, reach: Any) -> tuple[Array, ...]:
        batch, n = np.shape(q)[:-1], self.robot.mechanism.nv
        inertia, spread = self._no_inertia(engine, q, reach)
        return inertia, spread, np.empty((*batch, n, self.rows)), np.empty((*batch, n, n))


class _Projected(TaskFunction):
    """A function of tasks that is computed in NumPy.

    Args:
        name: Its public name.
        mechanism: The robot.
        algorithm: The recursion that computes it on rigid trees.
        sites: The frames, with the rows of their tasks.
        project: Takes the name of an engine, then the arguments of the function; returns its results.
    """

    def __init__(
        self,
        name: str,
        mechanism: Mechanism,
        algorithm: Algorithm,
        sites: tuple[Site, ...],
        project: Callable[..., Any],
    ) -> None:
        super().__init__(name, mechanism, algorithm, sites)
        self._project = project

    def _compute(self, inputs: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        """Compute, with arguments that are in memory."""
        with standard_arithmetic():  # a sample with NaN gives NaN, as everywhere
            results = self._project(self._engine, *self._arguments(inputs, named))
        if out is None:
            return results
        several = results if isinstance(results, tuple) else (results,)
        names = tuple(output.name for output in self.algorithm.outputs)
        homes = arguments.results(self.name, out, names, tuple(each.shape for each in several))
        for home, result in zip(homes, several, strict=True):
            home[...] = result
        return homes if several is results else homes[0]

    def compile(self) -> None:
        """Nothing is compiled before the first call."""

    def bound(self) -> NoReturn:
        """There is no kernel that computes the result alone."""
        raise UnsupportedError(
            f"{self.name} of tasks has no kernel of its own on robots with loops or coupled joints, such as "
            f"{self.mechanism.first_general!r}: it is computed from the spanning tree, in NumPy only"
        )

    count = bound


_ENGINES = ("native", "reference")
