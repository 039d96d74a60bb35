"""Decorators that turn a method's signature and docstring, together with a recursion, into a `Function` attribute.

    class Robot:
        @quantity(mass_matrix)
        def mass_matrix(self, q: ArrayLike, *, out: Array | None = None) -> Array:
            ``Joint-space inertia, (…, nv, nv).``

`robot.mass_matrix` is then a `Function` with that signature and docstring, for users, editors and type checkers alike.
It is created on first access and kept. Its owner must have a `mechanism` and, for functions of frames, `site` and
`frames`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from kinetree.language.algorithm import Algorithm
from kinetree.language.common_frame import View, in_view
from kinetree.language.mechanism import Mechanism
from kinetree.runtime.forward_derivatives import jvp
from kinetree.runtime.function import DERIVATIVES, ForcedFunction, FrameFunction, Function
from kinetree.runtime.gradients import vjp
from kinetree.spatial.value import Array

if TYPE_CHECKING:
    from typing_extensions import Self

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound="Function[..., Any]", covariant=True)

#: A method without a body, which supplies the signature and the docstring.
Declared = Callable[Concatenate[Any, P], R]
Guard = Callable[[Mechanism], None]


DERIVATIVES.update(jvp=jvp, vjp=vjp)


class Quantity(Generic[F]):
    """A descriptor for a function, created once per instance even if several threads access it at once."""

    def __init__(self, make: Callable[[Any], F], name: str, doc: str | None) -> None:
        self._make, self._name, self.__doc__ = make, name, doc

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> F: ...
    def __get__(self, instance: object | None, owner: type) -> F | Self:
        if instance is None:
            return self
        made = self._make(instance)
        made.belong(instance, self._name)
        kept: F = instance.__dict__.setdefault(self._name, made)
        return kept


def quantity(
    algorithm: Algorithm,
    *,
    guard: Guard | None = None,
    bundle: type[tuple[Any, ...]] = tuple,
    view: View = "own",
    kind: type[Function[..., Any]] = Function,
) -> Callable[[Declared[P, R]], Quantity[Function[P, R]]]:
    """Declare a function of arrays; see `Function` for the arguments."""

    def make(owner: Any, described: dict[str, Any]) -> Function[..., Any]:
        text = in_view(algorithm, owner.mechanism, view)
        return kind(mechanism=owner.mechanism, algorithm=text, guard=guard, bundle=bundle, **described)

    return _declared(make)  # type: ignore[return-value]


def forced_quantity(
    algorithm: Algorithm,
    *,
    guard: Guard | None = None,
    bundle: type[tuple[Any, ...]] = tuple,
    kind: Callable[..., ForcedFunction[..., Any]] = ForcedFunction,
    view: View = "own",
) -> Callable[[Declared[P, R]], Quantity[ForcedFunction[P, R]]]:
    """Declare a function with external wrenches, of a kind; see `Function` for the arguments."""

    def make(owner: Any, described: dict[str, Any]) -> ForcedFunction[..., Any]:
        given = {"algorithm": in_view(algorithm, owner.mechanism, view), "guard": guard, "bundle": bundle}
        return kind(mechanism=owner.mechanism, site=owner.site, **given, **described)

    return _declared(make)  # type: ignore[return-value]


def differentiable_quantity(
    algorithm: Algorithm,
    derivatives: Mapping[str, Algorithm],
    gradients: type[tuple[Any, ...]],
    *,
    guard: Guard | None = None,
) -> Callable[[Declared[P, R]], Quantity[DifferentiableFunction[P, R]]]:
    """Declare a function with external wrenches and derivatives; see `DifferentiableFunction` for the arguments."""

    def make(owner: Any, described: dict[str, Any]) -> DifferentiableFunction[..., Any]:
        given: dict[str, Any] = {"guard": guard, "derivatives": derivatives, "gradients": gradients}
        return DifferentiableFunction(
            mechanism=owner.mechanism, algorithm=algorithm, site=owner.site, **given, **described
        )

    return _declared(make)  # type: ignore[return-value]


def frame_quantity(
    algorithms: Algorithm | Mapping[str, Algorithm],
    frames: Callable[[Any], tuple[str, ...]] | None = None,
    *,
    classical: Mapping[str, Algorithm] = MappingProxyType({}),
    bundle: type[tuple[Any, ...]] = tuple,
    view: View | Mapping[str, View] = "own",
    of: Callable[[Any], Any] = lambda owner: owner,
    kind: type[FrameFunction[..., Any]] = FrameFunction,
) -> Callable[[Declared[P, R]], Quantity[FrameFunction[P, R]]]:
    """Declare a function of frames.

    Args:
        algorithms: The recursion, or one for each reference.
        frames: Gives the owner's default frames, used when none are named; by default all.
        classical: The recursions used with `classical=True`.
        bundle: Type of several results.
        view: In which coordinates the recursions run; it may depend on the reference.
        of: Gives what has the mechanism and the sites of an owner, if that is not the owner itself.
        kind: The class of the function.
    """
    by_reference = {"local": algorithms} if isinstance(algorithms, Algorithm) else algorithms
    views = view if isinstance(view, Mapping) else dict.fromkeys(by_reference, view)

    def make(owner: Any, described: dict[str, Any]) -> FrameFunction[..., Any]:
        robot = of(owner)

        def seen(texts: Mapping[str, Algorithm]) -> dict[str, Algorithm]:
            return {r: in_view(text, robot.mechanism, views[r]) for r, text in texts.items()}

        names = robot.frames if frames is None else frames(owner)
        given = {"site": robot.site, "frames": names, "classical": seen(classical), "bundle": bundle}
        return kind(mechanism=robot.mechanism, algorithms=seen(by_reference), **given, **described)

    return _declared(make)  # type: ignore[return-value]


def _declared(make: Callable[[Any, dict[str, Any]], F]) -> Callable[[Callable[..., Any]], Quantity[F]]:
    """A decorator for methods without a body; `make` takes the owner, and the name, signature and docstring."""

    def declare(declared: Callable[..., Any]) -> Quantity[F]:
        return Quantity(lambda owner: make(owner, _described(declared)), declared.__name__, declared.__doc__)

    return declare


@cache
def _described(declared: Callable[..., Any]) -> dict[str, Any]:
    signature = inspect.signature(declared)
    _, *parameters = signature.parameters.values()
    return {
        "name": declared.__name__,
        "signature": signature.replace(parameters=parameters),
        "doc": inspect.getdoc(declared),
    }


def _derivative(declared: Callable[[Any], F]) -> Quantity[F]:
    return Quantity(declared, declared.__name__, declared.__doc__)


class DifferentiableFunction(ForcedFunction[P, R]):
    """A function with external wrenches and directional derivatives.

    Args:
        derivatives: The recursions of `jvp`, `vjp` and `hvp`.
        gradients: Named tuple for the results of `vjp` and `hvp`.
    """

    def __init__(
        self,
        name: str,
        mechanism: Mechanism,
        algorithm: Algorithm,
        *,
        derivatives: Mapping[str, Algorithm],
        gradients: type[tuple[Any, ...]],
        **options: Any,
    ) -> None:
        super().__init__(name, mechanism, algorithm, **options)
        self._derivatives, self._gradients = dict(derivatives), gradients

    @_derivative
    def jvp(self) -> ForcedFunction[..., Array]:
        """Directional derivative of the result, (…, nv); takes the inputs, then a direction for each."""
        return self._derived("jvp", tuple)

    @_derivative
    def vjp(self) -> ForcedFunction[..., Any]:
        """Gradients of the weighted sum of the result, (…, nv) each; takes the inputs, then the weights."""
        return self._derived("vjp", self._gradients)

    @_derivative
    def hvp(self) -> ForcedFunction[..., Any]:
        """Directional derivatives of the gradients, (…, nv) each; takes the arguments of `vjp`, then a direction."""
        return self._derived("hvp", self._gradients)

    def _derived(self, which: str, bundle: type[tuple[Any, ...]]) -> ForcedFunction[..., Any]:
        derived: ForcedFunction[..., Any] = ForcedFunction(
            f"{self.name}.{which}",
            self.mechanism,
            self._derivatives[which],
            site=self._site,
            guard=self._guard,
            bundle=bundle,
            doc=vars(DifferentiableFunction)[which].__doc__,
        )
        return derived.engine(self._engine)
