"""Derivatives of beams, users' nodes, loops and coupled joints on moving parents, against complex steps.

Complex steps run through the plain recursions on the reference engine, which share no formula with the derivatives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.laws.cases import ENGINES
from tests.laws.moving_parents import CHARTED, ROBOTS, STEP, TOOL, derivatives, robot, state, stepped, tolerance
from tests.tolerance import assert_close

DYNAMICS = ("inverse_dynamics", "forward_dynamics")

each_robot = pytest.mark.parametrize("name", ROBOTS)
each_engine = pytest.mark.parametrize("engine", ENGINES)
each_dynamics = pytest.mark.parametrize("function", DYNAMICS)


def given(name: str, function: str) -> tuple[Any, Any, Any]:
    q, v, a, tau, *_ = state(name)
    return q, v, a if function == "inverse_dynamics" else tau


def close(name: str, function: str, found: Any, expected: Any) -> None:
    assert_close(found, expected, 4.0 * tolerance(name, solves=function == "forward_dynamics"))


@each_dynamics
@each_engine
@each_robot
def test_matrices(name: str, engine: str, function: str) -> None:
    matrices = getattr(robot(name), f"{function}_derivatives").engine(engine)
    found = matrices(*given(name, function), f_ext=state(name).f_ext)
    for matrix, expected in zip(found, derivatives(name, function), strict=True):
        close(name, function, matrix, expected)


@each_robot
def test_linearize(name: str) -> None:
    of, (q, v, a, tau, f_ext, *_) = robot(name), state(name)
    found = of.linearize(q, v, a=a, f_ext=f_ext), of.linearize(q, v, tau=tau, f_ext=f_ext)
    for function, matrices in zip(DYNAMICS, found, strict=True):
        for matrix, expected in zip(matrices, derivatives(name, function), strict=True):
            close(name, function, matrix, expected)


@each_dynamics
@each_engine
@each_robot
def test_changes_and_gradients(name: str, engine: str, function: str) -> None:
    differentiated, at = getattr(robot(name), function).engine(engine), given(name, function)
    f_ext, d, w, matrices = state(name).f_ext, state(name).d, state(name).w, derivatives(name, function)
    change = sum(matrix @ direction for matrix, direction in zip(matrices, d, strict=True))
    close(name, function, differentiated.jvp(*at, *d, f_ext=f_ext), change)
    for gradient, matrix in zip(differentiated.vjp(*at, w, f_ext=f_ext), matrices, strict=True):
        close(name, function, gradient, w @ matrix)


@each_dynamics
@each_engine
@each_robot
def test_changes_of_gradients(name: str, engine: str, function: str) -> None:
    """Complex steps through gradients, which the test above compares with complex steps through the dynamics."""
    differentiated, (q, v, x) = getattr(robot(name), function).engine(engine), given(name, function)
    f_ext, d, w = state(name).f_ext, state(name).d, state(name).w
    moved = stepped(name, d[0]), v + 1j * STEP * d[1], x + 1j * STEP * d[2]
    expected = differentiated.engine("reference").vjp(*moved, w, f_ext=f_ext)
    for found, gradient in zip(differentiated.hvp(q, v, x, w, *d, f_ext=f_ext), expected, strict=True):
        close(name, function, found, np.imag(gradient) / STEP)


@each_engine
@each_robot
def test_coriolis_matrix(name: str, engine: str) -> None:
    """C v is the part of the forces that is quadratic in v; Ṁ = C + Cᵀ, and C has Christoffel's symbols."""
    of, (q, v, *_) = robot(name), state(name)
    C = of.coriolis_matrix.engine(engine)(q, v)
    M, bias = of.mass_matrix.engine("reference"), of.bias_forces.engine("reference")
    quadratic = 0.5 * (bias(q, v) + bias(q, -v)) - bias(q, np.zeros(of.nv))
    close(name, "inverse_dynamics", C @ v, quadratic)
    close(name, "inverse_dynamics", C + C.T, np.imag(M(stepped(name, v))) / STEP)
    if name not in CHARTED:  # no public bracket
        return
    # what is even in v is quadratic in it: its derivative is half the difference of those at v and −v
    turns = 1j * STEP * np.eye(of.nv)
    by_v = np.imag(bias(q, v + turns) - bias(q, -v + turns)).T / (2.0 * STEP)
    close(name, "inverse_dynamics", 2.0 * C, by_v + M(q) @ of.bracket(v))


@pytest.mark.parametrize("reference", ["local", "local_world_aligned", "world"])
@each_engine
@each_robot
def test_frames(name: str, engine: str, reference: str) -> None:
    of, (q, v, a, *_) = robot(name), state(name)
    frames = [TOOL, "elbow", "world"]

    def compute(function: str, *arguments: Any, on: str = "reference") -> Any:
        return getattr(of, function).engine(on)(*arguments, frames, reference)

    rate = np.imag(compute("jacobian", stepped(name, v))) / STEP
    J = compute("jacobian", q, on=engine)
    close(name, "", compute("velocity", q, v, on=engine), J @ v)
    close(name, "", compute("jacobian_rate", q, v, on=engine), rate)
    close(name, "", compute("jacobian_dot_v", q, v, on=engine), rate @ v)
    close(name, "", compute("acceleration", q, v, a, on=engine), J @ a + rate @ v)
    by_q = np.moveaxis(np.imag(compute("velocity", stepped(name, np.eye(of.nv)), v)) / STEP, 0, -1)
    close(name, "", compute("velocity_derivative", q, v, on=engine), by_q)
