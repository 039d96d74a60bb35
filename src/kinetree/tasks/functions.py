"""The functions of `Tasks`, based on compiled kernels.

For samples far from singular, Λ, or Λ with J̄ and N, is the result of one kernel. For each sample the kernel also
returns a measure of how close to singular it is (`spread`, see `kinetree.kernels.solve`). Samples that are too close
are recomputed from eigenvalues. If there are more rows than degrees of freedom, all are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray

from kinetree.algorithms.dynamics.coriolis_matrix import coriolis_matrix
from kinetree.algorithms.kinematics.frame_kinematics import JACOBIAN_RATES
from kinetree.compiler.count import Count
from kinetree.compiler.formats import format_of, rounded
from kinetree.errors import InputError
from kinetree.kernels.products import inverse_inertia_rate, opposing_force
from kinetree.language.algorithm import Algorithm
from kinetree.language.common_frame import in_view
from kinetree.runtime import arguments
from kinetree.runtime.function import Function, compiled
from kinetree.runtime.sequence import KernelSequence
from kinetree.spatial.value import Array
from kinetree.tasks.core import Core
from kinetree.tasks.recursions import TaskFunction
from kinetree.tasks.singular import eigen_steps

if TYPE_CHECKING:
    from typing_extensions import Self


_FLOAT64 = np.dtype(np.float64)


class TaskDynamics(NamedTuple):
    """Λ, J̄ and N of tasks with r rows.

    Attributes:
        inertia: Λ, (…, r, r).
        dynamically_consistent_inverse: J̄ = M⁻¹JᵀΛ, (…, nv, r).
        nullspace: N = 1 − J̄J, (…, nv, nv).
    """

    inertia: Array
    dynamically_consistent_inverse: Array
    nullspace: Array


class PreparedFunction(ABC):
    """A function of `Tasks`. Leading axes of its inputs are batch axes, which broadcast as in NumPy."""

    def __init__(self, tasks: Any, core: Core, name: str) -> None:
        self.tasks, self.core, self.name = tasks, core, name
        self.__name__, self.__doc__ = name, getattr(type(tasks), name).__doc__

    def __repr__(self) -> str:
        return f"<{self.name} of {self.tasks!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.tasks, self.name)

    def engine(self, name: str) -> Self:
        """The same function with recursions on another engine: "native" or "reference"."""
        other: Self = getattr(self.tasks.engine(name), self.name)
        return other

    def compile(self) -> None:
        """Compile everything that later calls need."""
        for kernel in self._kernels():
            kernel.compile()

    def count(self) -> Count:
        """Operations of the recursions in one evaluation: those of regular samples, if any sample can be regular."""
        return sum((kernel.count() for kernel in self._kernels()), Count())

    @abstractmethod
    def _kernels(self) -> Sequence[Any]:
        """The recursions that it calls for regular samples, or for all, if every one is singular."""

    def _lazily(self, out: Any, **given: Any) -> Any:
        """The lazy result for Dask arrays."""
        from kinetree.runtime import dask

        return dask.call(self, given, dict.fromkeys(given, 1), out)

    def _put(self, found: Any, out: Any) -> Any:
        """A result, or the three of `TaskDynamics`, copied to the user's arrays if there are any."""
        if out is None:
            return found
        several = isinstance(found, TaskDynamics)
        parts, names = (found, TaskDynamics._fields) if several else ((found,), (self.name,))
        given, shapes = tuple(_three(out)) if several else out, [part.shape for part in parts]
        homes = arguments.results(self.name, given, names, shapes, parts[0].dtype)
        for home, part in zip(homes, parts, strict=True):
            home[...] = part
        return TaskDynamics(*homes) if several else homes[0]


