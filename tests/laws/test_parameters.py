"""Functions of a robot's parameters: against models built with them, complex steps, and transposes."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, ModelError, UnknownNameError, UnsupportedError
from tests.laws import test_general_nodes as general
from tests.laws.cases import H
from tests.mechanisms import gripper
from tests.tolerance import Array, assert_close, assert_near, bound, condition, peak, refused
from tests.trees import mixed, random_mechanism

ROBOTS = ("every kind", "nodes", "beams", "loops", "couplings")
KINDS = ("mass", "com", "inertia", "position", "rotation", "axis", "armature", "pitch", "constants", "gravity")


def _fixed() -> kt.Model:
    """Every kind of joint, with bodies and frames behind fixed joints on some of them."""
    robot = random_mechanism("every kind", mixed(10, 1), 1, armature=0.5).kinetree()
    builder = kt.Builder("tool").add_body("plate", joint="fixed", mass=0.3, inertia=1e-3 * np.eye(3))
    builder.add_body("camera", parent="plate", joint="fixed", placement=(np.eye(3), (0.1, 0.2, 0.3)), mass=0.2)
    builder.add_body("lens", parent="camera", axis=(0.6, 0.0, 0.8), mass=0.1, inertia=1e-3 * np.eye(3))
    robot = robot.attach(robot.bodies[4].name, builder.build(), placement=(0.1, 0.0, 0.2), prefix="tool/")
    return robot.with_frame("tip", robot.bodies[-1].name, (0.1, 0.2, 0.3)).with_frame("marker", "tool/camera")


@cache
def robot(name: str) -> kt.Model:
    return _fixed() if name == "every kind" else general.robot(name)


@cache
def parameters(name: str) -> Any:
    """All parameters of a robot that may vary."""
    of = robot(name)
    if name == "loops":  # whose geometry has a test of its own
        bodies = [body.name for body in of.bodies if body.name != "seat"]  # which is fixed to what carries the loop
        places, solid = ["base", "elbow", "wrist", "tool"], dict.fromkeys(("mass", "com", "inertia"), bodies)
        return of.parameters(**solid, position=places, rotation=places, gravity=True)
    if name == "couplings":
        solid = dict.fromkeys(("mass", "com", "inertia", "position", "rotation", "axis"), True)
        return of.parameters(**solid, gravity=True)
    every = dict.fromkeys(KINDS, True)
    places = [*(body.name for body in of.bodies), *(frame.name for frame in of.extra_frames)]
    places = [one for one in places if "/" not in one or name == "every kind"]  # outlets have none
    return of.parameters(**(every | {"position": places, "rotation": places}))


@cache
def values(name: str) -> Array:
    """Parameters unlike the robot's own, but physical."""
    of, rng = parameters(name), np.random.default_rng(7)
    p = of.values.copy()
    for i, label in enumerate(of.names):
        what = label.partition(" of ")[0]
        if what in ("position", "com", "rotation", "axis"):
            p[i] += 0.2 * rng.uniform(-1.0, 1.0)
        elif not label.startswith("constants of pair"):  # rotation matrices are among them
            # signs stay, and inertias of a body are scaled alike
            p[i] *= 1.3 if what in ("inertia", "constants") else rng.uniform(0.8, 1.25)
    return p


def state(name: str) -> tuple[Array, Array, Array]:
    of = robot(name)
    q = general.state(name).q if name in general.NAMES else of.random_configuration(np.random.default_rng(3))
    v, a = np.random.default_rng(4).uniform(-1.0, 1.0, (2, of.nv))
    return q, v, a


def several(results: Any) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)


def engine(name: str) -> str:
    """Code for nodes that are no rigid bodies takes long to compile: one of its functions is tested below."""
    return "native" if name == "every kind" else "reference"


def called(name: str, function: str) -> tuple[tuple[Array, ...], tuple[Any, ...]]:
    """Arrays of a function, and what else it takes."""
    q, v, a = state(name)
    count = {"energy": 2, "bias_forces": 2, "inverse_dynamics": 3, "forward_dynamics": 3}.get(function, 1)
    frames = [robot(name).frames[-1], robot(name).frames[2]]
    return (q, v, a)[:count], (frames,) if function == "pose" else ()


FUNCTIONS = ("inverse_dynamics", "forward_dynamics", "energy", "pose", "bias_forces", "gravity_forces", "mass_matrix")


