"""Frames and shapes of placements: what is chosen, what is shared, what it saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from benchmarks.papers.general import general
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix
from kinetree.compiler.count import count
from kinetree.compiler.ir import Switch, walk
from kinetree.compiler.programs import lowered, variants_of
from kinetree.language.common_frame import in_common_frame
from kinetree.language.mechanism import depth_first
from kinetree.model.assembly.frames import UNCHANGED, distinct, framed
from kinetree.model.joints.one_axis import Revolute
from kinetree.model.nodes.rigid import GENERAL, AxialBody, PlacementShape, numbers_in, shared
from kinetree.spatial.axial import ANY, AxialTransform, Form
from kinetree.spatial.inertia import CoriolisInertia, RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.transform import Transform
from tests.laws.test_coordinates import turn
from tests.trees import serial

Array = np.ndarray[Any, np.dtype[np.float64]]
PARALLEL, QUARTER, TILTED = PlacementShape(0, 0, 1), PlacementShape(1, 0, 5), PlacementShape(ANY, 0, 5)


def chain(*placements: tuple[Array, tuple[float, ...]], joint: str = "revolute") -> kt.Model:
    """A revolute joint on the world, and others behind it."""
    solid = {"mass": 1.0, "inertia": np.eye(3)}
    return serial([solid, *({"joint": joint, "placement": at, **solid} for at in placements)], "link").build()


def shapes(robot: kt.Model) -> list[PlacementShape]:
    return [kind.shape for kind in robot.mechanism.kinds if isinstance(kind, AxialBody)]


def numbers(robot: kt.Model, node: int) -> Array:
    """The numbers of a placement, without the joint's angle at neutral q."""
    kind = robot.mechanism.kinds[node]
    assert isinstance(kind, AxialBody)
    return robot.mechanism.parameters[node][RigidInertia.size :][: kind.shape.size]


def same(actual: Array, expected: Array) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-14)


