"""An algorithm on the reference engine, with the interface of a compiled one."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.engines import arguments, reference
from kinetree.errors import InputError
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site


class Interpreted:
    """A callable of arrays for one mechanism and choice of frames.

    Args:
        name: Public name of the function, for messages.
        algorithm: The recursion.
        mechanism: The robot.
        sites: The frames.
        single: There is one frame, and results have no axis for it.
        bundle: Type of several results.
    """

    def __init__(
        self,
        name: str,
        algorithm: Algorithm,
        mechanism: Mechanism,
        sites: tuple[Site, ...],
        single: bool,
        bundle: type[tuple[Any, ...]],
    ) -> None:
        algorithm.require(mechanism, name)
        self.name, self.algorithm, self.mechanism, self.sites = name, algorithm, mechanism.at(sites), sites
        self._single, self._bundle = single, bundle

    def compile(self) -> None:
        """Do nothing: the algorithm runs as written."""

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        """Compute; `out` as for compiled functions, with the dtype that results from the inputs."""
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
            results = reference.run(self.algorithm, self.mechanism, self.sites, taken, self.name)
        if self._single:
            axes = [len(a.dimensions) - a.dimensions.index("frames") for a in self.algorithm.outputs]
            results = tuple(np.squeeze(r, axis=-axis) for r, axis in zip(results, axes, strict=True))
        if out is not None:
            names, shapes = [a.name for a in self.algorithm.outputs], [result.shape for result in results]
            places = arguments.results(self.name, out, names, shapes, results[0].dtype)
            for place, result in zip(places, results, strict=True):
                place[...] = result
            results = places
        if len(results) == 1:
            return results[0]
        return results if self._bundle is tuple else self._bundle(*results)
