"""`Function`, the callable behind every quantity of a robot, on the engine of the user's choice.

The native engine is the default. `f.engine("reference")` is the same function on the reference engine, which also
accepts complex and other scalars, and computes in float64 at least, whatever the robot's type.

Besides arrays, some take external wrenches on frames, others frames and a reference, by name at each call. Kernels of
`kinetree.kernels` become functions by `compiled`, for given sizes.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from inspect import Parameter, Signature
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import numpy as np

from kinetree.compiler.c99.source import CSource, Exported
from kinetree.compiler.count import Count, count
from kinetree.compiler.formats import format_named, format_of
from kinetree.compiler.specialize import Specialization, specialization
from kinetree.concurrency import ForkSafeLock, gc_paused, give_way
from kinetree.errors import InputError, UnknownNameError
from kinetree.kernels.language import Kernel
from kinetree.language.algorithm import Algorithm, with_constants
from kinetree.language.mechanism import Mechanism, Site, Sizes
from kinetree.runtime import arguments
from kinetree.runtime.bound import Compiled
from kinetree.runtime.fastcall import MISSING, Gate, Keys
from kinetree.runtime.kernels import bind
from kinetree.runtime.reference import Interpreted
from kinetree.spatial.value import Array

if TYPE_CHECKING:
    from typing_extensions import Self


ENGINES = ("native", "reference")

#: Choices of frames that are kept with their tables for later calls; beyond this number all are dropped.
CHOICES_KEPT = 256

#: What makes `jvp` and `vjp` of a function; `runtime.quantity` fills it.
DERIVATIVES: dict[str, Callable[[Any], Any]] = {}

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
    #: The frames of functions whose frames are fixed.
    sites: tuple[Site, ...] = ()

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
        self._lock = ForkSafeLock()
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
        """Compute, with any valid arguments. Dask arrays give lazy results; see `kinetree.runtime.dask`."""
        for value in inputs:
            if type(value) not in arguments.PLAIN and arguments.is_lazy(value):
                break
        else:
            if not named or not any(map(arguments.is_lazy, named.values())):
                return self._compute(inputs, named, out)
        from kinetree.runtime import dask

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
        """Set owner and attribute (with dots if nested) through which another process finds this function again."""
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
        other.__dict__.update({**state, "_bound": {}, "_ready": {}, "_lock": ForkSafeLock(), **changes})
        return other

    def bound(self, *, constants: bool = False) -> Any:
        """The recursion for arrays alone, without the conveniences of a call: what bridges to other libraries run.

        With `constants`, those of the nodes and gravity are its last input; see `with_constants`.
        """
        return self._bind_with((), self.algorithm, False, constants)

    def _bind_with(self, sites: tuple[Site, ...], algorithm: Algorithm, single: bool, constants: bool) -> Any:
        text = with_constants(algorithm) if constants else algorithm
        return self._bound.get((text, sites, single)) or self._bind(sites, text, single)

    def with_text(self, name: str, algorithm: Algorithm, **options: Any) -> Function[..., Any]:
        """Another function of the same robot."""
        return Function(name, self.mechanism, algorithm, **options)

    def compile(self) -> None:
        """Compile now what later calls will need."""
        self._bind((), self.algorithm, False).compile()

    def count(self) -> Count:
        """Operations of one evaluation."""
        return count(self.algorithm, self.mechanism)

    def specialization(self) -> Specialization:
        """The code on which it runs, and why: straight-line code for this robot, or code that robots share."""
        return specialization(self.algorithm, self.mechanism, ())

    @property
    def jvp(self) -> Function[..., Any]:
        """Rates of change of the results; takes the inputs, then a direction for each, that of q along the tangent."""
        derived: Function[..., Any] = self._derivative("jvp")
        return derived

    @property
    def vjp(self) -> Any:
        """Gradients of the weighted sum of the results; takes the inputs, then weights of the results' shape."""
        return self._derivative("vjp")

    def _derivative(self, which: str) -> Any:
        if f"_{which}" not in self.__dict__:
            self.__dict__.setdefault(f"_{which}", DERIVATIVES[which](self))
        return self.__dict__[f"_{which}"]

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
        give_way()
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


