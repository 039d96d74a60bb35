"""Contacts, dry friction and joint stops: motions with the values that their laws have for the step."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import simulation
from kinetree.errors import ModelWarning
from tests.laws.cases import model
from tests.mechanisms import gripper, hopper
from tests.tolerance import Array, assert_close, assert_near, bound, condition, peak, refused

SIZE, MU, DT = (0.2, 0.2, 0.1), 0.5, 1e-3
CORNERS = [(x, y, -0.05) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
START = np.array([0.0, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0])


class OwnPlane(simulation.Shape):
    """A floor that only Python code can measure."""

    def __init__(self, friction: Any = 1) -> None:
        self.friction = friction

    def gap(self, points: Any) -> tuple[Array, Array]:
        return points[..., 2], np.broadcast_to([0.0, 0.0, 1.0], points.shape)


def heavy(mass: float) -> tuple[kt.Model, Array]:
    """A heavy body on a light foot, and where it stands on the ground."""
    builder = kt.Builder("heavy").add_body("body", joint="floating", mass=mass, inertia=0.02 * mass * np.eye(3))
    ankle = np.eye(3), (0.0, 0.0, -0.3)
    builder.add_body("foot", parent="body", joint="spherical", placement=ankle, mass=1.0, inertia=0.01 * np.eye(3))
    q = builder.build().neutral()
    q[2] = 0.35
    return builder.build(), q


def world(slope: float = 0.0, **options: Any) -> simulation.Simulator:
    """A box on a plane; a slope is a gravity that pulls aside."""
    angle = np.radians(slope)
    box = kt.zoo.box(SIZE, 1.0).with_gravity((9.81 * np.sin(angle), 0.0, -9.81 * np.cos(angle)))
    given = {"contacts": [simulation.Points("box", CORNERS)], "ground": simulation.Plane(friction=MU), **options}
    return simulation.Simulator(box, dt=DT, **given)


def test_a_box_slides_to_rest() -> None:
    """Euler's steps of v′ = v − μ g dt add up to a way that is known."""
    floor = world(method="semi_implicit_euler")
    speed, expected = 2.0, 0.0
    while speed > 0.0:
        speed = max(0.0, speed - MU * 9.81 * DT)
        expected += speed * DT
    path = floor.rollout(START, [0, 0, 0, 2.0, 0, 0], np.zeros((450, 6)))
    assert path.q[-1, 0] == pytest.approx(expected, abs=1e-9)
    assert_near(path.q[-1, 1:3], START[1:3], 1e-12)
    assert peak(path.v[-1]) < 1e-12


@pytest.mark.parametrize("method", ["midpoint", "semi_implicit_euler"])
def test_a_box_sticks_on_a_slope(method: str) -> None:
    """Below the angle of friction it does not creep."""
    path = world(20.0, method=method).rollout(START, np.zeros(6), np.zeros((300, 6)))
    assert peak(path.q[-1, :3] - START[:3]) < 1e-11


def test_a_box_slides_down_a_steeper_slope() -> None:
    path = world(30.0).rollout(START, np.zeros(6), np.zeros((200, 6)))
    a = 9.81 * (np.sin(np.radians(30.0)) - MU * np.cos(np.radians(30.0)))
    assert path.v[-1, 3] == pytest.approx(a * 0.2, rel=1e-9)
    assert path.q[-1, 2] == pytest.approx(0.05, abs=1e-12)


def test_forces_carry_the_weight_and_obey_the_cone() -> None:
    _, _, info = world(20.0).step(START, np.zeros(6))
    angle = np.radians(20.0)
    expected = 9.81 * np.array([-np.sin(angle), 0.0, np.cos(angle)])
    assert_near(info.contact_forces.sum(axis=0), expected, 1e-10)
    tangents = np.hypot(info.contact_forces[:, 0], info.contact_forces[:, 1])
    assert (tangents <= MU * info.contact_forces[:, 2] + 1e-12).all()
    assert info.residual < 1e-10
    assert info.penetration < 1e-15