@pytest.mark.parametrize("name", ROBOTS)
def test_values_are_those_of_a_model_with_these_parameters(name: str) -> None:
    of, p = parameters(name), values(name)
    made = of.model(p)
    far = bound(made.nv, condition(made.mass_matrix(state(name)[0])))
    for function in (*FUNCTIONS, "center_of_mass"):
        arrays, rest = called(name, function)
        of_parameters = getattr(of, function).engine(engine(name))
        for x, model in ((p, made), (of.values, robot(name))):
            expected = several(getattr(model, function).engine(engine(name))(*arrays, *rest))
            for one, other in zip(several(of_parameters(x, *arrays, *rest)), expected, strict=True):
                assert_close(one, other, far, peak(other))


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("function", [*FUNCTIONS[:4], "mass_matrix"])
def test_rates_are_those_of_complex_steps_and_gradients_their_transposes(name: str, function: str) -> None:
    of, p, rng = getattr(parameters(name), function).engine(engine(name)), values(name), np.random.default_rng(11)
    arrays, rest = called(name, function)
    dp = rng.uniform(-1.0, 1.0, len(p))
    directions = [rng.uniform(-1.0, 1.0, robot(name).nv) for _ in arrays]
    steps = [1j * H * d for d in directions]
    q = parameters(name).model(p).integrate.engine("reference")(arrays[0].astype(complex), steps[0])
    if name in ("loops", "couplings"):  # the step of q itself; that of a loop's coordinates is not analytic
        directions[0][...], q = 0.0, arrays[0]
    moved = [q, *(x + step for x, step in zip(arrays[1:], steps[1:], strict=True))]
    exact = [x.imag / H for x in several(of.engine("reference")(p + 1j * H * dp, *moved, *rest))]
    found = several(of.jvp(p, *arrays, dp, *directions, *rest))
    size = peak(*exact, *several(of(p, *arrays, *rest)))
    far = bound(robot(name).nv, condition(parameters(name).mass_matrix(p, arrays[0])))
    for one, other in zip(found, exact, strict=True):
        assert_close(one, other, 16.0 * far, size)
    weights = tuple(rng.normal(size=rate.shape) for rate in found)
    gradients = of.vjp(p, *arrays, weights if len(weights) > 1 else weights[0], *rest)
    assert len(gradients) == 1 + len(arrays)
    along = [g * d for g, d in zip(gradients, (dp, *directions), strict=True)]
    weighted = sum((w * rate).sum() for w, rate in zip(weights, found, strict=True))
    assert_near(sum(x.sum() for x in along), weighted, 64.0 * far * sum(np.abs(x).sum() for x in along))


def test_gradients_on_both_engines_and_in_batches() -> None:
    """Compiled code agrees with the interpreted text, and has the same bits for one sample and for many."""
    made, rng = (
        random_mechanism("few", ["floating", "revolute", "universal", "revolute"], 3).kinetree(),
        np.random.default_rng(2),
    )
    of = made.parameters(mass=True, com=True, position=True, rotation=True, axis=True, gravity=True)
    p = of.values
    q, (v, tau, w) = made.random_configuration(rng, shape=(9,)), rng.uniform(-1.0, 1.0, (3, 9, made.nv))
    ps = p * rng.uniform(0.99, 1.01, (9, 1))
    for f in (of.inverse_dynamics, of.forward_dynamics):
        many, rates = f.vjp(ps, q, v, tau, w), f.jvp(ps, q, v, tau, ps, w, w, w)
        for i in (0, 8):
            alone = f.vjp(ps[i], q[i], v[i], tau[i], w[i])
            for one, all_of_them in zip(alone, many, strict=True):
                np.testing.assert_array_equal(one, all_of_them[i])
            np.testing.assert_array_equal(f.jvp(ps[i], q[i], v[i], tau[i], ps[i], w[i], w[i], w[i]), rates[i])
            np.testing.assert_array_equal(f(ps[i], q[i], v[i], tau[i]), f(ps, q, v, tau)[i])
        text = f.engine("reference").vjp(ps[0], q[0], v[0], tau[0], w[0])
        far = bound(made.nv, condition(of.mass_matrix(ps[0], q[0])))
        for one, other in zip(text, many, strict=True):
            assert_close(one, other[0], 16.0 * far, peak(other))
    D = of.inverse_dynamics.derivative(p, q, v, tau)
    assert D.shape == (9, made.nv, len(p))
    (by_p, *_) = of.inverse_dynamics.vjp(p, q, v, tau, w)
    assert_close(np.einsum("bij,bi->bj", D, w), by_p, bound(made.nv), peak(D) * made.nv)
    broken = q.copy()
    broken[3] = np.nan
    gone = of.forward_dynamics.vjp(ps, broken, v, tau, w)[0]
    np.testing.assert_array_equal(np.isnan(gone).any(axis=-1), np.arange(9) == 3)


