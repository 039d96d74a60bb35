"""Shapes on a model: what they are, how editing keeps them, which pairs of them may collide."""

from __future__ import annotations

import copy
import os
import pickle
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import geometry as geo
from kinetree.errors import InputError, LoadError, ModelError, ModelWarning, UnknownNameError, UnsupportedError
from kinetree.model import collision_pairs as reasons
from tests.tolerance import assert_near, bound, refused

TOL = bound(6)


def arm(links: int = 4) -> kt.Model:
    """A planar arm with a capsule along each link."""
    builder = kt.Builder("arm")
    parent = "world"
    for k in range(links):
        at = None if k == 0 else (np.eye(3), (0.5, 0.0, 0.0))
        builder.add_body(
            f"link{k}", parent=parent, joint="revolute", placement=at, axis=(0, 0, 1), mass=1.0, com=(0.25, 0, 0),
            inertia=0.01 * np.eye(3),
        )  # fmt: skip
        parent = f"link{k}"
    robot = builder.build().with_frame("tool", parent, (np.eye(3), (0.5, 0, 0)))
    return robot.with_shapes(geo.Capsule(f"link{k}", (0.05, 0, 0), (0.45, 0, 0), 0.04) for k in range(links))


def test_a_builder_takes_shapes() -> None:
    ball, rod = geo.Sphere("tool", (0, 0, 0.1), 0.05), geo.Capsule("rod", (0, 0, 0), (0, 0, 1), 0.1, body="link")
    builder = kt.Builder("arm").add_shape(rod, ball).add_shape(ball)
    builder.add_body("link", joint="revolute", mass=1.0, inertia=np.eye(3))
    refused("tool", builder.build, error=UnknownNameError)
    builder.add_frame("tool", body="link")
    robot = builder.build()
    assert [shape.name for shape in robot.shapes] == ["rod", "tool", "tool_1"]
    assert [shape.body for shape in robot.shapes] == ["link", "tool", "tool"]
    assert builder.build(loops="multipliers").shapes == robot.shapes
    refused("a shape is such as", lambda: builder.add_shape("tool"), error=ModelError)  # type: ignore[arg-type]