def test_drops_gain_no_energy() -> None:
    floor = world()
    robot = floor.robot
    rng = np.random.default_rng(0)
    q, v = np.tile(START, (4, 1)), rng.normal(size=(4, 6))
    q[:, 2] = 0.25
    q[:, 3:] = robot.random_configuration(rng, (4,))[:, 3:]
    deepest, residual = 0.0, 0.0
    energy = sum(robot.energy(q, v))
    for _ in range(400):
        q, v, info = floor.step(q, v)
        now = sum(robot.energy(q, v))
        touching = info.contact_forces[..., 2].sum(axis=-1) > 0.0
        assert float((now - energy)[touching].max(initial=-1.0)) < 1e-4
        energy = now
        deepest, residual = max(deepest, float(info.penetration.max())), max(residual, float(info.residual.max()))
    assert deepest < 5e-3
    assert residual < 1e-4


def test_a_tall_box_tumbles_about_its_lower_edge() -> None:
    """Where friction holds it, a box tips once gravity points past its edge, with the acceleration of a pendulum."""
    width, height, angle = 0.2, 0.6, np.radians(25.0)
    for tips, half in ((True, 0.5 * width), (False, 0.5 * height)):  # standing, and lying on its long side
        up = 0.5 * (height if tips else width)
        size = (2.0 * half, width, 2.0 * up)
        box = kt.zoo.box(size, 3.0).with_gravity((9.81 * np.sin(angle), 0.0, -9.81 * np.cos(angle)))
        corners = [(x, y, -up) for x in (-half, half) for y in (-0.5 * width, 0.5 * width)]
        floor = simulation.Simulator(
            box, dt=1e-5, method="semi_implicit_euler", contacts=[simulation.Points("box", corners)],
            ground=simulation.Plane(friction=1.0),
        )  # fmt: skip
        start = np.array([0.0, 0.0, up, 1.0, 0.0, 0.0, 0.0])
        path = floor.rollout(start, np.zeros(6), steps=200)
        turning = (up * np.sin(angle) - half * np.cos(angle)) * 9.81 / (4.0 / 3.0 * (half**2 + up**2))
        expected = turning * 200 * 1e-5 if tips else 0.0
        assert path.v[-1, 1] == pytest.approx(expected, rel=2e-3, abs=1e-9)
        assert (turning > 0.0) == tips