def test_gradients_on_nodes_are_compiled() -> None:
    of, p = parameters("nodes").energy, values("nodes")
    (q, v), _ = called("nodes", "energy")
    for one, other in zip(of.vjp(p, q, v, (1.0, 2.0)), of.engine("reference").vjp(p, q, v, (1.0, 2.0)), strict=True):
        assert_close(one, other, bound(len(v)), peak(other))


def test_masses_are_those_of_the_regressor() -> None:
    """A mass enters as a point at the centre of mass: three columns of the regressor."""
    made = kt.zoo.humanoid24()
    q, v, a = made.random_configuration(np.random.default_rng(0)), *np.random.default_rng(1).normal(size=(2, made.nv))
    D = made.parameters(mass=True).inverse_dynamics.derivative(made.parameters(mass=True).values, q, v, a)
    Y = made.regressor(q, v, a)
    for i, body in enumerate(made.bodies):
        c, shifted = body.com, (body.com @ body.com) * np.eye(3) - np.outer(body.com, body.com)
        point = np.array([1.0, *c, *shifted[np.triu_indices(3)]])
        assert_close(D[:, i], Y[:, i] @ point, bound(made.nv), peak(Y))


@pytest.mark.parametrize("function", ["inverse_dynamics", "forward_dynamics"])
def test_gradients_cost_a_constant_number_of_operations_per_body(function: str) -> None:
    """[JR93] promises O(n): counts at n = 10, 100 and 1,000 lie on a straight line."""
    totals: dict[str, list[int]] = {}
    for n in (10, 100, 1000):
        chain = random_mechanism("chain", ["revolute"] * n, 9, branching=0.0, reach=0.1).kinetree()
        every = chain.parameters(mass=True, com=True, position=True, rotation=True, axis=True)
        for what, count in getattr(every, function).count().items():
            totals.setdefault(what, []).append(count.total)
    for few, some, many in totals.values():
        assert (many - some) * 90 == (some - few) * 900


def test_what_is_not_chosen_stays() -> None:
    """Positions behind merged bodies, and masses in a coupling beside a body that is fixed to the same finger."""
    pad = kt.Builder("pad").add_body("pad", joint="fixed", mass=0.4, com=(0.1, 0, 0), inertia=1e-3 * np.eye(3)).build()
    grips = gripper().attach("left", pad, placement=(0.05, 0.02, 0.01))
    for made, chosen in ((robot("every kind"), {"position": "tool/lens"}), (grips, {"mass": "left", "com": "left"})):
        of, rng = made.parameters(**chosen), np.random.default_rng(2)
        p = of.values + rng.uniform(0.05, 0.1, len(of))
        q, (v, a) = made.random_configuration(rng), rng.normal(size=(2, made.nv))
        found = of.inverse_dynamics.engine("reference")(p, q, v, a)
        assert_close(found, of.model(p).inverse_dynamics.engine("reference")(q, v, a), bound(made.nv), peak(found))
    push = {"tip": np.ones(6)}
    q, v, a = state("every kind")
    refused("f_ext", robot("every kind").reactions.vjp, q, v, a, a, f_ext=push, error=UnsupportedError)