SHAPES: list[geo.SolidShape] = [
    geo.Sphere("tool", (0, 0, 0.1), 0.05),
    geo.Capsule("tool", (0, 0, 0), (0.1, 0.2, 0.3), 0.05, friction=0.5),
    geo.Box("tool", (0.1, 0.2, 0.3), (np.eye(3), (1, 2, 3)), rounding=0.01),
    geo.Cylinder("tool", 0.1, 0.2, (np.eye(3), (1, 2, 3))),
    geo.Ellipsoid("tool", (0.1, 0.2, 0.3)),
    geo.Hull("tool", "package://robot/hand.stl", (1e-3, 1e-3, 1e-3)),
    geo.Plane("tool"),
    geo.HeightField([[0, 1], [2, 3.0]], (1, 2), name="tool"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.kind)
def test_shapes_are_values(shape: geo.SolidShape) -> None:
    for same in (copy.deepcopy(shape), pickle.loads(pickle.dumps(shape))):
        assert same == shape
        assert hash(same) == hash(shape)
    assert shape != shape.renamed("other", "tool")
    assert shape.pose.shape == (4, 4)
    assert_near(shape.pose[:3, :3] @ shape.pose[:3, :3].T, np.eye(3), TOL)
    turn = np.array([[0, -1, 0, 1.0], [1, 0, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]])
    moved = shape.moved(turn, "link0", "new")
    assert (moved.name, moved.body, moved.friction, type(moved)) == ("new", "link0", shape.friction, type(shape))
    assert_near(moved.pose[:3, 3], (turn @ shape.pose)[:3, 3], TOL)
    if shape.kind != "sphere":
        assert_near(moved.pose[:3, 2], (turn @ shape.pose)[:3, 2], TOL)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: geo.Sphere("", (0, 0, 0), 1), "needs a name"),
        (lambda: geo.Sphere("a", (0, 0), 1), "three finite numbers"),
        (lambda: geo.Sphere("a", (0, 0, np.nan), 1), "three finite numbers"),
        (lambda: geo.Sphere("a", (0, 0, 0), -1), "not a positive length"),
        (lambda: geo.Sphere("a", (0, 0, 0), "thick"), "not a positive length"),
        (lambda: geo.Sphere("a", (0, 0, 0), 1, friction=-1), "not a coefficient"),
        (lambda: geo.Sphere("a", (0, 0, 0), 1, friction="rough"), "not a coefficient"),
        (lambda: geo.Sphere("a", (0, 0, 0), 1, masks=3), "not two integers"),
        (lambda: geo.Sphere("a", (0, 0, 0), 1, masks=(1, 0.5)), "not two integers"),
        (lambda: geo.Sphere("a", (0, 0, 0), 1, body=3), "not the name of a frame"),
        (lambda: geo.Sphere("a", (0, 0, 0), 1e160), "too large"),
        (lambda: geo.Box("a", (1, 1, 1e160)), "too large"),
        (lambda: geo.Capsule("a", (0, 0, 0), (0, 0, np.inf), 1), "three finite numbers"),
        (lambda: geo.Box("a", (1, 0, 1)), "not positive"),
        (lambda: geo.Box("a", (1, 1, 1), rounding=0.6), "half its shortest edge"),
        (lambda: geo.Box("a", (1, 1, 1), rounding=None), "half its shortest edge"),
        (lambda: geo.Box("a", (1, 1, 1), np.eye(3)), "placement has shape"),
        (lambda: geo.Cylinder("a", 1, 0), "not a positive length"),
        (lambda: geo.Ellipsoid("a", (1, 1, -1)), "not all positive"),
        (lambda: geo.HeightField([[1.0]], (1, 1)), "two rows and columns"),
        (lambda: geo.HeightField([[1.0, 2], [3, 4]], (1, 0)), "two positive lengths"),
        (lambda: geo.HeightField([[1.0, 2], [3, 4]], (1, 1e160)), "two positive lengths"),
        (lambda: geo.HeightField([[1.0, 2], [3, 1e160]], (1, 1)), "finite numbers"),
        (lambda: kt.Scene([geo.Plane(), geo.Plane()]), "two shapes of the scene"),
        (lambda: kt.Scene([geo.Plane(body="hand")]), "shapes of a scene have no body"),
        (lambda: kt.Scene([3]), "consists of shapes"),
        (lambda: kt.Scene(geo.Plane()), "a list of shapes"),
        (lambda: arm().with_shapes([3]), "a shape is such as"),
        (lambda: arm().with_shapes(SHAPES[0]), "shapes are a list"),
    ],
)
def test_shapes_that_cannot_be_are_refused(make: Any, message: str) -> None:
    refused(message, make, error=ModelError)


def test_a_robot_has_shapes_with_unique_names() -> None:
    robot = arm(1).with_shapes(SHAPES)
    assert [shape.name for shape in robot.shapes[:3]] == ["tool", "tool_1", "tool_2"]
    assert {shape.body for shape in robot.shapes} == {"tool"}
    more = robot.with_shapes([geo.Sphere("ball", (0, 0, 0), 0.1, body="link0")], add=True)
    assert more.shapes[:-1] == robot.shapes
    assert more.shapes[-1].body == "link0"
    with pytest.raises(UnknownNameError, match="hnad"):
        robot.with_shapes([geo.Sphere("hnad", (0, 0, 0), 0.1)])
    assert robot != arm(1)
    assert robot == pickle.loads(pickle.dumps(robot))
    assert pickle.loads(pickle.dumps(robot)).shapes == robot.shapes


def test_editing_keeps_shapes() -> None:
    robot = arm()
    variants = [
        robot.with_gravity((0, 0, 0)),
        robot.with_payload("tool", 1.0),
        robot.reduced({robot.joints[2].name: 0.3}),
        robot.astype("float32"),
    ]
    for variant in variants:
        assert variant.shapes == robot.shapes
    assert [shape.name for shape in robot.subtree("link2").shapes] == ["link2", "link3"]
    base = robot.with_shapes([geo.Box("base", (0.2, 0.2, 0.2), body="world")], add=True)
    at = np.array([[0, -1, 0, 0.1], [1, 0, 0, 0.2], [0, 0, 1, 0.3], [0, 0, 0, 1.0]])
    both = robot.attach("tool", base, at, prefix="second_")
    assert len(both.shapes) == 9
    box = both.shapes[-1]
    assert (box.name, box.body) == ("second_base", "link3")
    shift = np.eye(4)
    shift[0, 3] = 0.5
    assert_near(box.pose, shift @ at, TOL)
    with pytest.raises(ModelError, match="names in common"):
        robot.attach("tool", base)


