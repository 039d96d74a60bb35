"""Which mechanisms have a mass matrix with an inverse: none is missed, none refused that has one."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import SingularMechanismError
from kinetree.model import singularity
from kinetree.model.joints import KINDS as JOINTS
from kinetree.model.singularity import require_invertible
from tests.general_nodes import Bead
from tests.tolerance import assert_close, bound
from tests.trees import KINDS, random_inertia, random_rotation, serial, unit

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


@pytest.mark.parametrize("axes", [[(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)], [(0, 0, 1), (0, 0, -1)]], ids=len)
def test_dependent_slides(axes: list[tuple[int, ...]]) -> None:
    """Slides along x, y, z and (1, 1, 1), or parallel ones, and mass only behind the last."""
    slides = [{"joint": "prismatic", "axis": axis, "mass": float(axis == axes[-1])} for axis in axes]
    robot, zero = serial(slides).build(), np.zeros(len(axes))
    with pytest.raises(SingularMechanismError, match="no inertia resists its prismatic joint.*armature.*reduced"):
        robot.forward_dynamics(zero, zero, zero)
    with pytest.raises(SingularMechanismError):
        robot.mass_matrix_inverse(zero)


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
        axis = unit(rng)
        places = [(_about(axis, rng.uniform(-3, 3)), rng.uniform(-1, 1, 3)) for _ in range(4)]
        bodies: list[dict[str, Any]] = [{"axis": axis, "placement": at} for at in places]
        bodies[-1] |= {"mass": 1.0, "inertia": 0.1 * np.eye(3)}
        assert _refused(serial(bodies, parent="tilt", builder=builder).build())


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


@pytest.mark.parametrize("along", [0.0, 0.3])
def test_needle_about_its_own_axis(along: float) -> None:
    """Its moment is zero but for rounding, of either sign."""
    for seed in range(40):
        axis = unit(np.random.default_rng(seed))
        solid = {"mass": 3.0, "com": along * axis, "inertia": 0.06 * (np.eye(3) - np.outer(axis, axis))}
        assert _refused(kt.Builder("needle").add_body("needle", axis=axis, **solid).build())


def test_point_mass_on_its_axis() -> None:
    """Its distance from the axis is rounding, and no moment of its own says how much."""
    for seed in range(40):
        axis = unit(np.random.default_rng(seed))
        assert _refused(kt.Builder("point").add_body("point", axis=axis, mass=3.0, com=0.3 * axis).build())


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


#: How a random body resists motions.
SUBSTANCES = ("solid", "massless", "point", "needle", "needle on its axis")


def _random_tree(rng: np.random.Generator, count: int, shares: tuple[float, ...], decades: float) -> kt.Model:
    """A tree of joints of every kind, with bodies of all substances and masses over many decades.

    Args:
        rng: Source of all numbers.
        count: Number of bodies.
        shares: How frequent each of `SUBSTANCES` is.
        decades: Masses and armatures range from 10 to the minus this to 10 to this.
    """
    builder, path = kt.Builder("tree"), []
    for i in range(count):
        joint, substance = str(rng.choice(list(KINDS))), str(rng.choice(SUBSTANCES, p=shares))
        if len(path) > 1 and rng.random() < 0.3:
            path = path[: int(rng.integers(1, len(path)))]
        mass, com = 10.0 ** rng.uniform(-decades, decades), rng.uniform(-0.3, 0.3, 3)
        axis, turn, inertia = unit(rng), random_rotation(rng), random_inertia(rng, mass)
        if substance == "massless":
            mass, com, inertia = 0.0, np.zeros(3), np.zeros((3, 3))
        elif substance == "point":
            inertia = np.zeros((3, 3))
        elif substance == "needle":
            inertia = 0.02 * mass * (turn @ np.diag([1.0, 1.0, 0.0]) @ turn.T)
        elif substance == "needle on its axis":
            com, inertia = rng.uniform(-0.3, 0.3) * axis, 0.02 * mass * (np.eye(3) - np.outer(axis, axis))
        builder.add_body(
            f"b{i}",
            parent=path[-1] if path else "world",
            joint=joint,
            placement=(random_rotation(rng), rng.uniform(-0.4, 0.4, 3)),
            axis=axis if joint in AXED else None,
            axes=(axis, np.cross(axis, unit(rng))) if joint == "universal" else None,
            pitch=0.1 if joint == "helical" else None,
            mass=mass,
            com=com,
            inertia=(inertia + inertia.T) / 2.0,
            armature=mass * rng.uniform(0.1, 1.0) if rng.random() < 0.1 else 0.0,
        )
        path.append(f"b{i}")
    return builder.build()


def _resisting(robot: kt.Model, q: np.ndarray, *, weighted: bool) -> np.ndarray:
    """Rows A such that M = AᵀA, or whose null space is that of M, with columns of unit length; (…, nv).

    They are velocities of centres of mass, and those angular velocities that principal moments resist.
    """
    rows, J = [], robot.jacobian.engine("reference")(q, [body.name for body in robot.bodies])
    for body, (angular, linear) in zip(robot.bodies, J.reshape(-1, 2, 3, robot.nv), strict=True):
        moments, principal = np.linalg.eigh(body.inertia)
        moments = np.where(moments > 1e-12 * body.mass, moments / max(body.mass, 1e-300), 0.0)
        own = [linear + np.cross(angular.T, body.com).T, np.sqrt(moments)[:, None] * (principal.T @ angular)]
        rows += [np.sqrt(body.mass) * part if weighted else part * (body.mass > 0.0) for part in own]
    armature = np.concatenate([np.broadcast_to(joint.armature, joint.nv) for joint in robot.joints])
    A = np.concatenate([*rows, np.diag(np.sqrt(armature) if weighted else armature > 0.0)])
    lengths = np.linalg.norm(A, axis=0)
    return A / np.where(lengths > 1e-12 * (1.0 if not weighted else 0.0), lengths, np.inf)


@pytest.mark.parametrize("seed", range(120))
def test_trees_of_all_joints_and_substances(seed: int) -> None:
    """Refused if some motion moves no mass, and accepted if M is well conditioned, whatever the masses."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(20, 61)) if seed % 12 == 0 else int(rng.integers(1, 9))
    rare = (0.9, 0.04, 0.02, 0.02, 0.02) if seed % 2 else (0.4, 0.3, 0.1, 0.1, 0.1)
    robot = _random_tree(rng, count, rare, (0.0, 3.0, 9.0)[seed % 3])
    q = robot.random_configuration(rng)
    structure, scaled = (
        np.linalg.svd(_resisting(robot, q, weighted=weighted), compute_uv=False)[-1] for weighted in (False, True)
    )
    if structure < 1e-11:
        assert _refused(robot)
    elif scaled > 1e-5:
        assert not _refused(robot)