def test_a_rollout_is_a_loop_of_steps() -> None:
    """Also on several shapes, in lanes, for every second state, and over several calls of the compiled steps."""
    ground = [simulation.Plane(friction=MU), simulation.Block((0.4, 0.0, 0.0), (0.4, 1.0, 0.04), friction=0.3)]
    floor = world(ground=ground, damping=0.01)
    rng = np.random.default_rng(3)
    q, v = np.tile(START, (5, 1)), np.array([0, 0, 0, 1.0, 0, 0]) + 0.3 * rng.normal(size=(5, 6))
    q[:, 0], q[3] = 0.05, np.nan
    path = floor.rollout(q, v, steps=400, every=2)
    for i in (0, 3, 4):
        one, rate = q[i], v[i]
        residual = [0.0]
        for k in range(400):
            one, rate, info = floor.step(one, rate)
            residual.append(float(info.residual))
            if k % 2:
                np.testing.assert_array_equal(path.residual[i, k // 2 + 1], max(residual[-2:]) if i != 3 else np.nan)
                np.testing.assert_array_equal(path.q[i, k // 2 + 1], one)
                np.testing.assert_array_equal(path.v[i, k // 2 + 1], rate)
    assert np.isfinite(np.delete(path.q, 3, axis=0)).all()


def test_impulses_obey_the_laws_of_contact() -> None:
    """Signorini and Coulomb, on what a step returns: cones are kept, and what slides is opposed by all of μ f_n."""
    floor = world(30.0)
    rng = np.random.default_rng(5)
    q, v = np.tile(START, (20, 1)), 0.5 * rng.normal(size=(20, 6))
    _, rate, info = floor.step(q, v)
    force = info.contact_forces
    assert (force[..., 2] >= 0.0).all()
    assert (np.hypot(force[..., 0], force[..., 1]) <= MU * force[..., 2] * (1.0 + 1e-12) + 1e-12).all()
    # A tilted box that is pushed out of the floor cannot stick with all four corners: its tangential forces would work
    # against each other until some corner slides. In one sample compliance leaves them out, and its residual says so.
    residual = np.sort(info.residual)
    assert float(residual[-2]) < 1e-10 < float(residual[-1]) < 1e-5
    # velocities of the corners after the step, at the middle configuration, where impulses act
    middle = floor.robot.integrate(q, v, 0.5 * DT)
    T, J = floor.robot.pose(middle, "box"), floor.robot.jacobian(middle, "box", "local_world_aligned")
    twist = np.einsum("bij,bj->bi", J, rate)
    arms = np.einsum("bij,kj->bki", T[:, :3, :3], np.array(CORNERS))
    slip = (twist[:, None, 3:] + np.cross(twist[:, None, :3], arms))[..., :2]
    speed = np.linalg.norm(slip, axis=-1)
    sliding = (speed > 1e-2) & (force[..., 2] > 1.0)
    assert sliding.sum() > 10
    power = (slip * force[..., :2]).sum(axis=-1)
    np.testing.assert_allclose(power[sliding], -(speed * MU * force[..., 2])[sliding], rtol=1e-3, atol=0.0)


@pytest.mark.filterwarnings("ignore::kinetree.errors.ConvergenceWarning")
@pytest.mark.parametrize("mass", [1.0, 10.0, 100.0, 1000.0])
def test_a_light_foot_under_a_heavy_body(mass: float) -> None:
    """Four corners of a kilogram carry a ton, each its quarter; moving ones obey the laws, alone and together."""
    robot, q = heavy(mass)
    contacts = [simulation.Points("foot", CORNERS)]
    floor = simulation.Simulator(robot, dt=DT, contacts=contacts, ground=simulation.Plane(friction=MU))
    info = floor.step(q, np.zeros(robot.nv))[2]
    np.testing.assert_allclose(info.contact_forces[:, 2], 9.81 * robot.mass / 4.0, rtol=1e-9)
    assert info.residual < 1e-9
    # sliding and tumbling samples, alone and together
    many, rates = np.tile(q, (8, 1)), 0.1 * np.random.default_rng(0).normal(size=(8, robot.nv))
    path = floor.rollout(many, rates, steps=20)
    assert float(np.mean(path.converged)) > 0.98
    assert peak(path.residual) < 1e-3
    np.testing.assert_array_equal(floor.rollout(q, rates[3], steps=20).q, path.q[3])


def test_height_fields() -> None:
    """An even slope is a plane; a hill's normals are its slopes; a box stays on a slope of a coarse grid."""
    rng = np.random.default_rng(7)
    points = rng.uniform(-1.0, 1.0, (50, 3))
    x, y = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-2, 2, 4), indexing="ij")
    slope = simulation.HeightField(0.1 + 0.3 * x - 0.2 * y, (2.0, 4.0))
    plane = simulation.Plane((-0.3, 0.2, 1.0), 0.1 / np.sqrt(1.13))
    for ours, theirs in zip(slope.gap(points), plane.gap(points), strict=True):
        assert_near(ours, theirs, 1e-12)
    assert_near(slope.gap([9.0, 0.0, 0.4])[0], 0.0, 1e-12)  # that of the border
    hill = simulation.HeightField(rng.uniform(0.0, 0.3, (6, 7)), (2.4, 2.8), (0.1, 0.2))
    gap, normal = hill.gap(points)
    ahead = hill.gap(points - gap[:, None] * 1e-6 * normal)[0]
    assert_near(ahead, gap * (1.0 - 1e-6), 1e-6 * peak(gap))
    on_field, on_plane = (
        world(ground=ground).rollout(START, [0, 0, 0, 1.0, 0, 0], steps=60).q
        for ground in (simulation.HeightField(np.zeros((3, 3)), (1.0, 1.0), friction=MU), simulation.Plane(friction=MU))
    )
    assert_near(on_field, on_plane, 1e-12)


def test_shapes_of_ones_own() -> None:
    """A shape that is only known to Python: the same motion as on the plane that it is."""
    v = np.array([0.1, 0.2, 0.3, 1.0, 0.0, 0.0])
    own = world(ground=OwnPlane(MU)).rollout(START, v, steps=50)
    assert_near(own.q, world().rollout(START, v, steps=50).q, 1e-12)
    refused(r"Shape has no gap\(points\); define it", simulation.Shape().gap, np.zeros(3))


def test_constraints_are_eliminated() -> None:
    """Two halves welded together slide as one box does."""
    half = kt.zoo.box(SIZE, 0.5, "half")
    both = kt.zoo.box(SIZE, 0.5).attach("world", half)
    start = np.concatenate([START, START])
    joined = simulation.Simulator(
        both, constraints=[kt.Weld("half", "box")], at=start, contacts=[simulation.Points("box", CORNERS)],
        ground=simulation.Plane(friction=MU), dt=DT,
    )  # fmt: skip
    rate = np.array([0, 0, 0, 1.0, 0, 0] * 2)
    path = joined.rollout(start, rate, np.zeros((100, 12)))
    alone = world().rollout(START, rate[:6], np.zeros((100, 6)))
    assert_near(path.q[-1, :3], alone.q[-1, :3], 1e-9)
    assert_near(path.q[-1, 7:10], alone.q[-1, :3], 1e-9)


def test_bits_do_not_depend_on_the_batch() -> None:
    floor = world(10.0)
    rng = np.random.default_rng(1)
    q, v = np.tile(START, (5, 1)), 0.2 * rng.normal(size=(5, 6))
    q[2] = np.nan
    together = floor.step(q, v)
    for i in range(5):
        alone = floor.step(q[i], v[i])
        np.testing.assert_array_equal(alone[0], together[0][i])
        np.testing.assert_array_equal(alone[1], together[1][i])
        for name in ("contact_forces", "residual", "penetration"):
            np.testing.assert_array_equal(getattr(alone[2], name), getattr(together[2], name)[i])
    assert np.isfinite(np.delete(together[0], 2, axis=0)).all()


SHAPES: dict[str, simulation.Shape] = {
    "plane": simulation.Plane((0.3, -0.2, 1.0), 0.1),
    "sphere": simulation.Sphere((0.1, 0.2, 0.3), 0.4),
    "capsule": simulation.Capsule((0.0, 0.0, 0.0), (0.5, 0.2, 0.1), 0.2),
    "block": simulation.Block((0.1, 0.0, 0.2), (0.6, 0.4, 0.5)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_normals_are_the_slopes_of_gaps(name: str) -> None:
    shape = SHAPES[name]
    points = np.random.default_rng(2).uniform(-1.0, 1.0, (200, 3))
    gap, normal = shape.gap(points)
    assert_near(np.linalg.norm(normal, axis=-1), 1.0, 1e-12)
    step = 1e-6
    for i in range(3):
        ahead, behind = (shape.gap(points + sign * step * np.eye(3)[i])[0] for sign in (1.0, -1.0))
        assert_near((ahead - behind) / (2.0 * step), normal[:, i], 1e-4)
    # along its normal, a point is on the surface after the gap: exactly outside of convex shapes
    outside = gap > 0.0
    assert_near(shape.gap((points - gap[:, None] * normal)[outside])[0], 0.0, 1e-12)


def test_a_box_slides_off_a_ball() -> None:
    """A box balanced beside the top of a sphere slides off it and lands on the floor."""
    ground = [simulation.Plane(friction=MU), simulation.Sphere((0.0, 0.0, 0.2), 0.2, friction=0.0)]
    box = kt.zoo.box(SIZE, 1.0)
    both = simulation.Simulator(box, contacts=[simulation.Points("box", [*CORNERS, (0, 0, -0.05)])], ground=ground)
    start = np.array([0.05, 0.0, 0.45, 1.0, 0.0, 0.0, 0.0])
    path = both.rollout(start, np.zeros(6), np.zeros((600, 6)))
    assert path.q[-1, 0] > 0.1
    assert path.q[-1, 2] < 0.4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: world(method="rk4"), "contacts need one of the methods midpoint, semi_implicit_euler; got 'rk4'"),
        (lambda: world(ground=[3]), "ground holds shapes such as simulation.Plane, got int"),
        (lambda: world(contacts=[]), "there is ground, but no contacts="),
        (lambda: world(rounds=0), "rounds=0 is not an integer from 1 to 1000"),
        (lambda: world(centrings=-1), "centrings=-1 is not an integer from 0 to 1000"),
        (lambda: world(compliance=0.0), "compliance=0.0 is not a relative compliance"),
        (lambda: simulation.Points("box", np.zeros((2, 2))), r"positions are \(k, 3\), finite; got shape \(2, 2\)"),
        (lambda: simulation.Points("box", "corner"), "positions has dtype <U6, expected real numbers"),
        (lambda: world(contacts=[simulation.Points("crate", CORNERS)]), "no frame is called 'crate'"),
        (lambda: simulation.Plane(normal=(0, 0, 0)), "a plane needs a normal other than zero"),
        (lambda: simulation.Plane(friction=-1.0), "friction=-1.0 is not a finite number from zero on"),
        (lambda: simulation.Sphere((0, 0), 1.0), r"center takes three numbers, got \(0, 0\)"),  # type: ignore[arg-type]
        (lambda: simulation.Block((0, 0, np.nan), (1, 1, 1)), "center=nan is not a finite number"),
        (lambda: simulation.HeightField(np.zeros((1, 3)), (1, 1)), r"at least 2 by 2; got shape \(1, 3\)"),
        (lambda: simulation.HeightField("hill", (1, 1)), "heights has dtype <U4, expected real numbers"),
        (
            lambda: simulation.HeightField(np.zeros((2, 2)), (1, 0)),
            r"size=\(1.0, 0.0\) of a HeightField is not positive",
        ),
        (lambda: simulation.HeightField(np.zeros((2, 2)), 1.0), "size takes two numbers"),  # type: ignore[arg-type]
    ],
)
def test_refused(make: Any, message: str) -> None:
    refused(message, make)


def test_contacts_are_points_feet_or_frames() -> None:
    """A foot of a controller, and the name of a frame, stand as the points that they stand for do."""
    box, foot = kt.zoo.box((0.2, 0.2, 0.1), 1.0), kt.control.Foot("box", (0.2, 0.1))
    q, v = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), np.zeros(6)
    for given, points in ((foot, foot.points), ("box", np.zeros(3))):
        one, other = (simulation.Simulator(box, contacts=[x]) for x in (given, simulation.Points("box", points)))
        np.testing.assert_array_equal(one.step(q, v)[1], other.step(q, v)[1])
    refused("contacts are simulation.Points, control.Foot or names of frames; got int", simulation.Simulator, box,
            contacts=[3])  # fmt: skip


def _legged() -> tuple[kt.Model, Array]:
    robot = model("legged")
    return robot, robot.random_configuration(4)


def _with_a_mimic_joint() -> tuple[kt.Model, Array]:
    robot = gripper()
    return robot, robot.integrate(robot.neutral(), 0.3 * np.random.default_rng(5).normal(size=robot.nv))


@pytest.mark.parametrize("many", [1, 2])
@pytest.mark.parametrize("made", [_legged, _with_a_mimic_joint])
def test_forces_at_the_points_explain_the_motion(made: Any, many: int) -> None:
    """M (v′ − v) = dt (−C − g) + Σ Jᵀ F dt; and where a point is pushed, it closes its gap in the step, no more.

    On trees of rigid bodies and others; points of several bodies, in any order; one and two shapes.
    """
    robot, q = made()
    moving = [name for name in robot.frames if robot.site(name).node >= 0]
    frames = [moving[-1], moving[len(moving) // 2], moving[-1]]
    at = np.random.default_rng(6).uniform(-0.1, 0.1, (3, 3))
    points = [simulation.Points(frame, p) for frame, p in zip(frames, at, strict=True)]
    tasks = [kt.Task(frame, "position", tuple(p.tolist())) for frame, p in zip(frames, at, strict=True)]
    heights = [(robot.pose(q, frame) @ [*p, 1.0])[2] for frame, p in zip(frames, at, strict=True)]
    up = np.array([0.0, 0.0, 1.0])
    ground = [simulation.Plane(offset=float(np.median(heights)) + 1e-3, friction=0.4)]
    ground += [simulation.Sphere((0.0, 0.0, -1e3), 1.0)][: many - 1]  # far away
    world = simulation.Simulator(robot, dt=DT, method="semi_implicit_euler", contacts=points, ground=ground)
    v = 0.1 * np.random.default_rng(7).normal(size=robot.nv)
    _, after, info = world.step(q, v)
    J = robot.tasks(tasks, reference="local_world_aligned").jacobian(q)
    M, h = robot.mass_matrix(q), robot.bias_forces(q, v)
    pushed = J.T @ info.contact_forces.ravel()
    assert info.contact_forces.shape == (3, 3)
    assert info.residual < 1e-9
    scale = float(np.abs(h).max() + np.abs(pushed).max())
    assert_close(M @ (after - v) / DT, pushed - h, bound(robot.nv, condition(M)), scale=scale / DT)
    gaps = np.array(heights) - ground[0].offset
    closing = (J @ after).reshape(3, 3) @ up + np.where(gaps > 0.0, gaps, 0.2 * gaps) / DT
    touching = info.contact_forces @ up > 1e-9
    assert touching.any()
    assert_near(closing[touching], 0.0, 1e-9)
    assert (closing > -1e-9).all()


@cache
def slider() -> kt.Model:
    """Two kilograms on a horizontal rail of half a metre."""
    builder = kt.Builder("slider", gravity=(0.0, 0.0, 0.0))
    limits = kt.Limits(lower=-0.25, upper=0.25)
    builder.add_body("block", joint="prismatic", axis=(1, 0, 0), mass=2.0, inertia=np.eye(3), limits=limits)
    return builder.build()


@pytest.mark.parametrize("method", ["midpoint", "semi_implicit_euler"])
def test_a_block_sticks_slides_and_comes_to_rest(method: str) -> None:
    world = simulation.Simulator(slider(), dt=DT, method=method, friction=3.0)
    held = world.rollout([0.1], [0.0], [2.9], steps=100)
    np.testing.assert_array_equal(held.q, 0.1)
    pulled = world.rollout([0.0], [0.0], [5.0], steps=100)
    assert pulled.v[-1, 0] == pytest.approx((5.0 - 3.0) / 2.0 * 0.1, rel=1e-12)
    braked = world.rollout([0.0], [0.15], [0.0], steps=200)  # 1.5 m/s² for 0.1 s
    assert braked.v[50, 0] == pytest.approx(0.075, rel=1e-12)
    assert peak(braked.v[101:]) < 1e-15
    _, _, info = world.step([0.1], [0.0], [2.9])
    assert info.joint_forces[0] == pytest.approx(-2.9, rel=1e-12)
    assert info.contact_forces.shape == (0, 3)


def test_stops_without_limits_are_told() -> None:
    """A robot that nothing would stop is refused; a coupled joint, whose limit would be ignored, is named."""
    refused("stops nothing: no joint of 'chain'.*with_limits", simulation.Simulator, kt.zoo.chain(3), limits=True)
    builder, limits = kt.Builder("fingers"), kt.Limits(lower=-0.5, upper=0.5)
    solid = {"mass": 1.0, "inertia": np.eye(3), "limits": limits}
    builder.add_body("finger", **solid).add_body("tip", parent="finger", **solid)
    simulation.Simulator(builder.build(), limits=True)  # no warning
    coupled = builder.couple("tip_joint", to="finger_joint", ratio=0.5).build()
    with pytest.warns(ModelWarning, match="does not stop coupled joints of 'fingers': 'tip_joint'") as caught:
        simulation.Simulator(coupled, limits=True)
    assert caught[0].filename == __file__


def test_a_joint_stops_at_its_limit_without_bouncing() -> None:
    world = simulation.Simulator(slider(), dt=DT, limits=True)
    path = world.rollout([[0.0], [0.0]], [[1.0], [-1.0]], [0.0], steps=600)
    assert_near(path.q[:, -1, 0], [0.25, -0.25], 1e-12)
    assert peak(path.q) < 0.25 + 1e-12
    assert peak(path.v[:, -1]) < 1e-12
    pressed = world.step([0.25], [0.0], [7.0])
    assert pressed[2].joint_forces[0] == pytest.approx(-7.0, rel=1e-12)
    assert float(pressed[1][0]) == pytest.approx(0.0, abs=1e-15)
    away = world.step([0.25], [0.0], [-7.0])
    assert away[1][0] == pytest.approx(-3.5 * DT, rel=1e-12)
    beyond = world.rollout([0.26], [0.0], [1.0], steps=100)  # neither further nor flung back
    assert_near(beyond.q[:, 0], 0.26, 1e-12)


def test_impulses_of_a_humanoid_obey_their_laws() -> None:
    """v = v_f + M⁻¹(f + s); friction within its bounds and at them only against motion; stops only push back."""
    robot = model("humanoid24")
    rng = np.random.default_rng(4)
    q = np.where(rng.uniform(size=(6, 24)) < 0.3, robot.lower_limits, robot.random_configuration(rng, (6,)))
    v, tau, dry = rng.normal(size=(6, 24)), 20.0 * rng.normal(size=(6, 24)), rng.uniform(0.5, 5.0, 24)
    options: dict[str, Any] = {"dt": DT, "method": "semi_implicit_euler"}
    free = simulation.Simulator(robot, **options).step(q, v, tau)[1]
    world = simulation.Simulator(robot, friction=dry, limits=True, **options)
    _, after, info = world.step(q, v, tau)
    impulse = DT * info.joint_forces
    friction = np.clip(impulse, -DT * dry, DT * dry)
    stops = impulse - friction
    for i in range(6):
        M = robot.mass_matrix(q[i])
        assert_close(after[i] - free[i], np.linalg.solve(M, impulse[i]), bound(24, condition(M)) * 1e3)
    assert peak(info.residual) < 1e-10
    inside = np.abs(impulse) < DT * dry * (1.0 - 1e-6)
    assert inside.any()
    stopped = np.abs(stops) > 1e-9
    assert peak(after[inside]) < 1e-9
    moving = ~inside & ~stopped
    assert (friction * after)[moving].max() < 1e-12
    slowest, fastest = np.minimum(robot.lower_limits - q, 0.0) / DT, np.maximum(robot.upper_limits - q, 0.0) / DT
    assert (after > slowest - 1e-9).all()
    assert (after < fastest + 1e-9).all()
    assert stopped.sum() > 5
    assert_near(np.where(stops > 0.0, slowest, fastest)[stopped], after[stopped], 1e-9)


@pytest.mark.parametrize("shape", ["plane", "own"])
def test_a_leg_at_its_stop_carries_the_body(shape: str) -> None:
    """The floor carries both, the stop the body alone; on one of two planes, and on a shape that Python measures."""
    ground: list[simulation.Shape] = [simulation.Plane(friction=0.5), simulation.Plane(offset=-9.0)]
    world = simulation.Simulator(
        hopper(), dt=DT, contacts=[simulation.Points("foot", CORNERS)], limits=True,
        ground=[OwnPlane(0.5)] if shape == "own" else ground,
    )  # fmt: skip
    q = np.array([0.0, 0.0, 0.25, 1.0, 0.0, 0.0, 0.0, 0.1])
    v = np.zeros(7)
    for _ in range(20):
        q, v, info = world.step(q, v)
    assert info.contact_forces[:, 2].sum() == pytest.approx(4.0 * 9.81, rel=1e-9)
    assert abs(info.joint_forces[6]) == pytest.approx(3.0 * 9.81, rel=1e-9)
    assert peak(v) < 1e-9
    assert info.residual < 1e-9


def test_rollouts_and_batches_change_no_bit() -> None:
    world = simulation.Simulator(
        hopper(), dt=DT, contacts=[simulation.Points("foot", CORNERS)], limits=True, friction=0.3
    )
    rng = np.random.default_rng(1)
    q = np.tile([0.0, 0.0, 0.28, 1.0, 0.0, 0.0, 0.0, 0.05], (5, 1))
    v = 0.2 * rng.normal(size=(5, 7))
    q[2] = np.nan
    path = world.rollout(q, v, steps=60)
    for i in (0, 2, 4):
        one, rate = q[i], v[i]
        for k in range(60):
            one, rate, _ = world.step(one, rate)
            np.testing.assert_array_equal(path.q[i, k + 1], one)
            np.testing.assert_array_equal(path.v[i, k + 1], rate)
    assert np.isfinite(np.delete(path.q, 2, axis=0)).all()


def test_the_robots_own_friction_is_taken_on_request() -> None:
    robot = slider().with_friction(3.0)
    own, given, none = (
        simulation.Simulator(robot, friction=friction).step([0.0], [1.0])[1] for friction in (True, [3.0], False)
    )
    np.testing.assert_array_equal(own, given)
    assert none[0] == 1.0 > own[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": True, "method": "rk4"}, "dry friction and joint stops need one of the methods midpoint"),
        ({"friction": -1.0}, "friction takes one number or 1 of them, none negative"),
        ({"limits": True, "rounds": True}, "rounds=True is not an integer from 1 to 1000"),
    ],
)
def test_joint_rows_refuse(options: dict[str, Any], message: str) -> None:
    refused(message, lambda: simulation.Simulator(slider(), **options))