class Regular(PreparedFunction):
    """Base of `Inertia` and `Dynamics`, whose kernels are valid for regular samples."""

    def __init__(self, tasks: Any, core: Core, name: str, kernel: TaskFunction) -> None:
        super().__init__(tasks, core, name)
        self._kernel, self._trusted, self._one = kernel, core.trusted, (core.recursions.robot.mechanism.nq,)

    def _kernels(self) -> Sequence[Any]:
        return (self._kernel,)

    def compile(self) -> None:
        """Compile everything that later calls need."""
        super().compile()
        _ = self.core.reach

    def _into(self, q: Any, out: Sequence[Any]) -> Any:
        """Compute into the user's arrays, correctly for all samples."""
        # samples may be recomputed after the kernel has written its results, which must not have overwritten q
        if isinstance(q, np.ndarray) and any(np.may_share_memory(q, one) for one in out if isinstance(one, np.ndarray)):
            q = q.copy()
        first, *rest = out
        results = self._kernel(q, self.core.reach, out=(first, np.empty(np.shape(q)[:-1]), *rest))
        self._recompute(q, results)
        return results

    def _recompute(self, q: Any, results: Any) -> None:
        """Recompute samples that may be singular."""
        doubtful = np.logical_not(results[1] < self._trusted)
        if doubtful.any():
            q = np.asarray(q, dtype=np.float64)
            alone = doubtful.ndim == 0
            which: Any = ... if alone else doubtful
            places = None if alone else np.argwhere(doubtful)
            again = self._again(q if alone else q[which], places)
            for result, right in zip((results[0], *results[2:]), again, strict=True):
                result[which] = right

    def _is_one(self, q: Any) -> bool:
        """Whether q is one sample that needs no conversion."""
        return type(q) is ndarray and q.shape == self._one and q.dtype is _FLOAT64

    def _located(self, q: Any) -> tuple[Array, Array | None]:
        """Where all samples are singular: q, checked, and the batch indices of its samples, as for `_again`."""
        if self._is_one(q):
            return q, None
        q = arguments.numbers(self.name, "q", q)
        arguments.require_shape(f"{self.name}: q", q.shape, self._one)
        places = np.argwhere(np.ones(q.shape[:-1], dtype=bool)) if q.ndim > 1 else None
        return np.asarray(q, dtype=np.float64), places

    @abstractmethod
    def _again(self, q: Array, places: Array | None) -> Sequence[Array]:
        """All results except `spread`, for samples that may be singular."""


class Inertia(Regular):
    """Λ of some tasks as a function of q, (…, r, r): `f(q)` or `f(q, out=…)`."""

    def __call__(self, q: Any, out: Any = None) -> Array:
        """Λ, (…, r, r)."""
        inertia: Array
        if type(q) is not ndarray and arguments.is_lazy(q):
            lazy: Array = self._lazily(out, q=q)
            return lazy
        if self.core.excessive:
            inertia = self.core.inertia_of_doubtful(*self._located(q))
            return inertia if out is None else self._put(inertia, out)
        if out is not None:
            inertia, _ = self._into(q, (out,))
            return inertia
        inertia, spread = results = self._kernel(q, self.core.reach)
        if spread.ndim:
            self._recompute(q, results)
        elif not spread.item() < self._trusted:
            return self.core.inertia_of_doubtful(np.asarray(q, dtype=np.float64), None)
        return inertia

    def _again(self, q: Array, places: Array | None) -> Sequence[Array]:
        return (self.core.inertia_of_doubtful(q, places),)

    def _kernels(self) -> Sequence[Any]:
        return self.core.singular_kernels if self.core.excessive else super()._kernels()


class TaskDynamicsFunction(Regular):
    """Λ, J̄ and N of some tasks as a function of q: `f(q)` or `f(q, out=(…, …, …))`."""

    def __call__(self, q: Any, out: tuple[Any, Any, Any] | None = None) -> TaskDynamics:
        """Λ, J̄ and N."""
        if type(q) is not ndarray and arguments.is_lazy(q):
            lazy: TaskDynamics = self._lazily(out, q=q)
            return lazy
        if out is not None:
            inertia, _, consistent, nullspace = self._into(q, _three(out))
            return TaskDynamics(inertia, consistent, nullspace)
        if self.core.excessive:
            return TaskDynamics(*self._again(*self._located(q)))
        inertia, spread, consistent, nullspace = results = self._kernel(q, self.core.reach)
        if spread.ndim or not spread.item() < self._trusted:
            self._recompute(q, results)
        return TaskDynamics(inertia, consistent, nullspace)

    def _kernels(self) -> Sequence[Any]:
        if not self.core.excessive:
            return super()._kernels()
        recursions = self.core.recursions
        return (*self.core.singular_kernels, recursions.response, recursions.jacobian, recursions.projections)

    def _again(self, q: Array, places: Array | None) -> Sequence[Array]:
        recursions = self.core.recursions
        inertia = self.core.inertia_of_doubtful(q, places)
        return inertia, *recursions.projections(recursions.response(q), recursions.jacobian(q), inertia)