def test_the_joint_that_is_named_moves_without_mass() -> None:
    """Behind any parents, at any depth: some motion of the joint and those beyond it, and of none that lies apart."""
    named = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        robot = _random_tree(rng, int(rng.integers(2, 9)), (0.5, 0.3, 0.1, 0.1, 0.0), 3.0)
        with pytest.raises(SingularMechanismError) if _refused(robot) else nullcontext() as caught:
            robot.mass_matrix_inverse(robot.neutral())
        if caught is None:
            continue
        name = str(caught.value).split("'")[1].split(" ")[0]
        A = _resisting(robot, robot.random_configuration(rng), weighted=False)
        joint, topology = robot.joint(f"{name}_joint"), robot.mechanism.topology
        node = next(k for k, start in enumerate(robot.mechanism.v_starts) if start == joint.v_start)
        beyond = slice(joint.v_start, robot.mechanism.v_starts[topology.subtree_end(node)])
        _, sizes, motions = np.linalg.svd(A[:, beyond])
        free = motions[np.append(sizes, np.zeros(len(motions) - len(sizes))) < 1e-11]
        assert np.abs(free[:, : joint.nv]).max(initial=0.0) > 1e-9, seed
        named += 1
    assert named > 10


def _snake(count: int, first: str, rest: str, rng: np.random.Generator | None = None) -> kt.Model:
    """Rods one after the other; axes are random if `rng` is given."""
    solid = {"mass": 1.0, "com": (0.1, 0.0, 0.0), "inertia": np.diag([0.01, 0.02, 0.02])}
    turns = [np.eye(3) if rng is None else random_rotation(rng) for _ in range(count)]
    rods = [{"joint": rest, "placement": (turn, (0.2, 0.0, 0.0)), **solid} for turn in turns]
    rods[0] |= {"joint": first, "placement": (turns[0], (0.0, 0.0, 0.0))}
    return serial(rods).build()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rest", ["universal", "revolute", "prismatic", "spherical"])
