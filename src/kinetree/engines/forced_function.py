"""Functions that take external wrenches on frames besides arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kinetree.engines import arguments
from kinetree.engines.function import Function, P, R
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.gate import Keys
from kinetree.errors import InputError
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site
from kinetree.spatial.value import Array


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

    def bound(self, frames: Sequence[str] = ()) -> Any:
        """As of `Function`; with frames it takes their wrenches last, (…, m, 6)."""
        sites = tuple(self._site(name) for name in frames)
        return self._bound.get((self.algorithm, sites, False)) or self._bind(sites, self.algorithm, False)

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
