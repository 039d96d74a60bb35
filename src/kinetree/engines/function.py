"""`Function`, the callable behind every quantity of a robot, on the engine of the user's choice.

The native engine is the default. `f.engine("reference")` is the same function on the reference engine, which also
accepts complex and other scalars, and computes in float64 at least, whatever the robot's type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import numpy as np

from kinetree.engines import arguments
from kinetree.engines.collector import gc_paused
from kinetree.engines.count import Count, count
from kinetree.engines.formats import format_of
from kinetree.engines.interpreted import Interpreted
from kinetree.engines.locks import Lock
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.gate import MISSING, Gate
from kinetree.engines.native.kernels import bind
from kinetree.engines.straight import Specialization, specialization
from kinetree.errors import InputError, UnknownNameError
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site

if TYPE_CHECKING:
    from typing_extensions import Self

ENGINES = ("native", "reference")

#: Choices of frames that are kept with their tables for later calls; beyond this number all are dropped.
CHOICES_KEPT = 256

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Function(Gate, Generic[P, R]):
    """A function of arrays. Leading axes of its inputs are batch axes, which broadcast as in NumPy.

    On the native engine, calls with single contiguous samples go through a `Gate` straight into machine code; all
    others go to `general`.

    Args:
        name: Its public name.
        mechanism: The robot.
        algorithm: The recursion that computes it.
        guard: Called with the mechanism before first use; raises if the function is not defined for it.
        bundle: Type of several results: `tuple`, or a named tuple.
        signature: Its signature; by default the algorithm's inputs and `out`.
        doc: Its docstring.
    """

    #: Optional arguments besides the arrays.
    choices: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        mechanism: Mechanism,
        algorithm: Algorithm,
        *,
        guard: Callable[[Mechanism], None] | None = None,
        bundle: type[tuple[Any, ...]] = tuple,
        signature: Signature | None = None,
        doc: str | None = None,
    ) -> None:
        self.name, self.mechanism, self.algorithm = name, mechanism, algorithm
        self._guard, self._bundle = guard, bundle
        self._engine = "native"
        self._home: tuple[object, str] | None = None
        self._bound: dict[Any, Compiled | Interpreted] = {}
        self._lock = Lock()
        self._describe(signature, doc)

    def _describe(self, signature: Signature | None, doc: str | None) -> None:
        """Set the signature and docstring, which help and editors show and calls are checked against."""
        self._arrays = tuple(a.name for a in self.algorithm.inputs if "frames" not in a.dimensions)
        if signature is None:
            arrays = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in self._arrays]
            choices = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None) for name in self.choices]
            signature = Signature([*arrays, *choices, Parameter("out", Parameter.KEYWORD_ONLY, default=None)])
        taken = [parameter for parameter in signature.parameters.values() if parameter.name != "out"]
        self._names = tuple(parameter.name for parameter in taken)
        self._defaults = {p.name: p.default for p in taken if p.default is not Parameter.empty}
        self.__signature__, self.__name__, self.__doc__ = signature, self.name, doc or type(self).__doc__

    if TYPE_CHECKING:

        def __call__(self, *inputs: P.args, **named: P.kwargs) -> R: ...

    def general(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Compute, with any valid arguments. Dask arrays give lazy results; see `kinetree.engines.dask`."""
        for value in inputs:
            if type(value) not in arguments.PLAIN and arguments.is_lazy(value):
                break
        else:
            if not named or not any(map(arguments.is_lazy, named.values())):
                return self._compute(inputs, named, out)
        from kinetree.engines import dask

        return dask.call(self, dict(zip(self._names, self._arguments(inputs, named))), self.ranks, out)

    def _compute(self, inputs: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        """Compute, with arguments that are in memory."""
        return self._run((), self.algorithm, self._arguments(inputs, named), out)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The type that the native engine computes in."""
        return format_of(self.mechanism).dtype

    @property
    def ranks(self) -> dict[str, int]:
        """The number of axes of one sample of each array."""
        return {argument.name: len(argument.dimensions) for argument in self.algorithm.inputs}

    def parameters(self) -> tuple[tuple[str, object], ...]:
        return tuple((name, self._defaults.get(name, MISSING)) for name in self._names)

    def _arguments(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """The value of each parameter of the signature: given by position or by name, or the default."""
        names, rest = self._names, self._names[len(inputs) :]
        if not named and len(inputs) == len(names):
            return list(inputs)
        fits = len(inputs) <= len(names) and named.keys() <= set(rest)
        if fits and all(name in named or name in self._defaults for name in rest):
            return [*inputs, *(named[name] if name in named else self._defaults[name] for name in rest)]
        values = dict(zip(names, inputs, strict=False))
        wrong = [name for name in named if name not in names]
        twice = [name for name in named if name in values]
        values.update(named)
        missing = [name for name in names if name not in values and name not in self._defaults]
        if wrong or twice or missing or len(inputs) > len(names):
            problem = (
                f"takes no {wrong[0]!r}" if wrong
                else f"got {twice[0]!r} twice" if twice
                else f"needs {' and '.join(missing)}" if missing
                else f"got {len(inputs)} arguments"
            )  # fmt: skip
            raise InputError(f"{self.name} {problem}; it takes ({', '.join((*names, 'out'))})")
        return [values[name] if name in values else self._defaults[name] for name in names]

    def engine(self, name: str) -> Self:
        """The same function on another engine: "native" or "reference"."""
        if name not in ENGINES:
            raise UnknownNameError("engine", name, ENGINES)
        if name == self._engine:
            return self
        return self._copy(_engine=name)

    # Functions are immutable: a copy is the function itself, and pickling refers to the attribute of its owner.

    def belong(self, owner: object, path: str) -> None:
        """Set the attribute through which another process finds this function when it is unpickled.

        Args:
            owner: The model, or another picklable object that has this function.
            path: The attribute's name, with dots for attributes of attributes.
        """
        self._home = owner, path

    def __reduce__(self) -> tuple[Any, ...]:
        if self._home is None:
            raise TypeError(
                f"{self.name} belongs to no model and cannot be pickled; recreate it from its algorithm instead"
            )
        return _recall, (*self._home, self._engine)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def _copy(self, **changes: Any) -> Self:
        """A copy with some attributes changed and nothing bound yet."""
        other = type(self).__new__(type(self))
        state = {name: value for name, value in self.__getstate__().items() if not isinstance(value, Function)}
        other.__dict__.update({**state, "_bound": {}, "_ready": {}, "_lock": Lock(), **changes})
        return other

    def bound(self) -> Any:
        """The recursion for arrays alone, without the conveniences of a call: what bridges to other libraries run."""
        return self._bound.get((self.algorithm, (), False)) or self._bind((), self.algorithm, False)

    def compile(self) -> None:
        """Compile now what later calls will need."""
        self._bind((), self.algorithm, False).compile()

    def count(self) -> Count:
        """Operations of one evaluation."""
        return count(self.algorithm, self.mechanism)

    def specialization(self) -> Specialization:
        """The code on which it runs, and why: straight-line code for this robot, or code that robots share."""
        return specialization(self.algorithm, self.mechanism, ())

    def require(self) -> None:
        """Raise if the function is not defined for this mechanism."""
        self.algorithm.require(self.mechanism, self.name)
        if self._guard is not None:
            self._guard(self.mechanism)

    if not TYPE_CHECKING:  # type checkers would accept any attribute

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{self.__dict__.get('name', type(self).__name__)} has no {name}", name=name, obj=self)

    def __repr__(self) -> str:
        plain = [p.replace(annotation=Parameter.empty) for p in self.__signature__.parameters.values()]
        return f"<{self.name}{Signature(plain)} on the {self._engine} engine>"

    def _run(
        self, sites: tuple[Site, ...], algorithm: Algorithm, inputs: Sequence[Any], out: Any, single: bool = False
    ) -> Any:
        bound = self._bound.get((algorithm, sites, single))
        if bound is not None:
            return bound(*inputs) if out is None else bound(*inputs, out=out)
        bound = self._bind(sites, algorithm, single)
        result = bound(*inputs) if out is None else bound(*inputs, out=out)
        if self._engine == "native":  # not before: other threads may still compile the code that calls are passed to
            self.call_from_machine_code()
        return result

    def _bind(self, sites: tuple[Site, ...], algorithm: Algorithm, single: bool) -> Compiled | Interpreted:
        key = algorithm, sites, single
        with self._lock, gc_paused():  # tables of a large robot are made from millions of objects
            bound = self._bound.get(key)
            if bound is None:
                algorithm.require(self.mechanism, self.name)
                if self._guard is not None:
                    self._guard(self.mechanism)
                if len(self._bound) >= CHOICES_KEPT:
                    self._bound.clear()
                whole = len(algorithm.outputs) == len(self.algorithm.outputs)
                bundle = self._bundle if whole else tuple  # stages of a computation have results of their own
                if self._engine == "native":
                    bound = bind(algorithm, self.mechanism, sites, self.name, single, bundle)
                    rest = self._names[len(bound.binding.inputs) :]
                    if self._is_default(*key) and set(rest) <= set(self._defaults):
                        self.follow(bound, tuple(self._defaults[name] for name in rest))
                else:
                    bound = Interpreted(self.name, algorithm, self.mechanism, sites, single, bundle)
                self._bound[key] = bound
            return bound

    def _is_default(self, algorithm: Algorithm, sites: tuple[Site, ...], single: bool) -> bool:
        """Whether a call with nothing but arrays means this choice."""
        return algorithm is self.algorithm and not sites and not single


def _recall(owner: object, path: str, engine: str) -> Function[..., Any]:
    """Restore a pickled function."""
    found: Function[..., Any] = attrgetter(path)(owner)
    return found.engine(engine)


class AnalyticFunction(Function[P, R]):
    """A function that takes complex numbers as well: those go to the reference engine."""

    def _compute(self, inputs: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        """Compute, whatever the arguments are like."""
        given = self._arguments(inputs, named)
        if self._engine == "native" and any(_is_complex(value) for value in given):
            return self.engine("reference")._run((), self.algorithm, given, out)
        return self._run((), self.algorithm, given, out)


def _is_complex(value: Any) -> bool:
    """Whether something that may be an array holds complex numbers."""
    if isinstance(value, np.ndarray):
        return bool(value.dtype.kind == "c")
    if isinstance(value, (list, tuple)):
        return any(map(_is_complex, value))
    return isinstance(value, (complex, np.complexfloating))
