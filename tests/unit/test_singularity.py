"""Which mechanisms have a mass matrix with an inverse: none is missed, none refused that has one."""

from __future__ import annotations

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import SingularMechanismError
from kinetree.model.singularity import require_invertible
from tests.tolerance import assert_close, bound
from tests.trees import KINDS, random_inertia, random_rotation, unit

AXED = ("revolute", "prismatic", "helical", "cylindrical", "planar")


def _chain(rng: np.random.Generator, joints: list[str], size: float = 1.0, mass: float = 1.0) -> kt.Model:
    """A chain of massless bodies with all mass in the last one."""
    builder, parent = kt.Builder("chain"), "world"
    for i, joint in enumerate(joints):
        last = i == len(joints) - 1
        builder.add_body(
            f"body{i}",
            parent=parent,
            joint=joint,
            placement=(random_rotation(rng), size * rng.uniform(-1.0, 1.0, 3)),
            axis=unit(rng) if joint in AXED else None,
            axes=np.linalg.qr(rng.standard_normal((3, 3)))[0][:2] if joint == "universal" else None,
            pitch=0.1 if joint == "helical" else None,
            mass=mass if last else 0.0,
            com=size * rng.uniform(-0.3, 0.3, 3) if last else np.zeros(3),
            inertia=size**2 * random_inertia(rng, mass) if last else None,
        )
        parent = f"body{i}"
    return builder.build()


def _refused(robot: kt.Model) -> bool:
    try:
        require_invertible(robot.mechanism)
    except SingularMechanismError:
        return True
    return False


def test_dependent_slides() -> None:
    """Four prismatic joints along x, y, z and (1, 1, 1), and mass only behind the last."""
    builder, parent = kt.Builder("slides"), "world"
    for i, axis in enumerate([(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]):
        builder.add_body(f"b{i}", parent=parent, joint="prismatic", axis=axis, mass=float(i == 3))
        parent = f"b{i}"
    robot = builder.build()
    with pytest.raises(SingularMechanismError, match="no inertia resists its prismatic joint.*armature.*reduced"):
        robot.forward_dynamics(np.zeros(4), np.zeros(4), np.ones(4))
    with pytest.raises(SingularMechanismError):
        robot.mass_matrix_inverse(np.zeros(4))


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e3])
@pytest.mark.parametrize("mass", [1e-9, 1.0, 1e9])
def test_more_than_six_joints_before_the_only_mass(mass: float, size: float) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        assert _refused(_chain(rng, ["revolute"] * 7, size, mass))
        assert _refused(_chain(rng, ["revolute"] * 9, size, mass))
        assert not _refused(_chain(rng, ["revolute"] * 6, size, mass))


@pytest.mark.parametrize("seed", range(60))
def test_rank_of_the_jacobian_decides(seed: int) -> None:
    """With all mass in the last body, M = Jᵀ I J: joints of all kinds, more and more of them."""
    rng = np.random.default_rng(seed)
    joints: list[str] = []
    while sum(KINDS[joint] for joint in joints) < 7:
        joints.append(str(rng.choice(list(KINDS))))
        robot = _chain(rng, joints)
        J = robot.jacobian.engine("reference")(robot.random_configuration(rng), robot.bodies[-1].name)
        assert _refused(robot) == (np.linalg.matrix_rank(J, tol=1e-9) < robot.nv), joints


def test_parallel_axes_turned_by_rounding() -> None:
    """Four parallel axes move a body in a plane, with three degrees of freedom, however the plane lies in space."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        builder = kt.Builder("planar").add_body("tilt", joint="fixed", placement=(random_rotation(rng), (1, 2, 3)))
        parent, axis = "tilt", unit(rng)
        for i in range(4):
            builder.add_body(
                f"b{i}",
                parent=parent,
                axis=axis,
                placement=(_about(axis, rng.uniform(-3, 3)), rng.uniform(-1, 1, 3)),
                mass=float(i == 3),
                inertia=np.eye(3) * 0.1 * (i == 3),
            )
            parent = f"b{i}"
        assert _refused(builder.build())


def _about(axis: np.ndarray, angle: float) -> np.ndarray:
    K = np.cross(np.eye(3), axis)
    return np.eye(3) - np.sin(angle) * K + (1.0 - np.cos(angle)) * (K @ K)


@pytest.mark.parametrize("com", [(0.0, 0.0, 1e6), (1e-3, -2e-3, 1e6), (0.1, 0.0, -1e8)])
def test_far_centre_on_the_axis(com: tuple[float, float, float]) -> None:
    """The inertia about the axis does not know how far along it the mass is, and keeps its digits."""
    robot = kt.Builder("rod").add_body("rod", mass=2.0, com=com, inertia=np.eye(3) * 0.01).build()
    expected = 0.01 + 2.0 * (com[0] ** 2 + com[1] ** 2)
    assert_close(robot.mass_matrix_inverse(np.array([0.3]))[0] * expected, np.ones(1), bound(1))


@pytest.mark.parametrize("joint", ["revolute", "spherical", "floating"])
def test_needle(joint: str) -> None:
    """A needle's moment about its axis is small, not zero."""
    inertia = np.diag([1.0, 1.0, 1e-14])
    robot = kt.Builder("needle").add_body("needle", joint=joint, mass=1.0, inertia=inertia).build()
    spin = np.zeros(robot.nv)
    spin[0 if joint == "revolute" else 2] = 1e-14
    a = robot.forward_dynamics(robot.neutral(), np.zeros(robot.nv), spin)
    assert a[0 if joint == "revolute" else 2] == pytest.approx(1.0)


def test_needle_in_a_gimbal() -> None:
    """Massless rings, turned about x and y, before the needle's own axis."""
    builder = kt.Builder("gimbal").add_body("x", axis=(1, 0, 0)).add_body("y", parent="x", axis=(0, 1, 0))
    builder.add_body("z", parent="y", mass=1.0, inertia=np.diag([1.0, 1.0, 1e-14]))
    require_invertible(builder.build().mechanism)
    builder.add_body("again", parent="z", mass=1.0, axis=(1, 0, 0), inertia=np.eye(3))
    require_invertible(builder.build().mechanism)


def test_armature_resists() -> None:
    rng = np.random.default_rng(0)
    robot = _chain(rng, ["revolute"] * 7)
    assert _refused(robot)
    builder, parent = kt.Builder("driven"), "world"
    for body in robot.bodies:
        joint = robot.joint(body.joint)
        own = {"mass": body.mass, "com": body.com, "inertia": body.inertia, "armature": 1e-6}
        builder.add_body(body.name, parent=parent, placement=joint.placement, axis=joint.axes[0], **own)
        parent = body.name
    assert not _refused(builder.build())


def test_zoo_and_long_chains_pass() -> None:
    for robot in (kt.zoo.humanoid24(), kt.zoo.asimo35(), kt.zoo.chain(300)):
        require_invertible(robot.mechanism)
