"""Functions of a robot's parameters, and of its state: `robot.parameters(…)`, by the texts of their `jvp` and `vjp`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinetree.bridges.differentiable import Arrays, OnceDifferentiable
from kinetree.errors import IrreversibleError
from kinetree.model.parameters import Parameters
from kinetree.runtime.bound import quiet


class OfParameters(OnceDifferentiable):
    """A function of parameters p, then of the arguments of the robot's function of that name.

    Args:
        name: Its name.
        parameters: The parameters.
        choice: What it takes besides arrays, such as frames.
        arrays: The library whose arrays it takes.
    """

    def __init__(self, name: str, parameters: Parameters, choice: Sequence[Any], arrays: Arrays) -> None:
        self._function, self._choice = parameters.function(name), choice
        binding = self._function.bound("value", *choice).binding
        given = [(operand.name, *operand.shape) for operand in binding.inputs if operand.name != "constants"]
        results = [operand.shape for operand in binding.outputs]
        bundle = self._function._function._bundle
        given = [("p", len(parameters)), *given]
        super().__init__(name, parameters.robot, arrays, given, results, None if bundle is tuple else bundle)
        selection = self._function.selection
        self._nominal, self._numbers = selection.nominal, selection.numbers
        #: For each constant, its place among parameters and nominal constants.
        self._places = len(self._numbers) + np.arange(len(self._nominal))
        self._places[self._numbers] = np.arange(len(self._numbers))

    def value(self, *arrays: Any) -> Any:
        """The results, (…, size)."""
        given, _ = self.groups("value", arrays)
        return self._run("value", self._named(given))

    @quiet
    def change(self, *arrays: Any) -> Any:
        """Their change along a direction for each argument, (…, size)."""
        given, (dp, dq, *rest), _ = self.groups("change", arrays)
        return self._rate(given, [dp, self.tangent(given[1], dq), *rest])

    @quiet
    def gradients(self, *arrays: Any) -> tuple[Any, ...]:
        """Gradients with respect to each argument: by the text backwards or, of matrices, along all directions."""
        given, (weights,), _ = self.groups("gradients", arrays)
        try:
            bound = self._function.bound("vjp", *self._choice)
        except IrreversibleError:
            by_p, by_q, *rest = self._slopes(given, weights)
            return by_p, self.by_components(given[1], by_q), *rest
        of_results = self.shaped(weights)
        several = of_results if isinstance(of_results, tuple) else (of_results,)
        outputs = self._function._function.algorithm.outputs
        known = self._named(given) | {f"{a.name} weight": w for a, w in zip(outputs, several, strict=True)}
        found = self._arrays.run(bound, *(known[operand.name] for operand in bound.binding.inputs))
        by = {operand.name: x for operand, x in zip(bound.binding.outputs, found, strict=True)}
        joined = by["by constants"][..., : len(self._nominal) - 3], by["by gravity"]
        by_p = self._arrays.numpy.concatenate(joined, axis=-1)[..., self._numbers]
        by_q, *rest = (by[f"by {name}"] for name in self.names[1:])
        return by_p, self.by_components(given[1], by_q), *rest

    def _rate(self, given: Sequence[Any], along: Sequence[Any]) -> Any:
        known = self._named(given)
        known |= {f"d{name}": x for name, x in zip(self.names[1:], along[1:], strict=True)}
        moved = self._constants(along[0], np.zeros(len(self._nominal)))
        known |= {"dconstants": moved, "dgravity": moved[..., len(self._nominal) - 3 :]}
        return self._run("jvp", known)

    def _slopes(self, given: Sequence[Any], weights: Any) -> list[Any]:
        """Products of weights with the rates along all unit directions."""
        sizes = [self.sizes[0], self.robot.nv, *self.sizes[2:]]
        state, units = self._wide(given, sum(sizes)), self._units(sizes, weights)
        return self._split_slopes(self._rate(state, units), weights, sizes)

    def _run(self, which: str, known: dict[str, Any]) -> Any:
        bound = self._function.bound(which, *self._choice)
        found = self._arrays.run(bound, *(known[operand.name] for operand in bound.binding.inputs))
        return self._flat(found, known["q"].shape[:-1])

    def _named(self, given: Sequence[Any]) -> dict[str, Any]:
        p, *rest = given
        return {"constants": self._constants(p, self._nominal), **dict(zip(self.names[1:], rest, strict=True))}

    def _constants(self, p: Any, others: Any) -> Any:
        """All constants, from those that are parameters."""
        xp = self._arrays.numpy
        full = xp.broadcast_to(xp.asarray(others, dtype=p.dtype), (*p.shape[:-1], len(others)))
        return xp.concatenate([p, full], axis=-1)[..., self._places]