FORMS = [
    Form(t, d, x, z, r)
    for t, d in ((1, 0), (0, 1), (1, 1))
    for x in (0, 1, 2, 3, ANY)
    for z, r in ((0, 5), (3, 6), (ANY, 7))
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_steps_are_a_transform(form: Form) -> None:
    rng = np.random.default_rng(5)
    data = []
    for _ in range(form.turns):
        data += [np.sin(0.4), np.cos(0.4)]
    data += [0.3] * form.slides
    for turns, angle in ((form.about_x, -0.8), (form.about_z, 1.1)):
        data += [np.sin(angle), np.cos(angle)] if turns == ANY else []
    data += rng.uniform(-1, 1, form.offsets.bit_count()).tolist()
    X = AxialTransform(np.array(data), *form)
    dense = X.dense()
    E = turn(2, -0.4 * form.turns) @ turn(0, 0.8 if form.about_x == ANY else -form.about_x * np.pi / 2)
    E = E @ turn(2, -1.1 if form.about_z == ANY else -form.about_z * np.pi / 2)
    same(X.E, E)
    motion, force = Motion(rng.uniform(-1, 1, 6)), Force(rng.uniform(-1, 1, 6))
    other = Transform.of(turn(1, 0.7), rng.uniform(-1, 1, 3))
    root = rng.uniform(-1, 1, (6, 6))
    rigid = RigidInertia.of(2.0, rng.uniform(-1, 1, 3), np.eye(3))
    articulated = type(rigid.articulated()).from_matrix(root @ root.T)
    same((X @ motion).data, (dense @ motion).data)
    same((X.T @ force).data, (dense.T @ force).data)
    same(X.back(motion).data, dense.back(motion).data)
    same((X @ other).data, (dense @ other).data)
    same(X.congruence(rigid).data, dense.congruence(rigid).data)
    same(X.congruence(articulated).data, dense.congruence(articulated).data)
    B = CoriolisInertia.of(rigid, motion)
    same(X.congruence(B).data, dense.congruence(B).data)
    same(X.congruence(B.articulated()).data, dense.congruence(B.articulated()).data)
    same(X.inverse().data, dense.inverse().data)
    same(X.moment_of(rigid), dense.moment_of(rigid))
    same(X.matrix(), dense.matrix())
    same(dense.congruence(articulated).matrix(), X.matrix().T @ articulated.matrix() @ X.matrix())
    with pytest.raises(TypeError):
        X @ 3  # type: ignore[operator]
    with pytest.raises(ValueError, match="takes"):
        AxialTransform(np.zeros(99), *form)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_rates_of_steps(form: Form) -> None:
    data = np.linspace(0.2, 0.9, AxialTransform.size_of(*form))
    X, w, u = AxialTransform(data, *form), 0.6, -0.7
    rate = X.rate(Motion(np.array([0.0, 0.0, w, 0.0, 0.0, u]))).data
    expected = [data[1] * w, -data[0] * w] * form.turns + [u] * form.slides
    np.testing.assert_allclose(rate, [*expected, *np.zeros(len(data) - len(expected))], rtol=0, atol=1e-15)


def test_denavit_and_hartenberg() -> None:
    """Common normals become x axes, and origins slide along axes."""
    robot = chain(
        (np.eye(3), (0.3, 0.4, 0.7)),  # parallel, at a distance of 0.5
        (turn(2, 0.3) @ turn(0, -np.pi / 2), (0.1, 0.2, 0.3)),
        (turn(2, -0.8) @ turn(0, 0.9), (0.1, 0.2, 0.3)),
    )
    assert [kind.name for kind in robot.mechanism.kinds[:1]] == ["revolute"]
    assert shapes(robot)[:2] == [PARALLEL, QUARTER]
    np.testing.assert_allclose(numbers(robot, 1), [0.5], rtol=0, atol=1e-15)
    assert shapes(chain(*[(turn(2, 0.2 * i) @ turn(0, 0.9), (0.1, 0.2, 0.3)) for i in range(4)])) == [TILTED] * 4
    sine, cosine, *offset = numbers(chain(*[(turn(0, -0.9), (0.1, 0.0, 0.3))] * 4), 1)
    np.testing.assert_allclose([sine, cosine, *offset], [np.sin(0.9), np.cos(0.9), -0.1, 0.3], rtol=0, atol=1e-15)


def test_origins_behind_prismatic_joints_are_the_parent_s() -> None:
    robot = chain(*[(turn(0, np.pi / 2), (0.1, 0.2, 0.3))] * 2, joint="prismatic")
    assert shapes(robot) == [PlacementShape(1, 0, 0), PlacementShape(1, 0, 0)]
    np.testing.assert_allclose(robot.pose(np.zeros(3), "link2")[:3, 3], [0.2, 0.2 - 0.3, 0.3 + 0.2], rtol=0, atol=1e-15)


def test_only_rounding_errors_are_removed() -> None:
    exact, slightly, off = (chain(*[(turn(0, np.pi / 2 + d), (0.1, 0.0, 0.2))] * 3) for d in (0.0, 1e-15, 1e-13))
    assert shapes(exact) == shapes(slightly) == [QUARTER] * 3
    assert shapes(off) == [TILTED] * 3
    # the cosine of a small angle is 1 long before its sine is 0
    tiny = chain(*[(turn(0, 1e-9), (0.1, 0.0, 0.2))] * 3)
    assert {shape.about_x for shape in shapes(tiny)} == {ANY}


def test_axes_at_small_angles_keep_their_origins() -> None:
    """Their common normals are far away."""
    robot = chain(*[(turn(0, 1e-3), (0.1, 0.2, 0.3))] * 4)
    assert {shape.offsets for shape in shapes(robot)} == {7}
    assert abs(robot.mechanism.total_parameters).max() < 10.0


def test_children_share_the_axes_of_their_parent() -> None:
    """One child determines x; those at right angles to it take quarter turns, others turns by any angle."""
    angles = (0.3, 0.3 + np.pi / 2, 0.3 + np.pi, 0.3, 1.0, 1.0)
    poses = np.tile(np.eye(4), (1 + len(angles), 1, 1))
    for at, angle in zip(poses[1:], angles, strict=True):
        at[:3, :3] = turn(2, angle) @ turn(0, np.pi / 2)
        at[:3, 3] = at[:3, :3] @ (0.1, 0.2, 0.5)
    which, _, found = framed([-1] + [0] * len(angles), range(len(poses)), poses, [Revolute()] * len(poses), ())
    steps = [found[entry] for entry in which]
    assert steps[0] is None
    assert [own.shape.about_z for own in steps if own is not None] == [0, 1, 2, 0, ANY, ANY]


def test_a_fixed_frame_does_not_change() -> None:
    poses = np.tile(np.eye(4), (3, 1, 1))
    poses[:, :3, :3], poses[:, :3, 3] = turn(0, 0.4), (0.1, 0.2, 0.3)
    which, changes, steps = framed([-1, 0, 1], range(3), poses, [Revolute()] * 3, {1})
    assert changes[which[1]] is UNCHANGED
    assert steps[which[1]] is None
    assert steps[which[2]] is not None


@pytest.mark.parametrize("parent", [lambda k: k - 1, lambda k: (k - 1) // 2], ids=["chain", "tree"])
def test_nodes_with_alike_surroundings_share_what_was_found(parent: Callable[[int], int]) -> None:
    """Their frames are those that are found if no two placements are equal, up to the difference."""
    n, rng = 200, np.random.default_rng(0)
    order = depth_first(["0"], {str(k): [str(c) for c in range(1, n) if parent(c) == k] for k in range(n)})
    parents = [order.index(str(parent(int(name)))) if name != "0" else -1 for name in order]
    poses = np.tile(np.eye(4), (n, 1, 1))
    for at, name in zip(poses, order, strict=True):
        at[:3, :3] = turn(2, 0.5) @ turn(0, 0.9 + 0.3 * (int(name) % 2))
        at[:3, 3] = 0.1, 0.2, 0.5
    placed, first = distinct(pose.tobytes() for pose in poses)
    shared_frames = framed(parents, placed, poses[first], [Revolute()] * n, ())
    poses[:, :3, 3] += rng.uniform(-1e-9, 1e-9, (n, 3))
    own_frames = framed(parents, range(n), poses, [Revolute()] * n, ())
    assert len(shared_frames.changes) < n / 4
    assert own_frames.which == list(range(n))
    for k, entry in enumerate(shared_frames.which):
        np.testing.assert_allclose(shared_frames.changes[entry], own_frames.changes[k], rtol=0, atol=1e-6)


def test_nodes_in_lanes_share_a_shape() -> None:
    """The limbs of a star differ in the order of their axes, but are computed together."""
    builder = kt.Builder("star")
    own: dict[str, Any] = {"mass": 1.0, "inertia": np.eye(3)}
    builder.add_body("hub", joint="floating", **own)
    for limb in range(4):
        quarters = [(limb + i) % 2 for i in range(4)]
        places = [(turn(0, quarter * np.pi / 2), (0.1, 0.0, 0.2 * quarter)) for quarter in quarters]
        serial(({"placement": at, **own} for at in places), f"{limb}.", "hub", builder=builder)
    found = shapes(builder.build())
    assert len(found) == 16
    assert len(set(found)) == 1
    assert {shape.about_x for shape in found} == {ANY}


def test_few_shapes_are_compiled() -> None:
    assert shared({QUARTER: 5, PARALLEL: 2}) == {QUARTER: QUARTER, PARALLEL: PARALLEL}
    # a single tilted placement is not worth a shape of its own; offsets cost little
    assert shared({QUARTER: 5, TILTED: 1}) == {QUARTER: QUARTER, TILTED: GENERAL}
    assert set(shared({PARALLEL: 6, PlacementShape(0, 0, 3): 2}).values()) == {PlacementShape(0, 0, 3)}
    every = [PlacementShape(1, z, 5 if z % 2 == 0 else 6) for z in range(4)] + [
        PARALLEL,
        PlacementShape(2, 0, 1),
        TILTED,
    ]
    found = shared(dict.fromkeys(every, 3))
    assert list(found) == every
    assert len(set(found.values())) == 4
    assert all(shape | common == common for shape, common in found.items())
    assert shared({}) == {}


def test_numbers_of_a_wider_shape() -> None:
    steps = np.array([(1.0, 0.0, 0.0, 1.0, 0.1, 0.0, 0.2, 0.6, 0.8)] * 2)
    np.testing.assert_array_equal(numbers_in(QUARTER, True, steps), [[0.1, 0.2, 0.6, 0.8]] * 2)
    np.testing.assert_array_equal(numbers_in(QUARTER, False, steps), [[0.1, 0.2]] * 2)
    np.testing.assert_array_equal(numbers_in(GENERAL, False, steps), [[1.0, 0.0, 0.0, 1.0, 0.1, 0.0, 0.2]] * 2)


def test_names_tell_shapes_apart() -> None:
    names = {PlacementShape(x, z, r).name for x in range(5) for z in range(5) for r in range(8)}
    assert len(names) == 200


def per_node(robot: Any, reframed: bool) -> list[int]:
    """Operations of inverse and forward dynamics per link, of a chain built by length."""

    def of(n: int) -> Any:
        return robot(n).mechanism if reframed else general(robot(n))

    return [count(each, of(9)).total - count(each, of(8)).total for each in (inverse_dynamics, forward_dynamics)]


def test_counts_of_a_chain_of_quarter_turns() -> None:
    def robot(n: int) -> kt.Model:
        return chain(*[(turn(0, np.pi / 2), (0.1, 0.0, 0.2))] * n)

    assert per_node(robot, reframed=True) == [202, 368]
    assert per_node(robot, reframed=False) == [280, 610]


def test_counts_of_a_chain_of_any_angles() -> None:
    def robot(n: int) -> kt.Model:
        return chain(*[(turn(0, 0.9), (0.1, 0.0, 0.2))] * n)

    assert per_node(robot, reframed=True) == [238, 453]


def test_counts_of_the_zoo() -> None:
    counts = {
        robot.name: [robot.count(name).total for name in ("inverse_dynamics", "forward_dynamics", "mass_matrix")]
        for robot in (kt.zoo.humanoid24(), kt.zoo.asimo35())
    }
    assert counts == {"humanoid24": [4989, 9142, 4953], "asimo35_hands_feet": [7856, 14730, 6672]}


def test_loops_without_placements_are_compiled_once() -> None:
    robot = kt.zoo.humanoid24()
    assert len(set(shapes(robot))) > 1
    text = in_common_frame(mass_matrix)
    program = lowered(text, variants_of(text, robot.mechanism, ())).program
    switches = [item for item in walk(program.top) if isinstance(item, Switch)]
    assert len(switches[0].blocks) == len(switches[0].cases)  # places nodes
    assert all(len(switch.blocks) < len(switch.cases) for switch in switches[1:])