class Derived(PreparedFunction):
    """A quantity of `tasks.at(q)` or `tasks.at(q, v)` as a function, given names of the recursions that it calls."""

    def __init__(self, tasks: Any, core: Core, name: str, inputs: tuple[str, ...], recursions: tuple[str, ...]) -> None:
        super().__init__(tasks, core, name)
        self._inputs, self._recursions = inputs, recursions
        arrays = [Parameter(each, Parameter.POSITIONAL_OR_KEYWORD) for each in inputs]
        self.__signature__ = Signature([*arrays, Parameter("out", Parameter.KEYWORD_ONLY, default=None)])

    def _kernels(self) -> Sequence[Any]:
        return [getattr(self.core.recursions, name) for name in self._recursions]

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """The quantity at q, or at q and v."""
        if named or len(inputs) != len(self._inputs):
            inputs = self._given(inputs, named)
        for value in inputs:
            if type(value) is not ndarray and arguments.is_lazy(value):
                return self._lazily(out, **dict(zip(self._inputs, inputs, strict=True)))
        return self._put(self._found(*inputs), out)

    def _found(self, *inputs: Any) -> Any:
        """The quantity, in an array that belongs to the caller."""
        value = getattr(self.tasks.state(self.name, *inputs), self.name)
        return value.copy() if value.ndim else value

    def _given(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments in order."""
        values = {**dict(zip(self._inputs, inputs, strict=False)), **named}
        if len(values) != len(inputs) + len(named) or tuple(sorted(values)) != self._inputs:
            given = [f"{len(inputs)} by position", *named] if inputs else [*named]
            listed = " and ".join(self._inputs)
            raise InputError(f"{self.name} takes {listed}, each once; got {', '.join(given) or 'nothing'}")
        return tuple(values[name] for name in self._inputs)


class Bias(Derived):
    """The bias force of tasks without contacts, (…, r).

    J̄ᵀ(C + g) − Λ J̇v = −Λ (J a + J̇v), where a = −M⁻¹(C + g) are the accelerations without joint forces.
    """

    def __init__(self, tasks: Any, core: Core, name: str) -> None:
        super().__init__(tasks, core, name, ("q", "v"), ("forward_dynamics", "acceleration"))
        self._still = np.zeros(core.recursions.robot.mechanism.nv)
        self._opposing = compiled(opposing_force, r=core.rows)

    def _kernels(self) -> Sequence[Any]:
        return (*self.tasks.inertia._kernels(), *super()._kernels(), self._opposing)

    def _found(self, *inputs: Any) -> Any:
        recursions = self.core.recursions
        free = recursions.acceleration(*inputs, recursions.forward_dynamics(*inputs, self._still))
        return self._opposing(self.tasks.inertia(inputs[0]), free)


class Rounded(PreparedFunction):
    """A function of a robot in float32 that is computed in float64, because digits decide what is singular."""

    def __init__(self, tasks: Any, core: Core, name: str, exact: Any) -> None:
        super().__init__(tasks, core, name)
        self._exact, self._dtype = exact, format_of(core.recursions.robot.mechanism).dtype

    def _kernels(self) -> Sequence[Any]:
        kernels: Sequence[Any] = self._exact._kernels()
        return kernels

    def compile(self) -> None:
        """Compile everything that later calls need."""
        self._exact.compile()

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """The result of the function in float64, rounded; ranks are integers."""
        found = self._exact(*inputs, **named)
        if isinstance(found, TaskDynamics):
            return self._put(TaskDynamics(*(rounded(part, self._dtype) for part in found)), out)
        return self._put(found if found.dtype.kind == "i" else rounded(found, self._dtype), out)


class HeldDynamics(Derived):
    """Λ, J̄ and N of tasks of a robot with contacts."""

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> TaskDynamics:
        """Λ, J̄ and N."""
        (q,) = self._given(inputs, named)
        if arguments.is_lazy(q):
            lazy: TaskDynamics = self._lazily(out, q=q)
            return lazy
        state = self.tasks.state(self.name, q)
        found: TaskDynamics = self._put(
            TaskDynamics(*(getattr(state, name).copy() for name in TaskDynamics._fields)), out
        )
        return found


class _Spectral(Derived):
    """A measure of the eigenvalues of Λ⁻¹ of tasks without contacts, (…).

    Every sample needs the kernel and, if `decomposes`, the eigenvalues.
    """

    def __init__(self, tasks: Any, core: Core, name: str, kernel: TaskFunction, decomposes: bool) -> None:
        super().__init__(tasks, core, name, ("q",), ())
        self._kernel, self._decomposes = kernel, decomposes

    def _kernels(self) -> Sequence[Any]:
        return (self._kernel, *(eigen_steps(self.core.rows, inverts=False) if self._decomposes else ()))


class Condition(_Spectral):
    """Condition number of the weighted Λ⁻¹ of tasks without contacts, (…)."""

    def __init__(self, tasks: Any, core: Core, name: str) -> None:
        super().__init__(tasks, core, name, core.recursions.inverse_inertia_for(name), not core.excessive)
        self._one = (core.recursions.robot.mechanism.nq,)

    def _found(self, *inputs: Any) -> Any:
        (q,) = inputs
        of = self.core.eigenvalues
        if self.core.excessive:
            entries = np.isfinite(self._kernel(q)).all(axis=(-2, -1))
            found = np.where(entries, np.inf, np.nan)
        elif of is not None and type(q) is ndarray and q.shape == self._one:
            found = of.condition(q)
        else:
            found = self.core.spectrum_of(self._kernel(q)).condition
        # Λ⁻¹ may be finite even if q is not, since it does not depend on prismatic joints
        finite = np.isfinite(q)
        if not finite.all():
            found = np.where(finite.all(axis=-1), found, np.nan)
        return found[()]


class Rank(_Spectral):
    """Rank of tasks without contacts, (…): all rows of samples far from singular, else from eigenvalues."""

    def __init__(self, tasks: Any, core: Core, name: str) -> None:
        kernel = core.recursions.inverse_inertia_for if core.excessive else core.recursions.inertia_for
        super().__init__(tasks, core, name, kernel(name), core.excessive)
        self._trusted = core.trusted

    def _found(self, *inputs: Any) -> Any:
        (q,) = inputs
        # Λ⁻¹ may be finite even if q is not, since it does not depend on prismatic joints
        if self.core.excessive:
            found = self.core.spectrum_of(self._kernel(q)).rank
            return np.where(np.isfinite(q).all(axis=-1), found, -1.0).astype(int)[()]
        _, spread = self._kernel(q, self.core.reach)
        finite = np.isfinite(q)
        if finite.all() and not spread.ndim and spread.item() < self._trusted:
            return np.int64(self.core.rows)
        finite = np.asarray(finite.all(axis=-1))
        found = np.where(finite, self.core.rows, -1)
        doubtful = finite & np.logical_not(spread < self._trusted)
        if doubtful.any():
            alone = not doubtful.ndim
            A = self.core.recursions.inverse_inertia(q if alone else np.asarray(q)[doubtful])
            which: Any = ... if alone else doubtful
            found[which] = self.core.spectrum_of(A).rank
        return found[()]


def _along(rate: Algorithm) -> Algorithm:
    """The same recursion, with the direction named dq."""
    return replace(rate, inputs=tuple(replace(a, name="dq") if a.name == "v" else a for a in rate.inputs))


#: J̇ of frames, by reference.
_RATES = {reference: _along(rate) for reference, rate in JACOBIAN_RATES.items()}


class InverseInertiaDerivative(PreparedFunction):
    """Directional derivative of Λ⁻¹ = J M⁻¹ Jᵀ along a tangent, (…, r, r): `f(q, dq)` or `f(q, dq, out=…)`.

    J̇ M⁻¹ Jᵀ plus its transpose minus J M⁻¹ Ṁ M⁻¹ Jᵀ, with Ṁ = C + Cᵀ from the Coriolis matrix.
    """

    def __init__(self, tasks: Any, core: Core) -> None:
        super().__init__(tasks, core, "inverse_inertia_derivative")

    def __call__(self, q: Any, dq: Any, out: Any = None) -> Array:
        """The directional derivative, (…, r, r).

        Args:
            q: Configuration, (…, nq).
            dq: The tangent, (…, nv).
            out: Array for the result.

        Raises:
            InputError: If contacts are redundant.
        """
        if arguments.is_lazy(q) or arguments.is_lazy(dq):
            lazy: Array = self._lazily(out, q=q, dq=dq)
            return lazy
        if self.core.held or not self._plain:
            any_task: Array = self._put(self.tasks._sensitivity.jvp(q, dq), out)
            return any_task
        found: Array = self._computed(q, dq, out=out)
        return found

    @property
    def _plain(self) -> bool:
        """Whether all rows are those of single frames."""
        return all(site.part == "frame" for site in self.core.recursions.sites)

    @cached_property
    def _computed(self) -> Callable[..., Array]:
        """All of it; on the native engine as one compiled function."""
        recursions, kernels = self.core.recursions, self._kernels()
        if recursions.engine != "native":
            return self._step_by_step
        rates, response, coriolis, combined = (kernel.bound() for kernel in kernels)
        sequence = KernelSequence(self.name, rates.binding.inputs, combined.binding.outputs)
        q, dq = sequence.inputs
        every, nv = sequence.call(rates, q, dq), recursions.robot.mechanism.nv
        rows = sequence.space(len(self._components) * nv)
        for row, component in enumerate(self._components):
            sequence.copy(every.part(component * nv, nv), rows.part(row * nv, nv))
        sequence.call(combined, rows, sequence.call(response, q), sequence.call(coriolis, q, dq), into=sequence.outputs)
        return sequence.finish()

    def _step_by_step(self, q: Any, dq: Any, out: Any = None) -> Array:
        rates, response, coriolis, combined = self._kernels()
        every = rates(q, dq)
        rows = every.reshape(*every.shape[:-3], -1, every.shape[-1])[..., self._components, :]
        found: Array = self._put(combined(rows, response(q), coriolis(q, dq)), out)
        return found

    @cached_property
    def _components(self) -> list[int]:
        """For each row, which of the six components of which frame it is."""
        return [6 * i + component for i, site in enumerate(self.core.recursions.sites) for component in site.rows]

    @cached_property
    def _rates(self) -> TaskFunction:
        recursions = self.core.recursions
        mechanism = recursions.robot.mechanism.at(recursions.sites)
        algorithm = in_view(_RATES[recursions.reference], mechanism, "common")
        return TaskFunction(self.name, mechanism, algorithm, recursions.sites).engine(recursions.engine)

    @cached_property
    def _coriolis(self) -> Function[..., Array]:
        recursions = self.core.recursions
        return Function("coriolis_matrix", recursions.robot.mechanism, coriolis_matrix).engine(recursions.engine)

    def _kernels(self) -> Sequence[Any]:
        recursions = self.core.recursions
        if self.core.held or not self._plain:
            return recursions.response, recursions.velocity.jvp, recursions.momentum.jvp
        return self._rates, recursions.response, self._coriolis, recursions.dense(inverse_inertia_rate)


def _three(out: Any) -> Sequence[Any]:
    if not isinstance(out, (tuple, list)) or len(out) != len(TaskDynamics._fields):
        given = f"{len(out)} arrays" if isinstance(out, (tuple, list)) else type(out).__name__
        raise InputError(f"dynamics: out is a tuple of three arrays, for Λ, J̄ and N; got {given}")
    return out