def test_snakes_of_any_length(rest: str, turned: bool) -> None:
    """A massless body in the middle of a universal joint is carried by whatever follows."""
    for count in (13, 17, 21, 60, 300):
        assert not _refused(_snake(count, "universal", rest, np.random.default_rng(count) if turned else None))


@pytest.mark.parametrize("count", [1, 23, 40, 200])
def test_a_floating_base_of_six_massless_joints(count: int) -> None:
    for weight in (5.0, 0.0):  # without mass of its own, it and the first hinge have one rate too many
        base: list[dict[str, Any]] = [{"joint": "prismatic", "axis": axis} for axis in np.eye(3)]
        base += [{"axis": axis} for axis in np.eye(3)[::-1]]
        base[-1] |= {"mass": weight, "inertia": 0.04 * weight * np.eye(3)}
        solid = {"mass": 1.0, "com": (0.0, 0.0, 0.1), "inertia": np.diag([0.02, 0.02, 0.01])}
        solid |= {"placement": (np.eye(3), (0.0, 0.0, 0.2))}
        arm = ({"axis": np.eye(3)[i % 3], **solid} for i in range(count))
        assert _refused(serial(arm, "b", "r5", builder=serial(base, "r")).build()) == (not weight)


@pytest.mark.parametrize("depth", [0, 1, 20, 100])
@pytest.mark.parametrize("behind", ["revolute", "universal", "spherical"])
def test_singular_at_any_depth(behind: str, depth: int) -> None:
    """Two joints about one axis with nothing between them, at the end of a snake or in its middle."""
    rng = np.random.default_rng(depth)
    for more in (0, 5):
        axis, solid = unit(rng), {"mass": 1.0, "com": (0.1, 0.2, 0.0), "inertia": np.diag([0.01, 0.02, 0.02])}
        places = [(random_rotation(rng), (0.2, 0, 0)) for _ in range(depth)]
        builder = serial({"joint": behind, "placement": at, **solid} for at in places)
        parent = f"b{depth - 1}" if depth else "world"
        builder.add_body("nothing", parent=parent, axis=axis, placement=(random_rotation(rng), (0.2, 0.1, 0)))
        builder.add_body("same axis", parent="nothing", axis=axis, **solid)
        serial(({"axis": unit(rng), **solid} for _ in range(more)), "c", "same axis", builder=builder)
        with pytest.raises(SingularMechanismError, match="'nothing'"):
            require_invertible(builder.build().mechanism)


def test_a_light_sibling_does_not_help_against_a_heavy_one() -> None:
    """What resists is lost in the rounding of what does not."""
    for light, singular in ((1.0, False), (1e-6, False), (5e-14, True), (1e-20, True)):
        builder = kt.Builder("pair").add_body("ring")
        for name, mass, axis in (("heavy", 1.0, (0, 0, 1)), ("light", light, (1, 0, 0))):
            solid = {"mass": mass, "com": (0.1, 0.2, 0.3), "inertia": 0.1 * mass * np.eye(3)}
            builder.add_body(name, parent="ring", axis=axis, **solid)
        assert _refused(builder.build()) == singular


def test_general_nodes_that_no_inertia_resists() -> None:
    """A bead without mass behind a regular arm; one with mass on a massless ring that turns about its wire."""
    arm = kt.Builder("arm").add_body("arm", axis=(0, 1, 0), mass=1.0, inertia=np.eye(3), com=(0.1, 0, 0))
    assert not _refused(arm.add_node("bead", Bead(0.5, 0.8), parent="arm").build())
    with pytest.raises(SingularMechanismError, match="no inertia resists 'nothing'"):
        require_invertible(arm.add_node("nothing", Bead(0.0, 0.8), parent="arm").build().mechanism)
    ring = kt.Builder("ring").add_body("ring", axis=(1, 0, 0))
    assert not _refused(ring.add_node("bead", Bead(0.5, 0.8), parent="ring").build())
    straight = kt.Builder("straight").add_body("ring", axis=(1, 0, 0)).add_node("bead", Bead(0.5, 0.0), parent="ring")
    with pytest.raises(SingularMechanismError, match="'ring'"):
        require_invertible(straight.build().mechanism)
    carried = kt.Builder("carried").add_body("ring", axis=(1, 0, 0))
    carried.add_flexible("rod", kt.Beam(1.0, 50.0, 0.8, modes=1, planes="yz"), parent="ring")
    with pytest.raises(SingularMechanismError, match="'ring'"):  # a beam without axial inertia does not resist either
        require_invertible(carried.build().mechanism)


