"""Building models: what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinetree.errors import KinetreeError, ModelError, ModelWarning, UnknownNameError
from kinetree.model import Builder, Limits
from kinetree.spatial.rotation import alignment

SOLID: dict[str, Any] = {"mass": 1.0, "com": (0.1, 0, 0), "inertia": np.diag([0.1, 0.1, 0.1])}
TILTED = np.eye(4)
TILTED[:3, :3] = [[1, 0, 0], [0, 1, 0.001], [0, 0, 1]]
NAN = float("nan")

#: Arguments of `add_body` that are wrong, and what the message must say besides the body's name.
WRONG = {
    "unknown kind": ({"joint": "ball"}, "no kind of joint is called 'ball'.*revolute.*spherical"),
    "negative mass": ({"mass": -1.0}, "mass -1 kg is negative"),
    "NaN mass": ({"mass": NAN}, "mass has NaN"),
    "text for mass": ({"mass": "heavy"}, "mass 'heavy' is not made of numbers"),
    "several masses": ({"mass": [1.0, 2.0]}, r"mass has shape \(2,\)"),
    "NaN com": ({"mass": 1.0, "com": (0, NAN, 0)}, "com has NaN"),
    "NaN com among floats": ({"mass": 1.0, "com": (0.0, NAN, 0.0)}, "com has NaN or infinite"),
    "infinite axis among floats": ({"axis": (0.0, 0.0, float("inf"))}, "axis .* has NaN or infinite"),
    "infinite place among floats": (
        {"placement": (np.eye(3), (0.0, float("inf"), 0.0))},
        "placement has NaN or infinite",
    ),
    "short com": ({"com": (0, 0)}, r"com has shape \(2,\), must be \(3,\)"),
    "infinite inertia": ({"mass": 1.0, "inertia": np.diag([np.inf, 1, 1])}, "inertia has NaN or infinite"),
    "flat inertia": ({"mass": 1.0, "inertia": (1, 1, 1)}, r"inertia has shape \(3,\), must be \(3, 3\)"),
    "lopsided inertia": ({"mass": 1.0, "inertia": [[1, 0.5, 0], [0, 1, 0], [0, 0, 1]]}, "not symmetric"),
    "negative inertia": ({"mass": 1.0, "inertia": np.diag([-0.1, 1, 1])}, "not positive definite.*centre of mass"),
    "impossible inertia": ({"mass": 1.0, "inertia": np.diag([0.1, 0.2, 1])}, "triangle inequality"),
    "inertia without mass": ({"mass": 0.0, "inertia": np.eye(3)}, "mass is zero but inertia is not.*armature"),
    "zero axis": ({"axis": (0, 0, 0)}, "the axis is zero; give a direction"),
    "NaN axis": ({"axis": (0, 0, NAN)}, "NaN"),
    "short axis": ({"axis": (0, 1)}, "an axis has 3 numbers"),
    "text for axis": ({"axis": "z"}, "axis 'z' is not made of numbers|3 numbers"),
    "axis of a floating joint": ({"joint": "floating", "axis": (0, 0, 1)}, "floating joint takes no axis"),
    "one axis of two": ({"joint": "universal", "axis": (0, 0, 1)}, r"takes no axis=; pass axes=\(first, second\)"),
    "two axes of one": ({"axes": ((1, 0, 0), (0, 1, 0))}, "only a universal joint takes axes="),
    "three axes": ({"joint": "universal", "axes": np.eye(3)}, "two axes, got 3"),
    "parallel axes": ({"joint": "universal", "axes": ((1, 0, 0), (-2, 0, 0))}, "parallel; use a revolute"),
    "missing pitch": ({"joint": "helical"}, "needs pitch="),
    "NaN pitch": ({"joint": "helical", "pitch": NAN}, "pitch nan has NaN"),
    "pitch of a hinge": ({"pitch": 0.1}, "only a helical joint takes pitch="),
    "negative armature": ({"armature": -0.1}, "armature -0.1 is negative"),
    "NaN armature": ({"armature": NAN}, "armature nan has NaN"),
    "two armatures of one": ({"armature": (0.1, 0.2)}, r"armature has shape \(2,\), must be \(1,\)"),
    "negative damping": ({"damping": -1.0}, "damping -1.0 is negative"),
    "negative friction": ({"friction": -1.0}, "friction -1.0 is negative"),
    "flat placement": ({"placement": np.zeros(4)}, r"placement has shape \(4,\); pass a 4×4 pose, a pair"),
    "NaN placement": ({"placement": (np.eye(3), (NAN, 0, 0))}, "placement has NaN"),
    "tilted placement": ({"placement": TILTED}, "not orthonormal.*more digits"),
    "mirrored placement": ({"placement": (np.diag([1, 1, -1]), np.zeros(3))}, "reflection.*flip one axis"),
    "swapped pair": ({"placement": (np.zeros(3), np.eye(3))}, r"shapes \(3,\) and \(3, 3\)"),
    "projective placement": ({"placement": np.ones((4, 4))}, "last row"),
    "text for placement": ({"placement": "here"}, "not made of numbers|shape"),
    "crossed limits": ({"limits": Limits(lower=1.0, upper=0.0)}, "lower .* is above upper .*swap"),
    "limits of a quaternion": ({"joint": "spherical", "limits": Limits(lower=0.0)}, "has no position limits"),
    "too many limits": ({"limits": Limits(lower=(0.0, 0.0))}, "lower has 2 numbers; a revolute joint takes 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_bodies_are_refused_by_name(case: str) -> None:
    arguments, message = WRONG[case]
    with pytest.raises(KinetreeError, match=message) as refused:
        Builder().add_body("elbow_link", **arguments)
    if not isinstance(refused.value, UnknownNameError):
        assert isinstance(refused.value, ModelError)
        assert "elbow_link" in str(refused.value)


@pytest.mark.parametrize("case", WRONG)
def test_a_refused_body_leaves_no_trace(case: str) -> None:
    builder = Builder()
    with pytest.raises(KinetreeError):
        builder.add_body("link", joint_name="hinge", **WRONG[case][0])
    assert builder.add_body("link", joint_name="hinge", **SOLID).build().nv == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lower": NAN}, "lower is NaN; use infinity"),
        ({"velocity": -1.0}, "velocity is negative"),
        ({"effort": (-1.0, 2.0)}, "effort is negative"),
        ({"upper": "high"}, "upper='high' is neither a number"),
    ],
)
def test_wrong_limits_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Limits(**arguments)


@pytest.mark.parametrize("gravity", [9.81, (0, 0), (0, 0, NAN), "down", None])
def test_wrong_gravity_is_refused(gravity: Any) -> None:
    with pytest.raises(ModelError, match="gravity"):
        Builder(gravity=gravity)


def test_unknown_parents_are_named_with_the_choices() -> None:
    builder = Builder().add_body("a", parent="b")
    with pytest.raises(UnknownNameError, match="parent of body 'a'. is called 'b'. There are: world, a"):
        builder.build()


def test_frames_on_unknown_bodies_are_named() -> None:
    builder = Builder().add_body("a", **SOLID).add_frame("tool", body="b")
    with pytest.raises(UnknownNameError, match="body of frame 'tool'. is called 'b'"):
        builder.build()


def test_cycles_are_shown() -> None:
    builder = Builder().add_body("root").add_body("a", parent="b").add_body("b", parent="c").add_body("c", parent="a")
    with pytest.raises(ModelError, match="cycle.*a → b → c → a"):
        builder.build()
    with pytest.raises(ModelError, match="a → a"):
        Builder().add_body("a", parent="a").build()


def test_duplicate_names_are_refused() -> None:
    builder = Builder().add_body("a", joint_name="hinge", **SOLID).add_frame("tool", body="a")
    with pytest.raises(ModelError, match="body 'a': a body has that name already"):
        builder.add_body("a")
    with pytest.raises(ModelError, match="body 'tool': a frame has that name already"):
        builder.add_body("tool")
    with pytest.raises(ModelError, match="frame 'a': a body has that name already"):
        builder.add_frame("a")
    with pytest.raises(ModelError, match="frame 'tool': a frame has that name already"):
        builder.add_frame("tool", body="a")
    with pytest.raises(ModelError, match="body 'b': a joint 'hinge' exists already, in front of 'a'; rename"):
        builder.add_body("b", joint_name="hinge")
    with pytest.raises(ModelError, match="'world', the name of the inertial frame"):
        builder.add_body("world")
    with pytest.raises(ModelError, match="non-empty"):
        builder.add_body("")


def test_a_wrong_frame_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match="frame 'tool': placement has shape"):
        Builder().add_frame("tool", placement=np.eye(3))


def test_an_empty_model_is_refused() -> None:
    with pytest.raises(ModelError, match="no bodies; add_body"):
        Builder("void").build()


@pytest.mark.parametrize(
    ("mass", "inertia"),
    [
        (1.0, np.zeros((3, 3))),
        (1.0, np.diag([0.0, 0.2, 0.2])),
        (1.0, np.diag([0.1, 0.2, 0.3])),
        (1e-9, np.diag([1e-15, 1e-15, 1e-15])),
        (1.0, np.array([[0.2, 1e-9, 0], [0, 0.2, 0], [0, 0, 0.2]])),
        (0.0, None),
    ],
    ids=["point", "rod", "plate", "dust", "rounded", "massless"],
)
def test_limiting_cases_of_inertia_are_accepted(mass: float, inertia: Any) -> None:
    Builder().add_body("a", mass=mass, inertia=inertia).build()


def test_rods_turned_anyhow_are_accepted() -> None:
    rng = np.random.default_rng(0)
    for along in rng.standard_normal((100, 3)):
        rod = along @ along * np.eye(3) - np.outer(along, along)
        Builder().add_body("rod", mass=1.0, inertia=rod)


def test_a_lenient_builder_warns_and_keeps_the_numbers() -> None:
    with pytest.warns(ModelWarning, match="body 'a': inertia violates the triangle inequality"):
        robot = Builder(strict=False).add_body("a", mass=1.0, inertia=np.diag([0.1, 0.1, 1.0])).build()
    np.testing.assert_array_equal(robot.body("a").inertia, np.diag([0.1, 0.1, 1.0]))


def test_rotations_with_a_few_digits_are_mended() -> None:
    rough = np.round(np.array([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]]) @ np.eye(3) + 3e-8, 7)
    robot = Builder().add_body("a", placement=(rough, np.zeros(3)), **SOLID).build()
    R = robot.joint("a_joint").placement[:3, :3]
    np.testing.assert_allclose(R.T @ R, np.eye(3), rtol=0, atol=1e-15)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("index", range(3))
def test_alignment_along_the_axes_is_exact(index: int, sign: float) -> None:
    axis = sign * np.eye(3)[index]
    R = alignment(axis)
    assert set(np.abs(R).reshape(-1)) == {0.0, 1.0}
    np.testing.assert_array_equal(R[:, 2], axis)
    assert np.linalg.det(R) == 1.0


def test_alignment_is_a_rotation_whatever_the_axis() -> None:
    axes = np.random.default_rng(3).standard_normal((200, 3))
    axes[:100, :2] *= 1e-9
    for axis in axes / np.linalg.norm(axes, axis=1, keepdims=True):
        R = alignment(axis)
        np.testing.assert_allclose(R.T @ R, np.eye(3), rtol=0, atol=1e-15)
        np.testing.assert_allclose(R[:, 2], axis, rtol=0, atol=1e-15)
        assert np.linalg.det(R) > 0


def test_bodies_may_come_in_any_order_and_are_numbered_depth_first() -> None:
    builder = Builder()
    for name, parent in (("c", "b"), ("b", "world"), ("d", "world"), ("e", "b"), ("f", "c")):
        builder.add_body(name, parent=parent, **SOLID)
    robot = builder.build()
    assert [body.name for body in robot.bodies] == ["b", "c", "f", "e", "d"]
    assert robot.mechanism.topology.parents == (-1, 0, 1, 0, -1)


def test_arrays_may_be_reused_for_the_next_body() -> None:
    com, inertia, placement, axis = np.zeros(3), np.diag([1.0, 1.0, 1.0]), np.eye(4), np.array([0.0, 0.0, 1.0])
    builder = Builder()
    for i in range(2):
        com[0], inertia[0, 0], placement[0, 3], axis[:] = i, 1.0 + i / 2, 3.0 * i, np.eye(3)[i]
        parent = "a" if i else "world"
        builder.add_body("ab"[i], parent=parent, placement=placement, axis=axis, mass=1.0, com=com, inertia=inertia)
    first, second = builder.build().bodies
    assert (first.com[0], first.inertia[0, 0], second.com[0], second.inertia[0, 0]) == (0.0, 1.0, 1.0, 1.5)
    near, far = builder.build().joints
    assert (near.placement[0, 3], far.placement[0, 3]) == (0.0, 3.0)
    assert [near.axes.tolist(), far.axes.tolist()] == [[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]]
    with pytest.raises(ValueError, match="read-only"):
        near.placement[0, 3] = 1.0


def test_numbers_may_be_given_in_any_form() -> None:
    turn = ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = turn, (1.0, 2.0, 3.0)
    inertia = [[3, 0, 0], [0, 4, 0], [0, 0, 5]]
    given: list[dict[str, Any]] = [
        {"placement": (turn, (1.0, 2.0, 3.0)), "axis": (0.0, 3.0, 4.0), "com": (1.0, 0.0, 2.0), "inertia": inertia},
        {"placement": [np.array(turn), [1, 2, 3]], "axis": [0, 3, 4], "com": np.array([1, 0, 2]), "inertia": inertia},
        {"placement": pose, "axis": np.array([0.0, 3.0, 4.0]), "com": (1, 0, 2), "inertia": np.diag([3.0, 4.0, 5.0])},
        {"placement": pose.tolist(), "axis": (0, 3, 4), "com": [1.0, 0, 2], "inertia": np.diag([3, 4, 5])},
    ]
    models = [Builder("any").add_body("link", mass=mass, **one).build() for one in given for mass in (7, 7.0)]
    assert all(model == models[0] for model in models)


def test_the_largest_numbers_are_finite() -> None:
    body = Builder().add_body("far", mass=1.0, com=(1.7e308, 1.7e308, -1.7e308)).build().body("far")
    assert body.com.tolist() == [1.7e308, 1.7e308, -1.7e308]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mass": 1.0, "inertia": np.diag([0.1, 0.2, 1])}, "triangle inequality"),
        ({"mass": 1.0, "inertia": np.diag([NAN, 1, 1])}, "inertia has NaN"),
        ({"placement": TILTED}, "not orthonormal"),
    ],
)
def test_the_same_fault_is_refused_in_every_body(arguments: dict[str, Any], message: str) -> None:
    builder = Builder()
    for name in ("one", "other"):
        with pytest.raises(ModelError, match=f"{name!r}.*{message}"):
            builder.add_body(name, **arguments)