def test_selection() -> None:
    of = robot("every kind")
    chosen = of.parameters(mass=["tool/camera"], position="tip", gravity=True)
    assert chosen.names == (
        "mass of tool/camera", "position of tip, x", "position of tip, y", "position of tip, z",
        "gravity, x", "gravity, y", "gravity, z",
    )  # fmt: skip
    assert len(chosen) == 7
    assert chosen.part("position", "tip") == slice(1, 4)
    np.testing.assert_array_equal(chosen.values[4:], of.gravity)
    again = pickle.loads(pickle.dumps(chosen))
    assert again.names == chosen.names
    assert repr(chosen) == "<7 parameters of every kind>"
    assert of.parameters(axis="tool/lens_joint").names == of.parameters(axis=["tool/lens"]).names
    refused("nothing", of.parameters, mass="nothing", error=UnknownNameError)
    refused("named twice", of.parameters, position=["tip", "tip"])
    refused("expected", chosen.inverse_dynamics, np.zeros(6), *state("every kind"))
    refused("jvp takes p, q, v, a, dp", chosen.inverse_dynamics.jvp, chosen.values, *state("every kind"))
    refused("takes p, q, v, a, weights", chosen.inverse_dynamics.vjp, chosen.values, *state("every kind"))
    refused("tuple of 2", chosen.energy.vjp, chosen.values, *state("every kind")[:2], 1.0)
    refused("body that carries it", robot("loops").parameters, position="seat", error=UnsupportedError)
    refused("body that carries it", robot("loops").parameters, mass="seat", error=UnsupportedError)
    assert robot("loops").parameters(armature="crank").values == 0.03
    refused("mass", chosen.model, np.array([-1.0, *chosen.values[1:]]), error=ModelError)
    refused("one vector", chosen.model, chosen.values[None], error=InputError)
    refused("parameter", chosen.part, "mass", "tip", error=UnknownNameError)


def test_loops_stay_closed_as_their_geometry_changes() -> None:
    """Independent joints stay, the others follow: against models with the parameters, closed again."""
    made, rng = robot("loops"), np.random.default_rng(9)
    inside = ["plate", "crank", "rod", "crank_rotor"]
    of = made.parameters(mass="crank", position=[*inside, "tool"], rotation=inside[:2], axis=["crank", "crank_rotor"])
    p = of.values + 0.01 * rng.uniform(-1.0, 1.0, len(of))
    start, v, tau = state("loops")
    model = of.model(p)
    q, frames = model.close(start), ["tool", "rod"]
    assert model.loops(q)[0].residual < 1e-12 < 1e-4 < made.loops(q)[0].residual
    far = bound(made.nv, condition(model.mass_matrix(q)))
    for name, arrays in (("forward_dynamics", (q, v, tau)), ("pose", (q,))):
        f, rest = getattr(of, name).engine("reference"), (frames,) if name == "pose" else ()
        assert_close(f(p, *arrays, *rest), getattr(model, name)(*arrays, *rest), far, 1e2)
        dp, dq = rng.uniform(-1.0, 1.0, len(p)), rng.uniform(-1.0, 1.0, made.nv)
        ends = []
        for s in (1e-6, -1e-6):
            moved = of.model(p + s * dp)
            ends.append(getattr(moved, name)(moved.close(model.integrate(q, s * dq)), *arrays[1:], *rest))
        still = [np.zeros(made.nv) for _ in arrays[1:]]
        rate = f.jvp(p, *arrays, dp, dq, *still, *rest)
        assert_close(rate, (ends[0] - ends[1]) / 2e-6, 1e-6, peak(rate))
        assert peak(rate - f.jvp(p, *arrays, 0.0 * dp, dq, *still, *rest)) > 1e-2 * peak(rate)  # parameters matter
        weights = rng.normal(size=rate.shape)
        by_p, by_q, *_ = f.vjp(p, *arrays, weights, *rest)
        terms = [by_p * dp, by_q * dq]
        assert_near(
            sum(x.sum() for x in terms), (weights * rate).sum(), 64.0 * far * sum(np.abs(x).sum() for x in terms)
        )
    ps = p + 1e-4 * rng.uniform(-1.0, 1.0, (5, len(p)))
    qs = np.stack([of.model(each).close(q) for each in ps])
    many = of.pose.vjp(ps, qs, weights, frames)  # compiled, the same bits for one sample and for many
    for one, all_of_them in zip(of.pose.vjp(ps[3], qs[3], weights, frames), many, strict=True):
        np.testing.assert_array_equal(one, all_of_them[3])
    text = of.pose.engine("reference").vjp(ps[3], qs[3], weights, frames)
    for one, all_of_them in zip(text, many, strict=True):
        assert_close(one, all_of_them[3], far, peak(one))
    path = of.rollout(p, q, v, np.stack([tau, tau]), 1e-3)
    for x, y in zip(model.step(q, v, tau, 1e-3), (path.q[1], path.v[1]), strict=True):
        assert_close(x, y, 16.0 * far, peak(y))
    assert model.loops(path.q[2])[0].residual < 1e-12