@pytest.mark.parametrize("count", [2, 40])
def test_coupled_joints_in_a_row(count: int) -> None:
    """Massless followers are resisted by what they carry; each pair is a node of its own."""
    for mass in (1.0, 0.0):
        builder, parent = kt.Builder("pairs"), "world"
        rng = np.random.default_rng(count)
        for i in range(count):
            last = {"mass": mass, "com": (0.1, 0.0, 0.0), "inertia": 0.1 * mass * np.eye(3)}
            builder.add_body(f"a{i}", parent=parent, axis=unit(rng), placement=(np.eye(3), (0.2, 0.0, 0.0)))
            builder.add_body(f"b{i}", parent=f"a{i}", axis=unit(rng), **last)
            builder.couple(f"b{i}_joint", to=f"a{i}_joint", ratio=0.5)
            parent = f"b{i}"
        assert _refused(builder.build()) == (mass == 0.0)


def test_inertias_that_are_no_numbers() -> None:
    """At a generic configuration, or because squares overflow: refused as any other, and named."""

    class Short(kt.Node):
        """A mass whose formula holds below 0.2 only."""

        def inertia(self, c: Any, q: Any) -> Any:
            return np.eye(7) * np.sqrt(0.2 - q[0])

    builder = kt.Builder("short").add_body("arm", mass=1.0, inertia=np.eye(3))
    builder.add_node("short", Short(), parent="arm", check=False)
    with pytest.raises(SingularMechanismError, match="'short'"):
        require_invertible(builder.build().mechanism)
    huge = kt.Builder("huge").add_body("huge", mass=1e250, com=(1e200, 0.0, 0.0), inertia=1e250 * np.eye(3))
    with pytest.raises(SingularMechanismError, match="'huge'"):
        require_invertible(huge.build().mechanism)


def test_one_of_several_rates() -> None:
    """A point mass on a ball joint spins freely, and so does a floating needle."""
    point = kt.Builder("point").add_body("point", joint="spherical", mass=1.0, com=(0.1, 0.2, 0.3))
    needle = kt.Builder("needle").add_body("needle", joint="floating", mass=1.0, inertia=np.diag([1.0, 1.0, 0.0]))
    assert _refused(point.build())
    assert _refused(needle.build())
    assert not _refused(kt.Builder("slides").add_body("dot", joint="translational", mass=1.0).build())


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_bodies_are_judged_by_their_own_scale(scale: float) -> None:
    solid = {"mass": scale, "com": (0, 0, 1.0), "inertia": scale * 1e-3 * np.eye(3)}
    assert not _refused(kt.Builder().add_body("a", joint="floating", **solid).build())


@pytest.mark.parametrize("kind", [name for name, kind in JOINTS.items() if kind.nv])
def test_a_massless_leaf_is_named_with_the_fix(kind: str) -> None:
    solid = {"mass": 1.0, "com": (0.1, 0, 0), "inertia": 0.1 * np.eye(3)}
    leaf = {"parent": "base", "joint": kind, "pitch": 0.1 if kind == "helical" else None}
    robot = kt.Builder().add_body("base", **solid).add_body("leaf", **leaf).build()
    with pytest.raises(SingularMechanismError, match="body 'leaf'.*a mass and an inertia.*armature.*reduced"):
        require_invertible(robot.mechanism)
    assert not _refused(robot.reduced({"leaf_joint": JOINTS[kind].neutral()}))
    assert not _refused(kt.Builder().add_body("base", **solid).add_body("leaf", armature=0.1, **leaf).build())


def test_armature_of_a_joint_beyond_on_the_same_axis() -> None:
    """It couples the ring to the wheel; without it, the ring turns alone."""
    for armature in (0.3, 0.0):
        builder = kt.Builder("wheel").add_body("ring")
        builder.add_body("wheel", parent="ring", mass=1.0, inertia=np.eye(3), armature=armature)
        assert _refused(builder.build()) == (armature == 0.0)


def test_of_several_joints_the_last_is_named() -> None:
    """One with no other beyond it."""
    with pytest.raises(SingularMechanismError, match="'ghost2'"):
        require_invertible(serial([{"axis": (1, 0, 0)}] * 3, "ghost").build().mechanism)


def _rotor(size: float) -> kt.Model:
    """A body on a hinge and two slides; `size` is its radius of gyration [m]."""
    builder = kt.Builder("rotor").add_body("turn").add_body("x", parent="turn", joint="prismatic", axis=(1, 0, 0))
    builder.add_body("y", parent="x", joint="prismatic", axis=(0, 1, 0), mass=1.0, inertia=size**2 * np.eye(3))
    return builder.build()