def test_pairs_are_left_out_for_reasons() -> None:
    robot = arm().with_shapes([geo.Sphere("ball", (1.75, 0, 0), 0.1, body="link0")], add=True)
    with pytest.warns(ModelWarning, match="collide at the neutral configuration are left out: ball–link3"):
        pairs = robot.collision_pairs()
    assert pairs.excluded["link0", "link1"] == reasons.ADJACENT
    assert pairs.excluded["ball", "link0"] == reasons.SAME_BODY
    assert pairs.excluded["ball", "link3"] == reasons.AT_NEUTRAL
    assert set(pairs) == {("link0", "link2"), ("link0", "link3"), ("link1", "link3"), ("ball", "link2")}
    assert len(pairs) + len(pairs.excluded) == 5 * 4 // 2
    assert ("ball", "link3") in robot.collision_pairs(keep_colliding=True)


def test_bodies_without_shapes_do_not_keep_others_apart() -> None:
    robot = arm()
    some = robot.with_shapes([shape for shape in robot.shapes if shape.name != "link1"])
    assert some.collision_pairs().excluded["link0", "link2"] == reasons.ADJACENT


def test_always_colliding_pairs_are_named() -> None:
    robot = arm().with_shapes([geo.Sphere(f"link{k}", (0, 0, 0), 2.0) for k in range(3)])
    with pytest.warns(ModelWarning, match="all sampled configurations are left out: link0–link2"):
        pairs = robot.collision_pairs()
    assert pairs.excluded["link0", "link2"] == reasons.ALWAYS
    assert len(pairs) == 0
    q = robot.random_configuration(0, (3,))
    near = robot.distances(q, pairs)
    assert near.distance.shape == (3, 0)
    assert near.points.shape == (3, 0, 2, 3)
    assert np.isinf(robot.clearance(q, pairs)).all()
    assert not robot.collides(q, pairs).any()
    assert_near(robot.clearance.vjp(q, pairs), np.zeros((3, 4)), 0.0)