def test_joints_of_several_stages_inside_couplings() -> None:
    """A universal joint between coupled ones, behind a body whose own geometry stays."""
    rng, turn = np.random.default_rng(1), np.array([[0.0, -0.6, 0.8], [1.0, 0.0, 0.0], [0.0, 0.8, 0.6]])
    solid: dict[str, Any] = {"mass": 0.2, "com": (0.01, 0.02, 0.03), "inertia": 1e-3 * np.eye(3)}
    builder, seat = kt.Builder("digit"), dict[str, Any]()
    builder.add_body("proximal", axis=(0.0, 0.6, 0.8), placement=(turn, (0.1, 0.0, 0.0)), **solid)
    axes: Any = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    seat = {"joint": "universal", "axes": axes, "placement": (turn, (0.0, 0.1, 0.05))}
    builder.add_body("knuckle", parent="proximal", **seat, **solid)
    seat = {"joint": "helical", "axis": (0.6, 0.8, 0.0), "pitch": 0.1, "placement": (turn, (0.0, 0.0, 0.1))}
    builder.add_body("middle", parent="knuckle", **seat, **solid)
    made = builder.couple("middle_joint", to="proximal_joint", ratio=0.9, offset=0.1).build()
    of = made.parameters(position=["knuckle", "middle"], rotation="knuckle", axis="knuckle", pitch="middle")
    p, q, v, tau = of.values * 1.1 + 0.05, *rng.uniform(-1.0, 1.0, (3, made.nv))
    model, f = of.model(p), of.forward_dynamics.engine("reference")
    far = bound(made.nv, condition(model.mass_matrix(q)))
    expected = model.forward_dynamics(q, v, tau)
    assert_close(f(p, q, v, tau), expected, far, peak(expected))
    dp, still = rng.uniform(-1.0, 1.0, len(p)), np.zeros(made.nv)
    rate, exact = f.jvp(p, q, v, tau, dp, still, still, still), f(p + 1j * H * dp, q, v, tau).imag / H
    assert_close(rate, exact, 16.0 * far, peak(exact))
    assert_near(f.vjp(p, q, v, tau, tau)[0] @ dp, tau @ rate, 64.0 * far * np.abs(tau * rate).sum())


def test_inertia_felt_at_tasks() -> None:
    """Λ and Λ⁻¹ of frames, relative tasks, the centre of mass and contacts, against models with these parameters."""
    made = random_mechanism("few", ["floating", *["revolute"] * 8], 3, branching=0.0).kinetree()
    names = [body.name for body in made.bodies]
    of, rng = made.parameters(mass=True, com=True, position=True, axis=True), np.random.default_rng(5)
    p = of.values * rng.uniform(0.8, 1.2, len(of))
    tasks = [kt.RelativeTask(names[1], names[8], (3, 4, 5)), kt.CenterOfMassTask()]
    q, dp, dq = made.random_configuration(rng, (2,)), rng.normal(size=len(p)), rng.normal(size=(2, made.nv))
    felt, other = of.tasks(tasks, contacts=[names[0]]), of.model(p).tasks(tasks, contacts=[names[0]])
    far = bound(made.nv, condition(other.inverse_inertia(q)) + condition(of.mass_matrix(p, q)))
    assert_close(felt.inverse_inertia(p, q), other.inverse_inertia(q), far)
    assert_close(felt.inertia(p, q), other.inertia(q), far, peak(other.inertia(q)))
    W = rng.normal(size=(2, felt.inertia(p, q).shape[-1], felt.inertia(p, q).shape[-1]))
    for f in (felt.inverse_inertia, felt.inertia):
        rate, h, weights = f.jvp(p, q, dp, dq), 3e-4, {1: 0.75, 2: -0.15, 3: 1.0 / 60.0}
        moved = lambda s, f=f: f(p + s * dp, made.integrate(q, s * dq))  # noqa: E731
        expected = sum(weight * (moved(k * h) - moved(-k * h)) / h for k, weight in weights.items())
        assert_close(rate, expected, 1e-7, peak(expected))
        by_p, by_q = f.vjp(p, q, W)
        along = by_p @ dp + (by_q * dq).sum(-1)
        assert_close(along, (W * rate).sum((-1, -2)), 64.0 * far, np.abs(W * rate).sum())
        np.testing.assert_array_equal(f.vjp(p, q[1], W[1])[0], by_p[1])
    singular = of.tasks([names[0], kt.RelativeTask("world", names[0])])
    refused("singular", singular.inertia, p, q, error=kt.errors.SingularTaskError)
    assert repr(felt) == repr(other)