def test_displacements_suit_robots_of_any_size() -> None:
    """A speck is lost in displacements of a metre; displacements of a metre are lost in a body as large as a planet."""
    for size in (1e-8, 1e-4, 1.0, 1e5):
        assert not _refused(_rotor(size))
    for size in (1.0, 1e5, 1e8):
        builder = kt.Builder("planet").add_body("turn")
        builder.add_body("slide", parent="turn", joint="prismatic", axis=(1, 0, 0))
        builder.add_body("spin", parent="slide", mass=1.0, inertia=size**2 * np.eye(3))
        assert not _refused(builder.build())


def test_displacements_of_a_metre_suit_ordinary_robots() -> None:
    """A ball of which one axis is resisted the better the longer displacements are, the others the shorter they are."""
    builder = kt.Builder("ball").add_body("ball", joint="spherical")
    builder.add_body("arm", parent="ball", joint="prismatic", axis=(1, 0, 0))
    builder.add_body("flywheel", parent="arm", joint="spherical", mass=1e-9, inertia=np.eye(3))
    builder.add_body("slides", parent="ball", joint="translational")
    builder.add_body("ring", parent="slides", axis=(0, 1, 0))
    builder.add_body("ball bearing", parent="ring", axis=(0, 0, 1), mass=1.0, inertia=1e-9 * np.eye(3))
    assert not _refused(builder.build())


def test_short_displacements_come_with_all_angles() -> None:
    """A speck on two slides behind three hinges, of which two are parallel at small angles of the third."""
    builder = kt.Builder("speck").add_body("turn").add_body("x", parent="turn", joint="prismatic", axis=(1, 0, 0))
    builder.add_body("y", parent="x", joint="prismatic", axis=(0, 1, 0)).add_body("ring", parent="y", axis=(0, 1, 0))
    builder.add_body("speck", parent="ring", mass=1.0, inertia=1e-16 * np.eye(3))
    assert not _refused(builder.build())


def test_what_lies_beyond_a_point_mass() -> None:
    """A point on two rings spins about the line to their centre, unless it carries a body that resists."""
    for carried in (False, True):
        builder = (
            kt.Builder("rings").add_body("outer", axis=(0, 0, 1)).add_body("inner", parent="outer", axis=(1, 0, 0))
        )
        builder.add_body("point", parent="inner", axis=(0, 1, 0), mass=1.0, com=(0.3, 0.1, 0.2))
        if carried:
            solid = {"mass": 1.0, "com": (0.1, 0.2, 0.0), "inertia": np.eye(3)}
            builder.add_body("body", parent="point", axis=(1, 0, 0), placement=(np.eye(3), (0.2, 0.3, 0.1)), **solid)
        assert _refused(builder.build()) == (not carried)


def test_the_message_names_the_joint_as_the_user_does() -> None:
    arm = kt.zoo.arm7()
    huge = arm.inertial_parameters * 1e300
    with pytest.raises(SingularMechanismError, match=r"no inertia resists its revolute joint beyond"):
        arm.with_inertial_parameters(huge).forward_dynamics(np.zeros(7), np.zeros(7), np.zeros(7))


def test_what_lies_beyond_solid_bodies_is_not_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot matter, and a long chain would take its time."""
    examined: list[int] = []

    class Gathered(singularity._Gathered):
        def __init__(self, mechanism: Any, node: int, *rest: Any) -> None:
            examined.append(node)
            super().__init__(mechanism, node, *rest)

    monkeypatch.setattr(singularity, "_Gathered", Gathered)
    robot = _snake(30, "universal", "revolute")
    for _ in range(2):  # the answer is kept
        require_invertible(robot.mechanism)
        assert sorted(examined) == [0, 1]


def test_a_centre_of_mass_needs_mass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a rigid body, which is seen without a recursion, or of a node of another kind."""
    builder = kt.Builder("light").add_body("arm", axis=(0, 1, 0), armature=1.0)
    with pytest.raises(SingularMechanismError, match="no moving body has mass"):
        builder.build().center_of_mass(np.zeros(1))
    robot = builder.add_node("bead", Bead(0.5, 0.8), parent="arm").build()
    assert np.isfinite(robot.center_of_mass(robot.neutral())).all()
    monkeypatch.setattr(singularity, "run", None)
    singularity.require_mass(kt.zoo.arm7().mechanism)
