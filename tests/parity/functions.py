"""All public functions of a robot, called alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import kinetree as kt
from tests.tolerance import Array
from tests.trees import mixed, random_mechanism


@dataclass(frozen=True)
class Function:
    """A public function: which of q, v, x it takes, and what follows them."""

    name: str  # method of the model; "f.jvp", "f.vjp" and "f.hvp" are derivatives of its method f
    inputs: str  # letters out of "qvx" (x: accelerations or joint forces)
    rest: Callable[[kt.Model], tuple[Any, ...]] = lambda _: ()  # positional arguments after the arrays
    options: tuple[tuple[str, Any], ...] = ()
    outputs: int = 1

    def __str__(self) -> str:
        return "-".join([self.name, *(str(value) for _, value in self.options)])

    def __call__(self, robot: kt.Model, q: Array, v: Array, x: Array, engine: str | None = None, **more: Any) -> Any:
        """Call it; the results come as a tuple of arrays."""
        first, *derived = self.name.split(".")
        method = getattr(robot, first)
        if engine is not None:
            method = method.engine(engine)
        for name in derived:
            method = getattr(method, name)
        results = method(*self.arrays(q, v, x), *self.rest(robot), **dict(self.options), **more)
        return results if isinstance(results, tuple) else (results,)

    def arrays(self, q: Array, v: Array, x: Array) -> tuple[Array, ...]:
        """The arrays that it takes."""
        return tuple({"q": q, "v": v, "x": x}[letter] for letter in self.inputs)


def _frames(robot: kt.Model) -> tuple[Any, ...]:
    moving = _moving(robot)
    return ([moving[0], moving[-1]],)


def _frame(robot: kt.Model) -> tuple[Any, ...]:
    return (_moving(robot)[-1],)


def _moving(robot: kt.Model) -> list[str]:
    return [name for name in robot.frames if robot.site(name).node >= 0] or ["world"]


FUNCTIONS = (
    Function("integrate", "qv", lambda _: (0.3,)),
    Function("difference", "q", lambda robot: (robot.random_configuration(1),)),
    Function("dintegrate", "qv", lambda _: (0.3,), outputs=2),
    Function("ddifference", "q", lambda robot: (robot.random_configuration(1),), outputs=2),
    Function("tangent_map", "q"),
    Function("bracket", "v"),
    Function("normalize", "q"),
    Function("step", "qvx", lambda _: (1e-3,), outputs=2),
    Function("inverse_dynamics", "qvx"),
    Function("forward_dynamics", "qvx"),
    Function("mass_matrix", "q"),
    Function("mass_matrix_inverse", "q"),
    Function("mass_matrix_solve", "qx"),
    Function("mass_matrix_log_determinant", "q"),
    Function("mass_matrix_determinant", "q"),
    Function("bias_forces", "qv"),
    Function("gravity_forces", "q"),
    Function("coriolis_matrix", "qv"),
    Function("energy", "qv", outputs=2),
    Function("center_of_mass", "q"),
    Function("center_of_mass_jacobian", "q"),
    Function("centroidal_momentum_matrix", "q"),
    Function("pose", "q"),
    Function("pose", "q", _frame),
    Function("velocity", "qv", _frames),
    Function("acceleration", "qvx", _frames, (("reference", "local_world_aligned"),)),
    Function("acceleration", "qvx", _frames, (("reference", "local"), ("classical", True))),
    Function("jacobian", "q", _frame),
    Function("jacobian", "q", _frames),
    Function("jacobian", "q", _frame, (("reference", "world"),)),
    Function("jacobian", "q", _frame, (("reference", "local_world_aligned"),)),
    Function("jacobian_dot_v", "qv", _frame),
    Function("inverse_dynamics_derivatives", "qvx", outputs=3),
    Function("forward_dynamics_derivatives", "qvx", outputs=3),
    Function("jacobian_rate", "qv", _frame),
    Function("velocity_derivative", "qv", _frame),
    Function("acceleration_derivatives", "qvx", _frame, outputs=3),
    Function("regressor", "qvx"),
    Function("reactions", "qvx"),
    Function("reactions", "qvx", _frames, (("reference", "world"),)),
    Function("stacked_vectors", "qvx", outputs=5),
    Function("tracking_regressor", "qvxv"),
    Function("mass_matrix_log_determinant_gradient", "q"),
    Function("innovations", "qv"),
    Function("innovations_to_velocities", "qv"),
    Function("innovation_forces", "qx"),
    Function("inverse_dynamics.jvp", "qvxxvx"),
    Function("inverse_dynamics.vjp", "qvxv", outputs=3),
    Function("inverse_dynamics.hvp", "qvxvxvx", outputs=3),
    Function("forward_dynamics.jvp", "qvxxvx"),
    Function("forward_dynamics.vjp", "qvxv", outputs=3),
    Function("forward_dynamics.hvp", "qvxvxvx", outputs=3),
)

#: Three that between them have vector, matrix and mirrored outputs, for the long checks.
FEW = tuple(f for f in FUNCTIONS if f.name in ("inverse_dynamics", "forward_dynamics", "mass_matrix", "energy"))


@cache
def robot(name: str = "every kind") -> kt.Model:
    """A robot with every joint kind, or the humanoid; "float32" is the former in float32."""
    if name == "humanoid":
        return kt.zoo.humanoid24()
    if name == "float32":
        return robot().astype("float32")
    return random_mechanism("every kind", mixed(10, 1), 1).kinetree()


def states(model: kt.Model, shape: tuple[int, ...], seed: int = 0) -> tuple[Array, Array, Array]:
    """Random configurations, velocities and a third array."""
    rng = np.random.default_rng(seed)
    q = model.random_configuration(rng, shape)
    v, x = rng.uniform(-1.0, 1.0, (2, *shape, model.nv)).astype(model.dtype, copy=False)
    return q, v, x


def assert_same_bits(actual: tuple[Array, ...], expected: tuple[Array, ...]) -> None:
    """Equal shapes and equal bits, NaN included; the sign and payload of a NaN are nobody's promise."""
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected):
        left, right = np.array(one, order="C", ndmin=1), np.array(other, order="C", ndmin=1)
        assert np.shape(one) == np.shape(other)
        assert left.dtype == right.dtype
        whole = np.dtype(f"i{left.itemsize}")
        same = (left.view(whole) == right.view(whole)) | (np.isnan(left) & np.isnan(right))
        assert np.all(same), f"{np.count_nonzero(~same)} of {same.size} entries differ"