@pytest.mark.parametrize(
    "joints", [["floating", "spherical", "revolute"], ["revolute", "planar"], ["revolute", "prismatic"]]
)
def test_sensitivity_of_motions(joints: list[str]) -> None:
    """Changes of a motion against those of motions with other parameters; gradients are their transposes."""
    made = random_mechanism("few", joints, 3).kinetree()
    of, rng = made.parameters(mass=True, position=True, gravity=True), np.random.default_rng(5)
    p, q, steps, dt = of.values, made.random_configuration(rng, (2,)), 5, 0.02
    v, tau = rng.normal(size=(2, made.nv)), rng.normal(size=(steps, made.nv))
    path = of.rollout(p, q, v, tau, dt)
    after = made.step(q, v, tau[0], dt)
    for one, other in zip((path.q[:, 1], path.v[:, 1]), after, strict=True):
        assert_close(one, other, bound(made.nv, condition(made.mass_matrix(q))), peak(other))
    dp, dq, dv, dtau = (rng.normal(size=x.shape) for x in (p, v, v, tau))
    moved = of.rollout.jvp(p, q, v, tau, dt, dp, dq, dv, dtau)

    def along(s: float) -> Any:
        end = of.rollout(p + s * dp, made.integrate(q, s * dq), v + s * dv, tau + s * dtau, dt)
        return made.difference(path.q, end.q), end.v

    h = 1e-4
    changes = [(a - b) / (2.0 * h) for a, b in zip(along(h), along(-h), strict=True)]
    for one, other in zip(moved, changes, strict=True):
        assert_close(one, other, 1e-5, peak(other))
    weights = rng.normal(size=(2, *moved.v.shape))
    found = of.rollout.vjp(p, q, v, tau, dt, *weights)
    summed = found.p @ dp + (found.q * dq).sum(-1) + (found.v * dv).sum(-1) + (found.tau * dtau).sum((-1, -2))
    expected = (weights[0] * moved.q + weights[1] * moved.v).sum((-1, -2))
    assert_close(summed, expected, 1e-10, np.abs(found.p * dp).sum() + peak(expected))
    alone = of.rollout.vjp(p, q[1], v[1], tau, dt, *weights[:, 1])
    for one, both in zip(alone, found, strict=True):
        np.testing.assert_array_equal(one, both[1])
    refused("takes p, q, v, tau, dt, dp", of.rollout.jvp, p, q, v, tau, dt, dp)
    refused("it takes", of.rollout, p, q, v, tau[0], dt)


def test_wrenches_and_single_precision() -> None:
    of = kt.zoo.humanoid24()
    q, v, a = of.random_configuration(np.random.default_rng(0)), *np.random.default_rng(1).normal(size=(2, of.nv))
    push = {"left_hand": np.arange(6.0)}
    lengths = of.parameters(position=["left_hand", "right_hand"], mass=True)
    p = lengths.values
    found = lengths.inverse_dynamics(p, q, v, a, f_ext=push)
    assert_close(found, of.inverse_dynamics(q, v, a, f_ext=push), bound(of.nv), peak(found))
    (by_p, *_) = lengths.inverse_dynamics.vjp(p, q, v, a, a, f_ext=push)
    along = lengths.inverse_dynamics.jvp(p, q, v, a, p, 0 * v, 0 * v, 0 * v, f_ext=push)
    assert_near(by_p @ p, a @ along, bound(of.nv) * np.abs(a * along).sum() * 16.0)
    single = of.astype("float32").parameters(position=["left_hand", "right_hand"], mass=True)
    rough = single.inverse_dynamics.vjp(p, q, v, a, a)[0]
    assert rough.dtype == np.float32
    exact = lengths.inverse_dynamics.vjp(p, q, v, a, a)[0]
    assert_close(rough, exact, bound(of.nv, dtype=np.float32), peak(exact))
