"""What users call: a quantity of one robot, computed by the engine of their choice.

The native engine is the default. `f.engine("reference")` is the same function on the reference engine, which also
takes complex and other scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, Signature
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

import numpy as np

from kinetree.engines import arguments, reference
from kinetree.engines.count import Count, count
from kinetree.engines.native.builtin import Gate
from kinetree.engines.native.compiled import Compiled, standard_arithmetic
from kinetree.engines.native.kernels import bind
from kinetree.engines.native.locks import Lock
from kinetree.errors import InputError, UnknownNameError
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.spatial.value import Array

if TYPE_CHECKING:
    from typing_extensions import Self

ENGINES = ("native", "reference")


_F = TypeVar("_F", bound="Function")


class quantity(Generic[_F]):
    """A function as an attribute: made when first read, then kept. Two threads that read it at once get the same one.

    Args:
        make: A method that makes the function; its name is the attribute's.
    """

    def __init__(self, make: Callable[[Any], _F]) -> None:
        self._make, self._name, self.__doc__ = make, make.__name__, make.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _F: ...
    def __get__(self, instance: object | None, owner: type) -> _F | Self:
        if instance is None:
            return self
        made = self._make(instance)
        made.belong(instance, self._name)
        kept: _F = instance.__dict__.setdefault(self._name, made)
        return kept


class Function(Gate):
    """A function of arrays. Leading axes of its inputs are batch axes, and broadcast like NumPy's.

    Calls of single, plain samples on the native engine go through a `Gate` into machine code; all others come to
    `general`.

    Args:
        name: What users call it.
        mechanism: The robot.
        algorithm: The recursion that computes it.
        guard: Called with the mechanism before first use; raises if the function cannot exist for it.
        finish: Applied to what the recursion gives.
        derivatives: The recursions of `jvp`, `vjp` and `hvp`, where they exist.
    """

    def __init__(
        self,
        name: str,
        mechanism: Mechanism,
        algorithm: Algorithm,
        *,
        guard: Callable[[Mechanism], None] | None = None,
        finish: Callable[[Array], Array] | None = None,
        derivatives: Mapping[str, Algorithm] | None = None,
    ) -> None:
        self.name, self.mechanism, self.algorithm = name, mechanism, algorithm
        self._guard, self._finish = guard, finish
        self._derivatives = dict(derivatives or {})
        self._engine = "native"
        self._home: tuple[object, str] | None = None
        self._bound: dict[Any, Compiled | _Interpreted] = {}
        self._lock = Lock()
        self._arrays = _arrays(algorithm)
        self._names = (*self._arrays, *self.choices)

    #: What may be chosen besides the arrays.
    choices: ClassVar[tuple[str, ...]] = ()

    def general(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Compute, whatever the arguments are like."""
        return self._run((), self.algorithm, self._arguments(inputs, named), out)

    @property
    def __signature__(self) -> Signature:
        """What help and editors show."""
        arrays = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in self._arrays]
        choices = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None) for name in self.choices]
        return Signature([*arrays, *choices, Parameter("out", Parameter.KEYWORD_ONLY, default=None)])

    def _arguments(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """The arrays, then the choices (None where not given), by position or by name."""
        names = self._names
        if not named and len(self._arrays) <= len(inputs) <= len(names):
            return [*inputs, *[None] * (len(names) - len(inputs))]
        values = dict(zip(names, inputs, strict=False))
        wrong = [name for name in named if name in values or name not in names]
        if wrong or len(inputs) > len(names):
            got = f"{wrong[0]!r} besides" if wrong else f"{len(inputs)} arguments"
            raise InputError(f"{self.name} takes ({', '.join((*names, 'out'))}), each once; got {got}")
        values.update(named)
        if any(name not in values for name in self._arrays):
            listed = ", ".join(self._arrays)
            raise InputError(f"{self.name} takes {len(self._arrays)} inputs ({listed}), got {len(values)}")
        return [values.get(name) for name in names]

    def engine(self, name: str) -> Self:
        """The same function on another engine: "native" or "reference"."""
        if name not in ENGINES:
            raise UnknownNameError("engine", name, ENGINES)
        if name == self._engine:
            return self
        return self._copy(_engine=name)

    # Functions never change: a copy is the function itself, and another process finds it where it belongs.

    def belong(self, owner: object, path: str) -> None:
        """Say where this function can be found again, so that it can be pickled.

        Args:
            owner: A model, or whatever else has this function and can be pickled.
            path: The attribute that it is there, with dots for attributes of attributes.
        """
        self._home = owner, path

    def __reduce__(self) -> tuple[Any, ...]:
        if self._home is None:
            raise TypeError(f"{self.name} belongs to no model and cannot be pickled; make it again from its algorithm")
        return _recall, (*self._home, self._engine)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def _copy(self, **changes: Any) -> Self:
        """A function that differs in some respects, with nothing bound yet."""
        other = type(self).__new__(type(self))
        state = {name: value for name, value in self.__getstate__().items() if not isinstance(value, Function)}
        other.__dict__.update({**state, "_bound": {}, "_ready": {}, "_lock": Lock(), **changes})
        return other

    @quantity
    def jvp(self) -> Function:
        """The derivative along a direction, as a function: it takes the inputs, then a direction of each."""
        return self._derivative("jvp")

    @quantity
    def vjp(self) -> Function:
        """The gradients of a weighted sum of results, as a function: it takes the inputs, then the weights."""
        return self._derivative("vjp")

    @quantity
    def hvp(self) -> Function:
        """The change of the gradients along a direction, as a function: it takes what `vjp` takes, then a direction."""
        return self._derivative("hvp")

    def _derivative(self, which: str) -> Function:
        if which not in self._derivatives:
            raise AttributeError(f"{self.name} has no {which}")
        algorithm = self._derivatives[which]
        arrays = _arrays(algorithm)
        return self._copy(
            name=f"{self.name}.{which}",
            algorithm=algorithm,
            _derivatives={},
            _arrays=arrays,
            _names=(*arrays, *self.choices),
        )

    def compile(self) -> None:
        """Compile now what later calls need."""
        bound = self._bind((), self.algorithm, False)
        bound.compile()

    def count(self) -> Count:
        """Operations of one evaluation."""
        return count(self.algorithm, self.mechanism)

    def __repr__(self) -> str:
        return f"<{self.name} on the {self._engine} engine>"

    def _run(
        self, sites: tuple[Site, ...], algorithm: Algorithm, inputs: Sequence[Any], out: Any, single: bool = False
    ) -> Any:
        bound = self._bound.get((algorithm, sites, single)) or self._bind(sites, algorithm, single)
        if self._finish is None:
            return bound(*inputs) if out is None else bound(*inputs, out=out)
        computed = bound(*inputs)
        with standard_arithmetic():  # a sample with NaN gives NaN, as everywhere
            result = self._finish(computed)
        if out is None:
            return result
        (given,) = arguments.results(self.name, out, ("result",), (np.shape(result),), np.asarray(result).dtype)
        given[...] = result
        return given

    def _bind(self, sites: tuple[Site, ...], algorithm: Algorithm, single: bool) -> Compiled | _Interpreted:
        key = algorithm, sites, single
        with self._lock:
            if key not in self._bound:
                if self._guard is not None:
                    self._guard(self.mechanism)
                if self._engine == "native":
                    bound = self._bound[key] = bind(algorithm, self.mechanism, sites, self.name, single)
                    if self._finish is None and self._is_default(*key):
                        self.follow(bound)
                else:
                    self._bound[key] = _Interpreted(self.name, algorithm, self.mechanism, sites, single)
            return self._bound[key]

    def _is_default(self, algorithm: Algorithm, sites: tuple[Site, ...], single: bool) -> bool:
        """Whether this is what a call with arrays alone means."""
        return algorithm is self.algorithm and not sites and not single


def _recall(owner: object, path: str, engine: str) -> Function:
    """Find a function that was pickled."""
    found: Function = attrgetter(path)(owner)
    return found.engine(engine)


def _arrays(algorithm: Algorithm) -> tuple[str, ...]:
    """Names of the arrays that users give."""
    return tuple(a.name for a in algorithm.inputs if "frames" not in a.dimensions)


class ForcedFunction(Function):
    """A function with external wrenches: `f_ext` maps names of frames to wrenches [moment; force] on the body.

    Args:
        site: Finds a frame by name.
    """

    def __init__(
        self, name: str, mechanism: Mechanism, algorithm: Algorithm, *, site: Callable[[str], Site], **options: Any
    ) -> None:
        super().__init__(name, mechanism, algorithm, **options)
        self._site = site

    choices = ("f_ext",)

    def general(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Compute, with wrenches on frames if there are any."""
        *arrays, f_ext = self._arguments(inputs, named)
        if f_ext is not None and not isinstance(f_ext, Mapping):
            raise InputError(f"{self.name}: f_ext maps names of frames to wrenches, got {type(f_ext).__name__}")
        if not f_ext:
            return self._run((), self.algorithm, arrays, out)
        sites = tuple(self._site(name) for name in f_ext)
        kinds = "fiu" if self._engine == "native" else "fiucO"
        wrenches = [arguments.numbers(self.name, f"the wrench on {name!r}", w, kinds) for name, w in f_ext.items()]
        for name, w in zip(f_ext, wrenches, strict=True):
            if w.ndim < 1 or w.shape[-1] != 6:
                raise InputError(f"{self.name}: the wrench on {name!r} has shape {w.shape}, expected (..., 6)")
        try:
            stacked = np.stack(np.broadcast_arrays(*wrenches), axis=-2)
        except ValueError:
            shapes = ", ".join(f"{name} {w.shape}" for name, w in zip(f_ext, wrenches, strict=True))
            raise InputError(f"{self.name}: batch shapes of wrenches do not broadcast: {shapes}") from None
        return self._run(sites, self.algorithm, (*arrays, stacked), out)


class FrameFunction(Function):
    """A function of frames, by default all of them, seen from a reference.

    Args:
        algorithms: The recursion for each reference.
        site: Finds a frame by name.
        frames: Names of all frames.
    """

    def __init__(
        self,
        name: str,
        mechanism: Mechanism,
        algorithms: Mapping[str, Algorithm],
        *,
        site: Callable[[str], Site],
        frames: tuple[str, ...],
    ) -> None:
        super().__init__(name, mechanism, next(iter(algorithms.values())))
        self._algorithms, self._site = dict(algorithms), site
        self._all = tuple(site(name) for name in frames)
        self._ready: dict[Any, Callable[..., Any]] = {}

    choices = ("frames", "reference")

    def general(self, *inputs: Any, frames: Any = None, reference: Any = None, out: Any = None, **named: Any) -> Any:
        """Compute, for the frames and the reference chosen."""
        arrays: Any = inputs
        if named or len(inputs) != len(self._arrays):
            chosen = {"frames": frames, "reference": reference}
            named.update((name, choice) for name, choice in chosen.items() if choice is not None)
            *arrays, frames, reference = self._arguments(inputs, named)
        if isinstance(frames, str):
            raise InputError(f"{self.name}: frames is a sequence of names; for one frame write [{frames!r}]")
        bound = self._chosen(None if frames is None else tuple(frames), reference)
        return bound(*arrays) if out is None else bound(*arrays, out=out)

    def _chosen(
        self, frames: tuple[str, ...] | None, reference: str | None, single: bool = False
    ) -> Callable[..., Any]:
        """What computes a choice of frames and reference; found at once when it was asked for before."""
        try:
            return self._ready[frames, reference]
        except (KeyError, TypeError):
            bound = self._bind(self._sites(frames), self._for(reference), single)
            self._ready[frames, reference] = bound
            return bound

    def _is_default(self, algorithm: Algorithm, sites: tuple[Site, ...], single: bool) -> bool:
        return algorithm is self.algorithm and sites is self._all and not single

    def compile(self) -> None:
        """Compile for all frames."""
        for algorithm in self._algorithms.values():
            bound = self._bind(self._sites(None), algorithm, False)
            bound.compile()

    def count(self, frames: Iterable[str] | None = None, reference: str | None = None) -> Count:
        """Operations of one evaluation."""
        return count(self._for(reference), self.mechanism, self._sites(frames))

    def _for(self, reference: str | None) -> Algorithm:
        if reference is None:
            return self.algorithm
        try:
            return self._algorithms[reference]
        except (KeyError, TypeError):
            raise UnknownNameError("reference", reference, tuple(self._algorithms)) from None

    def _sites(self, frames: Iterable[str] | None) -> tuple[Site, ...]:
        return self._all if frames is None else tuple(self._site(name) for name in frames)


class OneFrameFunction(FrameFunction):
    """A function of one frame, seen from a reference; results have no axis for frames."""

    choices = ("frame", "reference")

    def general(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Compute, for the frame and the reference chosen."""
        # The commonest case, a frame in its own coordinates, is found by its name alone.
        if out is None and not named and len(inputs) == len(self._arrays) + 1 and isinstance(inputs[-1], str):
            bound = self._ready.get(inputs[-1])
            if bound is not None:
                return bound(*inputs[:-1])
        *arrays, frame, reference = self._arguments(inputs, named)
        if not isinstance(frame, str):
            raise InputError(f"{self.name} takes the name of a frame after its arrays, got {type(frame).__name__}")
        bound = self._chosen((frame,), reference, single=True)
        if reference is None:
            self._ready[frame] = bound
        return bound(*arrays) if out is None else bound(*arrays, out=out)

    def _is_default(self, *_: Any) -> bool:
        return False  # a frame is always named

    def compile(self) -> None:
        """Compile the kernels, which all frames share."""
        for algorithm in self._algorithms.values():
            bound = self._bind(self._all[-1:], algorithm, True)
            bound.compile()


class _Interpreted:
    """An algorithm on the reference engine, with the interface of compiled ones."""

    def compile(self) -> None:
        """Nothing to do: the text runs as it stands."""

    def __init__(
        self, name: str, algorithm: Algorithm, mechanism: Mechanism, sites: tuple[Site, ...], single: bool
    ) -> None:
        self.name, self.algorithm, self.mechanism, self.sites, self.single = name, algorithm, mechanism, sites, single

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        names = [a.name for a in self.algorithm.inputs if self.sites or "frames" not in a.dimensions]
        if len(inputs) != len(names):
            raise InputError(f"{self.name} takes {len(names)} inputs ({', '.join(names)}), got {len(inputs)}")
        given = zip(names, inputs, strict=True)
        taken = [arguments.numbers(self.name, name, value, "fiucO") for name, value in given]
        if not self.sites:
            for i, argument in enumerate(self.algorithm.inputs):
                if "frames" in argument.dimensions:
                    taken.insert(i, np.zeros((0, 6)))
        with np.errstate(all="ignore"):
            computed = reference.run(self.algorithm, self.mechanism, self.sites, taken, self.name)
        if self.single:
            axes = [len(a.dimensions) - a.dimensions.index("frames") for a in self.algorithm.outputs]
            computed = tuple(np.squeeze(r, axis=-axis) for r, axis in zip(computed, axes, strict=True))
        if out is not None:
            shapes, dtype = [result.shape for result in computed], computed[0].dtype
            results = arguments.results(self.name, out, [a.name for a in self.algorithm.outputs], shapes, dtype)
            for given_array, result in zip(results, computed, strict=True):
                given_array[...] = result
            return out
        return computed[0] if len(computed) == 1 else computed