def test_a_scene_is_around_the_robot() -> None:
    robot = arm().with_shapes([geo.Box("base", (0.2, 0.2, 0.2), body="world")], add=True)
    scene = kt.Scene([geo.Plane(placement=(np.eye(3), (0, 0, -0.5))), geo.Sphere("lamp", (0, 0, 3), 0.1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = robot.collision_pairs(scene=scene)
    assert ("link0", "plane") in pairs
    assert ("lamp", "link0") in pairs
    assert pairs.excluded["lamp", "base"] == reasons.FIXED
    assert pairs.excluded["base", "plane"] == reasons.FIXED
    near = robot.distances(robot.neutral(), pairs)
    ground = near.distance[[k for k, names in enumerate(pairs) if "plane" in names]]
    assert_near(ground, np.full(4, 0.46), TOL)
    assert pairs.excluded == pickle.loads(pickle.dumps(pairs)).excluded
    assert pickle.loads(pickle.dumps(pairs)) == pairs
    refused("both have a shape 'lamp'", robot.with_shapes([geo.Sphere("lamp", (0, 0, 0), 1, "link0")]).collision_pairs,
            scene=scene, error=ModelError)  # fmt: skip
    refused("scene is a kinetree.Scene, got list: pass", robot.collision_pairs, scene=[geo.Plane()])


def test_pairs_can_be_left_out_by_name() -> None:
    pairs = arm(5).collision_pairs()
    assert ("link0", "link2") in pairs
    fewer = pairs.without("link2", "link0")
    assert fewer.excluded["link0", "link2"] == reasons.BY_HAND
    assert len(fewer) == len(pairs) - 1
    assert not [names for names in pairs.without("link0") if "link0" in names]
    with pytest.raises(UnknownNameError, match="link9"):
        pairs.without("link9")
    refused("without\\(\\) takes", pairs.without)
    one = pairs.only("link2", "link0")
    assert list(one) == [("link0", "link2")]
    assert one.excluded == {**pairs.excluded, **dict.fromkeys(set(pairs) - set(one), reasons.NOT_CHOSEN)}
    assert set(pairs.only("link0")) == {names for names in pairs if "link0" in names}
    refused("only\\(\\) takes", pairs.only, "a", "b", "c")
    refused("pairs come from", arm().distances, np.zeros(4), [("link0", "link2")])


def test_robots_without_shapes_are_said_not_to_collide() -> None:
    robot = kt.zoo.arm7()
    with pytest.warns(ModelWarning, match=r"'arm7' has no shapes, so that nothing collides; give it some"):
        assert not len(robot.collision_pairs())


def test_shapes_say_what_they_are_in_one_line() -> None:
    assert (
        repr(geo.Box("chest", (0.1, 0.2, 0.3), body="trunk"))
        == "<box 'chest' on 'trunk': size 0.1 0.2 0.3, rounding 0>"
    )
    assert repr(geo.Sphere("hand", (0, 0, 0), 0.05, body="hand")) == "<sphere 'hand': center 0 0 0, radius 0.05>"
    assert repr(geo.Plane("floor")) == "<plane 'floor'>"


def test_capsules_without_length_are_spheres() -> None:
    """They come first in pairs, and where they meet an axis the normal is across it."""
    rod = geo.Capsule("rod", (-0.3, -0.1, 0.2), (0.3, 0.1, -0.2), 0.05)
    ball = geo.Capsule("ball", (0, 0, 0), (0, 0, 0), 0.1)
    builder = kt.Builder("free")
    builder.add_body("rod", joint="floating", mass=1.0, inertia=np.eye(3))
    builder.add_shape(rod)
    robot = builder.build()
    pairs = robot.collision_pairs(scene=kt.Scene([ball]), keep_colliding=True)
    near = robot.distances(robot.neutral(), pairs)
    assert pairs[0] == ("ball", "rod")
    assert_near(near.distance, -0.15, 1e-15)
    assert_near(near.normal[0] @ (rod.end - rod.start), 0.0, 1e-12)


def test_srdf_files_disable_pairs(tmp_path: Path) -> None:
    refused("srdf='gone.srdf' cannot be read: No such file", arm().collision_pairs, srdf="gone.srdf")
    file = tmp_path / "arm.srdf"
    file.write_text('<robot name="arm"><disable_collisions link1="link0" link2="link2" reason="Never"/></robot>')
    assert arm().collision_pairs(srdf=file).excluded["link0", "link2"] == reasons.DISABLED
    file.write_text('<robot name="arm">\n<disable_collisions link1="link0" link2="link7"/></robot>')
    with pytest.raises(UnknownNameError, match=r"link \(line 2 of arm.srdf\)"):
        arm().collision_pairs(srdf=file)
    refused("cannot be read", arm().collision_pairs, srdf=tmp_path / "none.srdf")


def test_srdf_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    robot, file = arm(), tmp_path / "arm.srdf"
    os.mkfifo(tmp_path / "pipe.srdf")
    for srdf, problem in (
        (tmp_path / "pipe.srdf", "no regular file"),
        (tmp_path, "cannot be read"),
        (3, "cannot be read"),
    ):
        refused(problem, robot.collision_pairs, srdf=srdf, error=InputError)
    for text in ("", "<robot>", "<robot>&a;</robot>", "\0"):
        file.write_text(text)
        refused("cannot be read", robot.collision_pairs, srdf=file, error=InputError)
    file.write_text("<robot><disable_collisions link1='link0'/></robot>")
    refused(r"line 1 of arm.srdf\) has no link1= or no link2=", robot.collision_pairs, srdf=file, error=InputError)
    file.write_text("<robot>" + "<disable_collisions link1='link0' link2='link2'/>" * 1000 + "</robot>")
    monkeypatch.setattr("kinetree.model.meshes.LARGEST", 1000)
    refused("more than 1000", robot.collision_pairs, srdf=file, error=InputError)


def test_robots_with_very_many_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six thousand would have 18 million pairs."""
    robot = arm(2)
    many = robot.with_shapes([geo.Sphere(f"s{k}", (0, 0, k), 0.1, "link0") for k in range(6000)])
    start = time.process_time()
    refused("6000 shapes have more than 1000000 pairs", many.collision_pairs, error=InputError)
    assert time.process_time() - start < 1.0
    # a pair that is apart at the first of two samples does not always collide
    some = arm(7).with_shapes([geo.Sphere(f"link{k}", (0, 0, 0), 0.2 if k else 4.0) for k in range(7)])
    q = some.random_configuration(np.random.default_rng(0), (2,))
    every = some.collision_pairs(keep_colliding=True)
    first, second = some.distances(q, every).distance < 0.0
    assert (second & ~first).any()
    with pytest.warns(ModelWarning, match="collide at all"):
        excluded = some.collision_pairs(samples=2).excluded
    for both, names in zip(first & second, every.names, strict=True):
        assert (excluded.get(names) == reasons.ALWAYS) == both
    # many pairs are not computed for all samples at once
    arms = arm(8)
    expected = arms.with_shapes([geo.Sphere(f"link{k}", (0, 0, 0), 0.6) for k in range(8)])
    with pytest.warns(ModelWarning, match="always|all sampled"):
        whole = expected.collision_pairs()
    sizes: list[Any] = []
    measured = type(arms)._clearances
    monkeypatch.setattr(type(arms), "_clearances", lambda *of: sizes.append(found := measured(*of)) or found)
    monkeypatch.setattr("kinetree.model.distances._AT_ONCE", 500)
    monkeypatch.setattr("kinetree.model.distances._FEW", 0)
    with pytest.warns(ModelWarning, match="always|all sampled"):
        assert expected.collision_pairs() == whole
    assert max(np.size(found) for found in sizes) <= 500
    assert min(np.shape(found)[-1] for found in sizes) < len(whole) + len(whole.excluded)


def test_shapes_without_a_closed_form_are_named_with_a_cure() -> None:
    robot = arm().with_shapes([geo.Cylinder("link0", 0.1, 0.3), geo.Ellipsoid("link2", (0.1, 0.3, 0.2))])
    with pytest.raises(UnsupportedError, match=r"shape 'hull' is a hull, not one of.*geometry.fit"):
        _ = geo.Hull("hull", "hand.stl").half
    simple = robot.with_shapes(geo.simplified(robot.shapes))
    capsule, other = simple.shapes
    assert isinstance(capsule, geo.Capsule)
    assert isinstance(other, geo.Capsule)
    assert (capsule.radius, capsule.half, capsule.source) == (0.1, (0.0, 0.0, 0.15), "fitted")
    assert_near([other.radius, other.half[2], abs(other.pose[1, 2])], [0.2, 0.1, 1.0], TOL)
    assert geo.simplified([geo.Ellipsoid("a", (0.1, 0.2, 0.2))])[0].kind == "sphere"
    # it contains the ellipsoid
    p = np.random.default_rng(0).standard_normal((500, 3))
    p *= np.array([0.1, 0.3, 0.2]) / np.linalg.norm(p, axis=1, keepdims=True)
    along = np.clip(p[:, 1], -0.1, 0.1)
    assert (np.hypot(np.hypot(p[:, 0], p[:, 2]), p[:, 1] - along) <= 0.2 + TOL).all()
    with pytest.raises(LoadError, match="not found"):
        arm().with_shapes([*arm().shapes, geo.Hull("link0", "hand.stl")]).collision_pairs()
    near = arm().distances(np.zeros(4), arm().collision_pairs())
    for count in (4, -1, 1.5, "all", True):
        refused(r"nearest\(.+\): this is a number of pairs, from 0 to 3", near.nearest, count, error=InputError)


def test_masks_keep_shapes_apart() -> None:
    robot = arm(1)
    masks = {"a": (1, 0), "b": (0, 1), "c": (2, 2), "d": None}
    balls = [geo.Sphere(name, (0, 0, 5 * k), 0.1, "link0", masks=own) for k, (name, own) in enumerate(masks.items())]
    scene = kt.Scene([geo.Sphere("e", (9, 0, 0), 0.1, masks=(1, 0)), geo.Sphere("f", (9, 9, 0), 0.1, masks=(0, 3))])
    pairs = robot.with_shapes(balls).collision_pairs(scene=scene)
    assert {*pairs} == {("b", "e"), ("a", "f"), ("c", "f"), ("d", "e"), ("d", "f")}
    assert pairs.excluded["a", "e"] == reasons.MASKED


def test_pairs_may_always_collide_but_at_neutral() -> None:
    """Where the neutral configuration is outside the limits."""
    builder = kt.Builder("slide")
    builder.add_body("cart", joint="prismatic", axis=(1, 0, 0), mass=1.0, limits=kt.Limits(1.0, 2.0))
    robot = builder.build().with_shapes([geo.Sphere("cart", (0, 0, 0), 0.1)])
    with pytest.warns(ModelWarning, match="all sampled configurations are left out: cart–wall"):
        pairs = robot.collision_pairs(scene=kt.Scene([geo.Box("wall", (2, 1, 1), (np.eye(3), (1.5, 0, 0)))]))
    assert pairs.excluded["cart", "wall"] == reasons.ALWAYS
