"""Functions of robots whose joints depend on each other, from the same functions of their spanning trees.

With velocities q̇ = G v of all joints, a function that is linear in velocities or forces of the tree is projected by G.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from kinetree.engines import arguments
from kinetree.engines.function import Function, P, R
from kinetree.errors import UnsupportedError
from kinetree.recursion.algorithm import Algorithm
from kinetree.recursion.mechanism import Mechanism


class ProjectedFunction(Function[P, R]):
    """A function that is computed in NumPy from functions of the spanning tree.

    Args:
        project: Takes the name of an engine, then the arguments of the function; gives its result.
    """

    def __init__(
        self, name: str, mechanism: Mechanism, algorithm: Algorithm, *, project: Callable[..., Any], **options: Any
    ) -> None:
        super().__init__(name, mechanism, algorithm, **options)
        self._project = project

    def general(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Compute from the spanning tree."""
        result = self._project(self._engine, *self._arguments(inputs, named))
        if out is None:
            return result
        (given,) = arguments.results(self.name, out, ("result",), (result.shape,), result.dtype)
        given[...] = result
        return given

    def compile(self) -> None:
        """Nothing is compiled before the first call."""

    def require(self) -> None:
        """It is defined wherever it is created."""

    def bound(self, *_: Any, **__: Any) -> NoReturn:
        """There is no kernel that computes the result alone."""
        raise UnsupportedError(
            f"{self.name} has no kernel of its own on robots with loops or coupled joints, such as "
            f"{self.mechanism.first_general!r}: it is computed from the spanning tree, in NumPy only"
        )

    count = bound
