"""Functions of frames, chosen by name at each call, in one of several reference frames."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from kinetree.engines import arguments
from kinetree.engines.count import Count, count
from kinetree.engines.function import CHOICES_KEPT, Function, P, R
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.straight import Specialization, specialization
from kinetree.errors import InputError, UnknownNameError
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site


class FrameFunction(Function[P, R]):
    """A function of frames: of one by name, or of a sequence of names, for which the result has an axis.

    Args:
        algorithms: The recursion for each reference.
        site: Finds a frame by name.
        frames: The default frames, for functions that can be called without naming any.
        classical: The recursions for `classical=True`, for functions that have this parameter after the reference.
    """

    choices = ("frames", "reference")

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
        # fast path for the most common call: one frame, everything else left at its default
        if out is None and not named and len(inputs) == known + 1 and type(inputs[known]) is str:
            bound = self._ready.get(inputs[known])
            if bound is not None:
                return bound(*inputs[:known])
        if not named and len(inputs) == known + 1:
            arrays: Sequence[Any] = inputs[:known]
            frames, choice = inputs[known], ()
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
        bound = self._computed(self._bind(sites, self._for(*choice), single))
        if isinstance(bound, Compiled) and isinstance(frames, (str, tuple)):
            given = {**self._defaults, **dict(zip(self._names[len(self._arrays) :], (frames, *choice)))}
            self.follow(bound, tuple(given[name] for name in self._names[len(bound.binding.inputs) :]))
        if len(self._ready) >= CHOICES_KEPT:
            self._ready.clear()
        self._ready[frames if single or frames is None else tuple(site.name for site in sites), choice] = bound
        if single and not choice:
            self._ready[frames] = bound
        return bound

    def _computed(self, bound: Callable[..., Any]) -> Callable[..., Any]:
        """What a call computes, given the recursion."""
        return bound

    def bound(self, frames: Any = None, reference: str | None = None, classical: bool = False) -> Any:
        """As of `Function`, for a choice of frames and reference."""
        return self._bind(self._sites(frames), self._for(reference, classical), isinstance(frames, str))

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
