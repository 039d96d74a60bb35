"""Flexible bodies against the theory of beams, against rigid bodies, and against the laws of mechanics.

Frequencies of a uniform beam are ω = (βL)² √(EI / ρA L⁴). Those of rotating beams are published:

[W82] A. Wright, C. Smith, R. Thresher, J. Wang, "Vibration modes of centrifugally stiffened beams", Journal of Applied
      Mechanics 49, 1982.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from tests.laws.cases import H
from tests.tolerance import assert_close, refused

LENGTH, EI, RHO_A = 2.0, 50.0, 0.8
UNIT = np.sqrt(EI / (RHO_A * LENGTH**4))
#: βL of the lowest bending modes.
CLAMPED = np.array([1.875104068711961, 4.694091132974175, 7.854757438237613, 10.995540734875467])
PINNED = np.array([3.926602312047919, 7.068582745628732, 10.210176122813030])
FREE = np.array([4.730040744862704, 7.853204624095838, 10.995607838001671])
TIP_MASS = np.array([1.247917408149, 4.031139346430])
#: Speed, and the three lowest frequencies of flapping, both in units of √(EI / ρA L⁴). [W82].
ROTATING = {
    0: (3.5160, 22.0345, 61.6972),
    2: (4.1373, 22.6149, 62.2732),
    6: (7.3604, 26.8091, 66.6839),
    12: (13.1702, 37.6031, 79.6145),
}


def beam(modes: int, planes: str = "y", elements: int = 24, **settings: Any) -> kt.Beam:
    return kt.Beam(LENGTH, EI, RHO_A, modes=modes, planes=planes, elements=elements, axial_inertia=1e-3, **settings)


def weightless() -> kt.Builder:
    return kt.Builder("beam", gravity=(0.0, 0.0, 0.0))


def stiffness(robot: kt.Model, v: Any = None) -> Any:
    """∂τ/∂q at the neutral configuration, by complex steps along the tangent."""
    q, zero = robot.neutral(), np.zeros(robot.nv)
    tau = robot.inverse_dynamics.engine("reference")
    steps = [robot.integrate.engine("reference")(q, 1j * H * e, 1.0) for e in np.eye(robot.nv)]
    return tau(np.stack(steps), zero if v is None else v, zero).imag.T / H


def frequencies(robot: kt.Model, skip: int, v: Any = None) -> Any:
    """In units of √(EI / ρA L⁴), without the lowest ones."""
    M = robot.mass_matrix.engine("reference")(robot.neutral())[skip:, skip:]
    K = stiffness(robot, v)[skip:, skip:]
    root = np.linalg.cholesky(M)
    return np.sqrt(np.linalg.eigvalsh(np.linalg.solve(root, np.linalg.solve(root, (K + K.T) / 2.0).T))) / UNIT


def test_a_clamped_beam() -> None:
    robot = weightless().add_flexible("b", beam(4, elements=12)).build()
    error = frequencies(robot, 0) / CLAMPED**2 - 1.0
    assert (np.abs(error) < [1e-6, 1e-4, 1e-3, 1e-3]).all()


def test_clamped_modes_behind_a_hinge_are_those_of_a_pinned_beam() -> None:
    robot = weightless().add_flexible("b", beam(8, elements=24), joint="revolute").build()
    found = np.sort(np.abs(frequencies_with_rigid_motion(robot)))
    assert_close(found[1:4], PINNED**2, 1e-4)


def test_clamped_modes_on_a_floating_root_are_those_of_a_free_beam() -> None:
    robot = weightless().add_flexible("b", beam(8, elements=24), joint="floating").build()
    found = np.sort(np.abs(frequencies_with_rigid_motion(robot)))
    assert_close(found[6:9], FREE**2, 5e-4)


def test_a_mass_at_the_tip() -> None:
    builder = weightless().add_flexible("b", beam(8, elements=24))
    builder.add_body("mass", parent="b/tip", joint="fixed", mass=RHO_A * LENGTH, inertia=1e-12 * np.eye(3))
    assert_close(frequencies(builder.build(), 0)[:2], TIP_MASS**2, 5e-4)


def frequencies_with_rigid_motion(robot: kt.Model) -> Any:
    M, K = robot.mass_matrix.engine("reference")(robot.neutral()), stiffness(robot)
    values = np.linalg.eigvals(np.linalg.solve(M, K))
    return np.sqrt(np.abs(values.real)) / UNIT


@pytest.mark.parametrize("plane", ["z", "y"])
def test_rotating_beams_have_the_published_frequencies(plane: str) -> None:
    robot = weightless().add_flexible("b", beam(6, plane), joint="revolute").build()
    for speed, published in ROTATING.items():
        v = np.zeros(robot.nv)
        v[0] = speed * UNIT
        # in the plane of rotation, the centrifugal force follows the beam
        expected = np.array(published) if plane == "z" else np.sqrt(np.array(published) ** 2 - speed**2)
        found = frequencies(robot, 1, v)
        assert_close(found[:2], expected[:2], 1e-3)


def test_without_foreshortening_a_spinning_beam_diverges() -> None:
    robot = weightless().add_flexible("b", beam(4, "y", foreshortening=False), joint="revolute").build()
    v = np.zeros(robot.nv)
    v[0] = 4.0 * UNIT
    assert np.linalg.eigvalsh(stiffness(robot, v)[1:, 1:])[0] < 0.0


def arm(gravity: Any = (0.0, 0.0, -9.81)) -> kt.Model:
    """A floating base, a flexible link with a branch in its span, a flexible forearm, a tool."""
    builder = kt.Builder("arm", gravity=gravity)
    link = kt.Beam(LENGTH, EI, RHO_A, modes=1, planes="yz", stations={"mid": 0.9}, axial_inertia=1e-3)
    forearm = kt.Beam(1.5, EI, RHO_A, modes=2, planes="y", axial_inertia=1e-3)
    hub = {"mass": 1.0, "com": (0.02, 0.0, 0.0), "inertia": 0.01 * np.eye(3)}
    builder.add_flexible("link", link, joint="floating", **hub)
    builder.add_flexible("forearm", forearm, parent="link/tip", joint="revolute")
    tool = {"mass": 0.7, "com": (0.1, 0.02, 0.03), "inertia": 0.01 * np.eye(3)}
    builder.add_body("tool", parent="forearm/tip", axis=(0.0, 1.0, 0.0), **tool)
    return builder.add_body("camera", parent="link/mid", axis=(1.0, 0.0, 0.0), **tool).build()


def state(robot: kt.Model, seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    v, a = rng.normal(size=(2, robot.nv))
    q = robot.integrate.engine("reference")(robot.neutral(), 0.1 * rng.normal(size=robot.nv), 1.0)
    return q, v, a


def test_engines_agree_and_forward_dynamics_inverts_inverse_dynamics() -> None:
    robot = arm()
    q, v, a = state(robot, 0)
    tau = robot.inverse_dynamics(q, v, a)
    assert_close(tau, robot.inverse_dynamics.engine("reference")(q, v, a), 1e-12)
    assert_close(robot.forward_dynamics.engine("reference")(q, v, tau), a, 1e-9)


def ahead(robot: kt.Model, q: Any, v: Any) -> Any:
    """q after a complex step along v."""
    return robot.integrate.engine("reference")(q.astype(complex), 1j * H * v, 1.0)


def test_power_is_the_rate_of_energy() -> None:
    robot = arm()
    q, v, a = state(robot, 1)
    moved = ahead(robot, q, v)
    energy = robot.energy.engine("reference")(moved, v + 1j * H * a)
    rate = (energy.kinetic + energy.potential).imag / H
    assert_close(robot.inverse_dynamics.engine("reference")(q, v, a) @ v, rate, 1e-12)


def test_the_rate_of_the_mass_matrix_less_twice_the_coriolis_matrix_is_skew() -> None:
    """With C = ½ ∂τ/∂v, which is made of Christoffel symbols where all velocities are rates of coordinates."""
    builder = kt.Builder("arm")
    for name, parent, planes in (("link", "world", "yz"), ("forearm", "link/tip", "y")):
        builder.add_flexible(name, beam(1, planes), parent=parent, joint="revolute", axis=(0.0, 0.6, 0.8))
    robot = builder.build()
    q, v, zero = *0.3 * np.random.default_rng(4).normal(size=(2, robot.nv)), np.zeros(robot.nv)
    tau, M = robot.inverse_dynamics.engine("reference"), robot.mass_matrix.engine("reference")
    twice_C = tau(q, v + 1j * H * np.eye(robot.nv), zero).imag.T / H
    rate = M(q + 1j * H * v).imag / H
    assert_close(rate - twice_C, -(rate - twice_C).T, 1e-12)
    assert np.abs(rate - twice_C).max() > 1e-2


def test_momentum_is_kept_in_free_flight() -> None:
    """Forces on the base are the rate of total momentum: without them, M v on the base, in world axes, is constant."""
    robot = arm(gravity=(0.0, 0.0, 0.0))
    q, v, _ = state(robot, 2)
    a = robot.forward_dynamics.engine("reference")(q, v, np.zeros(robot.nv))

    def linear(q: Any, v: Any) -> Any:
        momentum = robot.mass_matrix.engine("reference")(q) @ v
        return robot.pose.engine("reference")(q, "link/root")[:3, :3] @ momentum[3:6]

    moved = ahead(robot, q, v)
    rate = linear(moved, v + 1j * H * a).imag / H
    assert np.abs(rate).max() < 1e-11 * np.abs(a).max()


def test_outlets_move_as_their_poses_do() -> None:
    robot = arm()
    q, v, _ = state(robot, 3)
    moved = ahead(robot, q, v)
    for frame in ("link/tip", "link/mid", "tool"):
        pose = robot.pose.engine("reference")(q, frame)
        rate = robot.pose.engine("reference")(moved, frame).imag / H
        twist = robot.velocity.engine("reference")(q, v, frame)
        spin = pose[:3, :3].T @ rate[:3, :3]
        assert_close(np.array([spin[2, 1], spin[0, 2], spin[1, 0]]), twist[:3], 1e-12)
        assert_close(pose[:3, :3].T @ rate[:3, 3], twist[3:], 1e-12)


def test_held_modes_make_a_rigid_arm() -> None:
    robot = weightless().add_flexible("b", beam(3, "yz"), joint="revolute", axis=(0.0, 1.0, 0.0)).build()
    rod = weightless()
    inertia = np.diag([1e-3, *(2 * [RHO_A * LENGTH**3 / 12.0])])
    rod.add_body("b", axis=(0.0, 1.0, 0.0), mass=RHO_A * LENGTH, com=(LENGTH / 2.0, 0.0, 0.0), inertia=inertia)
    M = robot.mass_matrix.engine("reference")(robot.neutral())
    assert_close(M[0, 0], rod.build().mass_matrix(np.zeros(1))[0, 0], 1e-13)
    assert robot.mass == pytest.approx(RHO_A * LENGTH, rel=1e-14)


def test_a_modal_description_from_elsewhere() -> None:
    """Two masses on a massless rod, each of which moves sideways on a spring."""
    points, masses = np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]), np.array([2.0, 3.0])
    shapes = np.zeros((2, 3, 2))
    shapes[0, 1, 0] = shapes[1, 1, 1] = 1.0
    end = kt.Station((2.0, 0.0, 0.0), shapes[1], np.zeros((3, 2)))
    body = kt.FlexibleBody(points, masses, shapes, np.diag([8.0, 27.0]), stations={"end": end}, inertia=0.1 * np.eye(3))
    kt.check_node(body)
    robot = weightless().add_flexible("b", body).add_frame("hook", body="b/end").build()
    assert_close(np.linalg.eigvalsh(np.linalg.solve(np.diag(masses), stiffness(robot))), np.array([4.0, 9.0]), 1e-14)
    assert_close(robot.pose(np.array([0.1, 0.2]), "hook")[:3, 3], np.array([2.0, 0.2, 0.0]), 1e-15)
    assert pickle.loads(pickle.dumps(robot)) == robot


def test_damping() -> None:
    robot = weightless().add_flexible("b", beam(2, damping=0.05)).build()
    v = np.array([1.0, 2.0])
    lost = robot.inverse_dynamics.engine("reference")(np.zeros(2), v, np.zeros(2))
    assert_close(lost, 2.0 * 0.05 * UNIT * CLAMPED[:2] ** 2 * v, 1e-4)


def test_laws_of_nodes() -> None:
    worst = kt.check_node(beam(2, "yz", stations={"mid": 0.9}, damping=0.1), q=np.array([0.1, -0.05, 0.08, 0.02]))
    assert max(worst.values()) < 1e-13


GOOD: dict[str, Any] = {
    "points": [[1.0, 0.0, 0.0]],
    "masses": [1.0],
    "shapes": [[[0.0], [1.0], [0.0]]],
    "stiffness": [[1.0]],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": [[1.0, 0.0]]}, r"points has shape \(1, 2\), must be \(…, 3\)"),
        ({"masses": [1.0, 2.0]}, "there are 1 points, but 2 masses"),
        ({"masses": [-1.0]}, "all masses must be positive; the least is -1"),
        ({"shapes": [[[0.0], [np.nan], [0.0]]]}, "shapes has NaN"),
        ({"shapes": [[[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]], "stiffness": np.eye(2)}, "mass of the shapes.*independent"),
        ({"stiffness": [[-2.0]]}, "stiffness has the eigenvalue -2 and must be positive definite"),
        ({"damping": [[-2.0]]}, "damping has the eigenvalue -2 and must be positive semi-definite"),
        ({"stiffness": np.ones((2, 2))}, r"stiffness has shape \(2, 2\), must be \(1, 1\)"),
        ({"points": "here"}, "points is not a rectangular array of numbers"),
    ],
)
def test_bodies_that_cannot_be(change: dict[str, Any], message: str) -> None:
    refused(message, lambda: kt.FlexibleBody(**{**GOOD, **change}), error=kt.errors.ModelError)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"planes": "x"}, 'planes is "y", "z" or "yz"'),
        ({"modes": 0}, "modes is a whole number, 1 or more; got 0"),
        ({"modes": 9, "elements": 4}, "4 elements have 8 modes in a plane; 9 are too many"),
        ({"EI": -1.0}, "EI must be positive"),
        ({"length": 0.0}, "length must be positive"),
        ({"stations": {"far": 3.0}}, "station 'far' is at 3.0 m, but the beam is 2.0 m long"),
    ],
)
def test_beams_that_cannot_be(change: dict[str, Any], message: str) -> None:
    with pytest.raises(kt.errors.ModelError, match=message):
        kt.Beam(**{"length": LENGTH, "EI": EI, "rhoA": RHO_A, **change})
    with pytest.raises(kt.errors.ModelError, match="pass a Beam or a FlexibleBody"):
        kt.Builder().add_flexible("b", "beam")  # type: ignore[arg-type]