class ForcedFunction(Function[P, R]):
    """A function with external wrenches: `f_ext` maps frame names to wrenches [moment; force] acting on the body.

    Args:
        site: Finds a frame by name.
    """

    choices: tuple[str, ...] = ("f_ext",)

    def __init__(
        self, name: str, mechanism: Mechanism, algorithm: Algorithm, *, site: Callable[[str], Site], **options: Any
    ) -> None:
        super().__init__(name, mechanism, algorithm, **options)
        self._site = site

    def bound(self, frames: Sequence[str] = (), *, constants: bool = False) -> Any:
        """As of `Function`; with frames it takes their wrenches last of all, (…, m, 6), but for the constants."""
        return self._bind_with(tuple(self._site(name) for name in frames), self.algorithm, False, constants)

    def _compute(self, inputs: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        """Compute, with external wrenches if there are any."""
        *arrays, f_ext = self._arguments(inputs, named)
        sites, given = self._wrenches(f_ext)
        result = self._run(sites, self.algorithm, (*arrays, *given), out)
        if sites:
            self._follow_keys(self._bound[self.algorithm, sites, False], f_ext)
        return result

    def _follow_keys(self, bound: Any, f_ext: Mapping[str, Any], *choices: Any) -> None:
        """Let the next call with wrenches on the same frames go straight to machine code."""
        if isinstance(bound, Compiled):
            self.follow(bound, (*choices, Keys(f_ext)))

    def _wrenches(self, f_ext: Any) -> tuple[tuple[Site, ...], tuple[Array, ...]]:
        """The frames of `f_ext`, and its wrenches in one array; nothing where there are none."""
        if f_ext is not None and not isinstance(f_ext, Mapping):
            raise InputError(f"{self.name}: f_ext maps names of frames to wrenches, got {type(f_ext).__name__}")
        if not f_ext:
            return (), ()
        sites = tuple(self._site(name) for name in f_ext)
        kinds = "fiu" if self._engine == "native" else "fiucO"
        wrenches = [
            w if type(w) is np.ndarray and w.dtype.kind in kinds
            else arguments.numbers(self.name, f"the wrench on {name!r}", w, kinds)
            for name, w in f_ext.items()
        ]  # fmt: skip
        for name, w in zip(f_ext, wrenches, strict=True):
            arguments.require_shape(f"{self.name}: the wrench on {name!r}", w.shape, (6,))
        try:
            return sites, (np.stack(np.broadcast_arrays(*wrenches), axis=-2),)
        except ValueError:
            shapes = ", ".join(f"{name} {w.shape}" for name, w in zip(f_ext, wrenches, strict=True))
            raise InputError(f"{self.name}: batch shapes of wrenches do not broadcast: {shapes}") from None


class FrameFunction(Function[P, R]):
    """A function of frames: of one by name, or of a sequence of names, for which the result has an axis.

    Args:
        algorithms: The recursion for each reference.
        site: Finds a frame by name.
        frames: The default frames, for functions that can be called without naming any.
        classical: The recursions for `classical=True`, for functions that have this parameter after the reference.
    """

    choices: tuple[str, ...] = ("frames", "reference")

    def __init__(
        self,
        name: str,
        mechanism: Mechanism,
        algorithms: Mapping[str, Algorithm],
        *,
        site: Callable[[str], Site],
        frames: tuple[str, ...] = (),
        classical: Mapping[str, Algorithm] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name, mechanism, next(iter(algorithms.values())), **options)
        self._algorithms, self._classical, self._site = dict(algorithms), dict(classical or {}), site
        self._all = tuple(site(name) for name in frames)
        self._ready: dict[Any, Callable[..., Any]] = {}

    def _compute(self, inputs: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        """Compute for a choice of frames, reference and what else there is to choose."""
        known = len(self._arrays)
        if not named and known < len(inputs) <= len(self._names):
            arrays: Sequence[Any] = inputs[:known]
            frames, choice = inputs[known], inputs[known + 1 :]
        else:
            given = self._arguments(inputs, named)
            arrays, frames, choice = given[:known], given[known], tuple(given[known + 1 :])
        try:
            bound = self._ready[tuple(frames) if type(frames) is list else frames, choice]
        except (KeyError, TypeError):
            bound = self._chosen(frames, *choice)
        return bound(*arrays) if out is None else bound(*arrays, out=out)

    def _chosen(self, frames: Any, *choice: Any) -> Callable[..., Any]:
        """The bound function for a choice, kept for the next call."""
        single = isinstance(frames, str)
        if frames is None and self.needs_frames:
            raise InputError(f"{self.name}: frames is a name or a sequence of names, got None")
        sites = self._sites(frames)
        bound = self._bind(sites, self._for(*choice), single)
        if isinstance(bound, Compiled) and isinstance(frames, (str, tuple)):
            given = {**self._defaults, **dict(zip(self._names[len(self._arrays) :], (frames, *choice)))}
            self.follow(bound, tuple(given[name] for name in self._names[len(bound.binding.inputs) :]))
        if len(self._ready) >= CHOICES_KEPT:
            self._ready.clear()
        self._ready[frames if single or frames is None else tuple(site.name for site in sites), choice] = bound
        return bound

    def bound(
        self, frames: Any = None, reference: str | None = None, classical: bool = False, *, constants: bool = False
    ) -> Any:
        """As of `Function`, for a choice of frames and reference."""
        chosen = self._sites(frames), self._for(reference, classical), isinstance(frames, str)
        return self._bind_with(*chosen, constants)

    @property
    def needs_frames(self) -> bool:
        """Whether a call must name frames; otherwise there are default frames."""
        return "frames" not in self._defaults

    def _is_default(self, algorithm: Algorithm, sites: tuple[Site, ...], single: bool) -> bool:
        return not self.needs_frames and algorithm is self.algorithm and sites is self._all and not single

    def compile(self) -> None:
        """Compile the kernels, which all choices of frames share.

        Straight-line code is compiled for each choice when it is first made, since this is a part of it.
        """
        if self.needs_frames and self.mechanism.specialized:
            return
        for algorithm in (*self._algorithms.values(), *self._classical.values()):
            if self.needs_frames:
                self._bind(self._all[-1:], algorithm, True).compile()
            else:
                self._bind(self._all, algorithm, False).compile()

    def count(
        self, frames: str | Iterable[str] | None = None, reference: str | None = None, classical: bool = False
    ) -> Count:
        """Operations of one evaluation."""
        return count(self._for(reference, classical), self.mechanism, self._sites(frames))

    def specialization(
        self, frames: str | Iterable[str] | None = None, reference: str | None = None, classical: bool = False
    ) -> Specialization:
        """As of `Function`, for a choice of frames and reference."""
        return specialization(self._for(reference, classical), self.mechanism, self._sites(frames))

    def _for(self, reference: Any = None, classical: Any = False) -> Algorithm:
        # whatever equals one of them: choices made before are found by equality, too
        if not isinstance(classical, Hashable) or classical not in (True, False):
            raise InputError(f"{self.name}: classical is True or False, got {classical!r}")
        if classical and not self._classical:
            raise InputError(f"{self.name} takes no 'classical'")
        algorithms = self._classical if classical else self._algorithms
        if reference is None:
            return next(iter(algorithms.values()))
        if not isinstance(reference, str) or reference not in algorithms:
            raise UnknownNameError("reference", reference, tuple(algorithms))
        return algorithms[reference]

    def _sites(self, frames: Any) -> tuple[Site, ...]:
        if frames is None:
            return self._all
        return tuple(self._site(name) for name in arguments.frame_names(self.name, frames))


class KernelFunction(Function[..., Any]):
    """A kernel for given sizes. Leading axes of its inputs are batch axes, which broadcast as in NumPy.

    `f.engine("reference")` runs the text on NumPy's numbers, complex ones too; `f.count()` counts its operations.
    """

    def export_c(self, directory: Any, *sample: Any) -> tuple[Path, Path]:
        """Write a C99 header and source of the kernel for these sizes, with the same bits; returns both paths.

        Args:
            directory: The directory to write to, created if necessary.
            *sample: One array for each input. The source can check itself with them, and the results of this function.
        """
        bound = self.bound()
        inputs = [np.asarray(each, dtype=self.dtype) for each in sample]
        results = bound(*inputs)
        for operand, given in zip(bound.binding.inputs, inputs, strict=True):
            if given.shape != operand.shape:
                raise InputError(
                    f"{self.name}.export_c: {operand.name} is one sample, {operand.shape}; got {given.shape}"
                )
        text = " ".join((self.__doc__ or self.name).strip().split("\n\n")[0].split())
        outputs = results if isinstance(results, tuple) else (results,)
        run = Exported("run", self.algorithm, (), text, (inputs, outputs))
        told = [f"{self.name}: {text}", "", "Written by Kinetree. To change it, export it again."]
        return CSource(self.name, self.mechanism, [run], told, []).write(directory)

    def __reduce__(self) -> tuple[Any, ...]:
        module, name, kernel = self.algorithm.run.__module__, self.name, self.algorithm
        if getattr(sys.modules.get(module), name, None) is not kernel or not isinstance(kernel, Kernel):
            raise TypeError(f"{name} cannot be pickled: it is no attribute {name!r} of {module}")
        sizes, every = tuple(Sizes.of(self.mechanism).values()), Sizes.lists_of(self.mechanism)
        lists = tuple(tuple(every[one.key]) for one in kernel.lists if one.chosen is None)
        return _recalled, (module, name, self.mechanism.scalar, sizes, lists, self._engine)


def compiled(kernel: Kernel, dtype: Any = "float64", /, **sizes: Any) -> KernelFunction:
    """A function of arrays from a kernel. Nothing is compiled before it is called, and all sizes share the code.

    Args:
        kernel: The kernel.
        dtype: "float64" or "float32".
        **sizes: A number for each of the kernel's named sizes; the indices of its lists.

    Raises:
        InputError: If a size is missing, unknown, or no integer from zero on; if a list has indices that do not exist.
    """
    if not isinstance(kernel, Kernel):
        raise InputError(f"{kernel!r} is no kernel; declare it with @kinetree.kernel(…)")
    names = *kernel.sizes_named, *kernel.lists_given
    if set(sizes) != set(names):
        wanted = ", ".join(f"{name}=…" for name in names) or "no sizes"
        given = ", ".join(f"{name}={size!r}" for name, size in sizes.items()) or "none"
        raise InputError(f"compiled({kernel.name}, …) takes {wanted}; got {given}")
    for name in kernel.sizes_named:
        size = sizes[name]
        if isinstance(size, bool) or not hasattr(size, "__index__") or size < 0:
            raise InputError(f"compiled({kernel.name}, {name}={size!r}): a size is an integer from zero on")
    lists = tuple(_entries(kernel, name, sizes[name]) for name in kernel.lists_given)
    return _made(kernel, format_named(dtype).name, tuple(int(sizes[name]) for name in kernel.sizes_named), lists)


def _entries(kernel: Kernel, name: str, given: Any) -> tuple[tuple[int, ...], ...]:
    try:
        return tuple(map(tuple, given))
    except TypeError:
        raise InputError(f"compiled({kernel.name}, …): list {name!r} has tuples of indices, got {given!r}") from None


def _recalled(module: str, name: str, dtype: str, sizes: tuple[int, ...], lists: Any, engine: str) -> KernelFunction:
    """Restore a pickled function."""
    return _made(getattr(importlib.import_module(module), name), dtype, sizes, lists).engine(engine)


@lru_cache(maxsize=1024)
def _made(
    kernel: Kernel, dtype: str, sizes: tuple[int, ...], lists: tuple[tuple[tuple[int, ...], ...], ...]
) -> KernelFunction:
    given = dict(zip(kernel.lists_given, lists, strict=True))
    on = kernel.at(dict(zip(kernel.sizes_named, sizes, strict=True)), dtype, given)
    return KernelFunction(kernel.name, on, kernel, doc=kernel.run.__doc__)
