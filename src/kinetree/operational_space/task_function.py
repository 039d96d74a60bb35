"""Functions for a fixed choice of task rows."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from kinetree.engines.count import Count, count
from kinetree.engines.function import Function
from kinetree.engines.straight import Specialization, specialization
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism, Site


class TaskFunction(Function[..., Any]):
    """A function of arrays for the rows of fixed sites.

    Args:
        name: Its public name.
        mechanism: The robot.
        algorithm: The recursion that computes it.
        sites: The frames, with the rows of their tasks.
        guard: Called with the mechanism before first use; raises if the function is not defined for it.

    Attributes:
        sites: The frames.
    """

    def __init__(
        self,
        name: str,
        mechanism: Mechanism,
        algorithm: Algorithm,
        sites: tuple[Site, ...],
        guard: Callable[[Mechanism], None] | None = None,
    ) -> None:
        # the frames are fixed, so arrays that run over frames are arguments like any others
        arrays = [Parameter(a.name, Parameter.POSITIONAL_OR_KEYWORD) for a in algorithm.inputs]
        signature = Signature([*arrays, Parameter("out", Parameter.KEYWORD_ONLY, default=None)])
        super().__init__(name, mechanism, algorithm, guard=guard, signature=signature)
        self.sites = sites

    def _compute(self, inputs: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        """Compute, with any valid arguments."""
        return self._run(self.sites, self.algorithm, self._arguments(inputs, named), out)

    def bound(self) -> Any:
        """As for `Function`, for the rows of the sites."""
        return self._bind(self.sites, self.algorithm, False)

    def compile(self) -> None:
        """Compile everything that later calls need."""
        bound = self._bind(self.sites, self.algorithm, False)
        bound.compile()

    def count(self) -> Count:
        """Operations of one evaluation."""
        return count(self.algorithm, self.mechanism, self.sites)

    def specialization(self) -> Specialization:
        """As of `Function`, for the rows of the sites."""
        return specialization(self.algorithm, self.mechanism, self.sites)

    def _is_default(self, algorithm: Algorithm, sites: tuple[Site, ...], single: bool) -> bool:
        return algorithm is self.algorithm and sites is self.sites and not single
