"""Numbers at the ends of float64, and things that are no numbers: no wrong answer and no foreign exception."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, ModelError
from tests.tolerance import assert_close, bound
from tests.trees import mixed, random_mechanism

Array = np.ndarray[Any, np.dtype[Any]]
ENGINES = ("reference", "native")


@cache
def _ball() -> kt.Model:
    """Both kinds of joints with quaternions."""
    builder = kt.Builder("ball").add_body("base", joint="floating", mass=1.0, com=(0.1, 0.2, 0.3), inertia=np.eye(3))
    return builder.add_body(
        "ball", parent="base", joint="spherical", mass=1.0, inertia=np.diag([1.0, 2.0, 2.5])
    ).build()


def _scaled(scale: float) -> tuple[Array, Array]:
    q = _ball().random_configuration(0)
    large = q.copy()
    large[3:] *= scale
    return q, large


class TestQuaternions:
    """A quaternion of any length stands for its rotation, or gives NaN; never for another rotation."""

    @pytest.mark.parametrize("engine", ENGINES)
    @pytest.mark.parametrize("scale", [1e-140, 1e-100, 1e-3, 1e50, 1e100, 1e153])
    def test_lengths_that_kernels_take(self, scale: float, engine: str) -> None:
        q, large = _scaled(scale)
        poses, mass = _ball().pose.engine(engine), _ball().mass_matrix.engine(engine)
        assert_close(poses(large), poses(q), bound(9))
        assert_close(mass(large), mass(q), bound(9))

    @pytest.mark.parametrize("engine", ENGINES)
    @pytest.mark.parametrize("scale", [1e155, 1e160, 1e200, 1e300, 1e-150, 1e-160, 1e-165, 1e-170, 1e-250, 1e-310, 0.0])
    def test_lengths_that_they_do_not(self, scale: float, engine: str) -> None:
        robot = _ball()
        _, large = _scaled(scale)
        with np.errstate(all="ignore"):
            poses = robot.pose.engine(engine)(large, ["base", "ball"])
            assert np.isnan(poses[:, :3, :3]).any(axis=(1, 2)).all()
            a = robot.forward_dynamics.engine(engine)(large, np.ones(9), np.ones(9))
            assert not np.isfinite(a).all()
            tau = robot.inverse_dynamics.engine(engine)(large, np.ones(9), np.ones(9))
            assert np.isnan(tau).any()

    @pytest.mark.parametrize("engine", ENGINES)
    @pytest.mark.parametrize("scale", [1e155, 1e-165])
    def test_one_component_alone(self, scale: float, engine: str) -> None:
        for i in range(4):
            q = _ball().neutral()
            q[7:] = scale * np.eye(4)[i]
            with np.errstate(all="ignore"):
                assert np.isnan(_ball().pose.engine(engine)(q, ["ball"])).any()

    @pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-3, 1e3, 1e160, 1e300])
    def test_the_manifold_takes_all_of_them(self, scale: float) -> None:
        robot = _ball()
        q, large = _scaled(scale)
        v, other = np.random.default_rng(1).standard_normal(9), robot.random_configuration(2)
        assert_close(robot.normalize(large), robot.normalize(q), bound(9))
        assert_close(robot.integrate(large, v), robot.integrate(q, v), bound(9))
        assert_close(robot.difference(large, other), robot.difference(q, other), bound(9))
        assert_close(robot.difference(other, large), robot.difference(other, q), bound(9))
        wanted = robot.tangent_map(q)
        with np.errstate(over="ignore"):
            assert_close(robot.tangent_map(large)[:, 3:] * scale, wanted[:, 3:], bound(9))
        for one, two in zip(robot.ddifference(large, other), robot.ddifference(q, other), strict=True):
            assert_close(one, two, bound(9))


@cache
def _robot() -> kt.Model:
    return random_mechanism("every kind", mixed(10, 1), 1).kinetree()  # with the kernels of the laws


STATES: dict[str, Callable[[Array], Array]] = {
    "1e308": lambda x: np.full_like(x, 1e308),
    "-1e200": lambda x: np.full_like(x, -1e200),
    "infinite": lambda x: np.full_like(x, np.inf),
    "nan": lambda x: np.full_like(x, np.nan),
    "tiny": lambda x: np.full_like(x, 5e-324),
    "mixed": lambda x: np.where(np.arange(x.shape[-1]) % 2, 1e308, 1e-308),
}

CALLS: dict[str, Callable[[kt.Model, Array, Array], Any]] = {
    "integrate": lambda r, q, v: r.integrate(q, v, 1e10),
    "difference": lambda r, q, _v: r.difference(q, -q),
    "dintegrate": lambda r, q, v: r.dintegrate(q, v, 1e10),
    "ddifference": lambda r, q, _v: r.ddifference(q, -q),
    "tangent_map": lambda r, q, _v: r.tangent_map(q),
    "bracket": lambda r, _q, v: r.bracket(v),
    "normalize": lambda r, q, _v: r.normalize(q),
    "step": lambda r, q, v: r.step(q, v, v, 0.1),
    "step rk4": lambda r, q, v: r.step(q, v, v, 0.1, "rk4"),
    "discretize": lambda r, q, v: r.discretize(q, v, v, 0.1),
    "discretize rk4": lambda r, q, v: r.discretize(q, v, v, 0.1, "rk4"),
    "linearize a": lambda r, q, v: r.linearize(q, v, a=v),
    "linearize tau": lambda r, q, v: r.linearize(q, v, tau=v),
    "mass_matrix_log_determinant": lambda r, q, _v: r.mass_matrix_log_determinant(q),
    "mass_matrix_determinant": lambda r, q, _v: r.mass_matrix_determinant(q),
    "energy": lambda r, q, v: r.energy(q, v),
    "forward_dynamics.jvp": lambda r, q, v: r.forward_dynamics.jvp(q, v, v, v, v, v),
    "q_to_dict": lambda r, q, v: (r.q_to_dict(q), r.v_to_dict(v)),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("state", STATES)
def test_no_floating_point_error_leaks(state: str, call: str) -> None:
    """Whatever the caller's settings: a sample that overflows is not finite, its neighbours are what they were."""
    robot = _robot()
    q, v = np.stack([robot.random_configuration(1)] * 3), np.ones((3, robot.nv))
    fine = CALLS[call](robot, q, v)
    q[1], v[1] = STATES[state](q[1]), STATES[state](v[1])
    with np.errstate(all="raise"):
        alone = CALLS[call](robot, q[1], v[1])
        both = CALLS[call](robot, q, v)
    if isinstance(fine, (np.ndarray, tuple)) and call != "q_to_dict":
        pairs = zip(*((x if isinstance(x, tuple) else (x,)) for x in (fine, both, alone)), strict=True)
        for one, many, single in pairs:
            np.testing.assert_array_equal(many[[0, 2]], one[[0, 2]])
            np.testing.assert_array_equal(many[1], single)


def test_wide_limits() -> None:
    builder = kt.Builder("wide")
    for i, (lower, upper) in enumerate([(-1e308, 1e308), (-1.7e308, 1.7e308), (1e308, 1.1e308), (-np.inf, -1e308)]):
        limits = kt.Limits(lower, upper)
        builder.add_body(f"b{i}", joint="prismatic", mass=1.0, limits=limits)
    with np.errstate(all="raise"):
        q = builder.build().random_configuration(0, 1000)
    assert np.isfinite(q).all()
    assert (q[:, 0] < 0.0).any()
    assert (q[:, 0] > 0.0).any()
    assert ((q[:, 2] >= 1e308) & (q[:, 2] <= 1.1e308)).all()
    assert np.all(np.abs(q[:, :2]) <= [1e308, 1.7e308])


class TestModelsKeepTheirNumbers:
    """A model does not change when the arrays that it was made from do."""

    def test_read_only_arrays_of_the_user_are_copied(self) -> None:
        arrays = {
            "com": np.array([0.1, 0.2, 0.3]),
            "inertia": np.diag([0.1, 0.2, 0.25]),
            "axis": np.array([0.0, 0.0, 1.0]),
        }
        placement, gravity, armature = np.eye(4), np.array([0.0, 0.0, -9.81]), np.array([0.5])
        every = [*arrays.values(), placement, gravity, armature]
        for array in every:
            array.flags.writeable = False
        robot = (
            kt.Builder("kept", gravity)
            .add_body("body", mass=1.0, placement=placement, armature=armature, **arrays)
            .add_frame("tip", body="body", placement=placement)
            .build()
        )
        direct = kt.Model("direct", gravity, robot.bodies, [robot.joint("body_joint")], robot.extra_frames)
        q = np.array([0.3])
        before = [
            robot.gravity_forces(q),
            hash(robot),
            robot.mechanism.total_parameters.copy(),
            robot.bodies[0].com.copy(),
        ]
        for array in every:
            array.flags.writeable = True
            array += 7.0
        assert robot.gravity_forces(q) == before[0]
        assert hash(robot) == before[1]
        np.testing.assert_array_equal(robot.mechanism.total_parameters, before[2])
        np.testing.assert_array_equal(robot.bodies[0].com, before[3])
        np.testing.assert_array_equal(direct.gravity, [0.0, 0.0, -9.81])

    def test_arrays_of_a_model_cannot_be_made_writable(self) -> None:
        robot = _robot()
        body, joint = robot.bodies[1], robot.joints[1]
        arrays = [robot.gravity, body.com, body.inertia, joint.placement, joint.axes, joint.armature]
        arrays += [*robot.mechanism.parameters, *(site.placement for site in robot.sites)]
        for array in arrays:
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.flags.writeable = True

    def test_sharing_saves_copies(self) -> None:
        body = _robot().bodies[0]
        again = kt.Body(body.name, body.parent, body.joint, body.mass, body.com, body.inertia)
        assert again.com is body.com


WRONG: dict[str, tuple[Callable[[kt.Model], Any], str]] = {
    "q_from_dict(None)": (lambda r: r.q_from_dict(None), "mapping of joint names"),
    "v_from_dict([1])": (lambda r: r.v_from_dict([1]), "mapping of joint names"),
    "q_from_dict(number key)": (lambda r: r.q_from_dict({3: 1.0}), "no joint is called 3"),
    "q_to_dict(None)": (lambda r: r.q_to_dict(None), "dtype object"),
    "reduced(None)": (lambda r: r.reduced(None), "reduced.. needs a mapping"),
    "reduced(name)": (lambda r: r.reduced("a"), "reduced.. needs a mapping"),
    "joint_indices(None)": (lambda r: r.joint_indices(None), "list of joint names"),
    "joint_indices(str)": (lambda r: r.joint_indices("joint"), "list of joint names"),
    "joint_indices([None])": (lambda r: r.joint_indices([None]), "no moving joint is called None"),
    "site(None)": (lambda r: r.site(None), "no frame is called None"),
    "site([])": (lambda r: r.site([]), "no frame is called"),
    "joint(None)": (lambda r: r.joint(None), "no joint is called None"),
    "body(3)": (lambda r: r.body(3), "no body is called 3"),
    "subtree(None)": (lambda r: r.subtree(None), "no body is called None"),
    "attach(other)": (lambda r: r.attach("tip", None), "attach.. needs a Model"),
    "attach(frame)": (lambda r: r.attach(None, r), "no frame is called None"),
    "attach(prefix)": (lambda r: r.attach("tip", r, prefix=None), "prefix is put in front of names"),
    "with_payload(mass)": (lambda r: r.with_payload("tip0", None), "mass has NaN"),
    "with_payload(frame)": (lambda r: r.with_payload(3, 1.0), "no frame is called 3"),
    "random(rng)": (lambda r: r.random_configuration("seed"), "rng must be a NumPy generator"),
    "random(shape)": (lambda r: r.random_configuration(0, None), "shape is a number of samples"),
    "random(negative)": (lambda r: r.random_configuration(0, -1), "shape is a number of samples"),
    "random(text)": (lambda r: r.random_configuration(0, "ab"), "shape is a number of samples"),
    "integrate(None)": (lambda r: r.integrate(None, None), "q has dtype object"),
    "integrate(dt)": (lambda r: r.integrate(r.neutral(), np.zeros(r.nv), None), "dt has dtype object"),
    "difference(str)": (lambda r: r.difference("a", "b"), "q0 has dtype"),
    "dintegrate(ragged)": (lambda r: r.dintegrate([[1], [1, 2]], 1), "q is not an array of numbers"),
    "bracket(None)": (lambda r: r.bracket(None), "x has dtype object"),
    "step(None)": (lambda r: r.step(None, None, None, 0.1), "q has dtype object"),
    "step(dt)": (lambda r: r.step(r.neutral(), np.zeros(r.nv), np.zeros(r.nv), None), "dt has dtype object"),
    "step(method)": (
        lambda r: r.step(r.neutral(), np.zeros(r.nv), np.zeros(r.nv), 0.1, []),
        r"no method is called \[\]",
    ),
    "discretize(None)": (lambda r: r.discretize(None, None, None, 0.1), "q has dtype object"),
    "discretize(tau)": (lambda r: r.discretize(r.neutral(), np.zeros(r.nv), None, 0.1), "tau has dtype object"),
    "linearize()": (lambda r: r.linearize(None, None), "either a="),
    "compile(str)": (lambda r: r.compile("mass_matrix"), "compile.. takes a list"),
    "compile(5)": (lambda r: r.compile(5), "compile.. takes a list"),
    "compile([5])": (lambda r: r.compile([5]), "no function is called 5"),
    "count(None)": (lambda r: r.count(None), "no function is called None"),
}


@pytest.mark.parametrize("call", WRONG)
def test_wrong_types_given_to_a_model(call: str) -> None:
    wrong, message = WRONG[call]
    with (
        pytest.raises(InputError, match=message)
        if "payload(mass)" not in call
        else pytest.raises(ModelError, match=message)
    ):
        wrong(_robot())


BUILT_WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "name": (lambda: kt.Builder(None), "name of a model is a string"),
    "body": (lambda: kt.Builder().add_body(5), "a body needs a name, which must be a non-empty string"),
    "parent": (lambda: kt.Builder().add_body("b", parent=None), "parent is a name"),
    "joint": (lambda: kt.Builder().add_body("b", joint=["revolute"]), "joint is a name"),
    "joint_name": (lambda: kt.Builder().add_body("b", joint_name=7), "joint_name is a name"),
    "limits": (lambda: kt.Builder().add_body("b", limits=5), "limits is a Limits or None"),
    "axes": (lambda: kt.Builder().add_body("b", joint="universal", axes=5), "axes is a pair of directions"),
    "placement": (lambda: kt.Builder().add_body("b", placement=5), "placement"),
    "mass": (lambda: kt.Builder().add_body("b", mass=None), "mass"),
    "com": (lambda: kt.Builder().add_body("b", com=None), "com"),
    "armature": (lambda: kt.Builder().add_body("b", armature="x"), "armature"),
    "damping": (lambda: kt.Builder().add_body("b", damping=None), "damping"),
    "pitch": (lambda: kt.Builder().add_body("b", joint="helical", pitch="x"), "pitch"),
    "frame": (lambda: kt.Builder().add_frame(None), "a frame needs a name, which must be a non-empty string"),
    "frame's body": (lambda: kt.Builder().add_frame("f", body=None), "body is a name"),
}


@pytest.mark.parametrize("call", BUILT_WRONG)
def test_wrong_types_given_to_a_builder(call: str) -> None:
    wrong, message = BUILT_WRONG[call]
    with pytest.raises(ModelError, match=message):
        wrong()


@pytest.mark.parametrize("shape", [10**12, 10**30, (10**9, 10**9)])
def test_more_results_than_there_is_memory(shape: Any) -> None:
    with pytest.raises(InputError, match="random_configuration: results .* GiB, do not fit into memory; draw fewer"):
        kt.zoo.double_pendulum().random_configuration(0, shape)


def test_more_samples_than_there_is_memory() -> None:
    robot = kt.zoo.double_pendulum()
    q = np.broadcast_to(np.zeros(2), (10**11, 2))
    with pytest.raises(InputError, match="mass_matrix: results .* do not fit into memory; compute fewer samples"):
        robot.mass_matrix(q)


def test_memory_that_the_system_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    from kinetree.runtime import arguments

    monkeypatch.setattr(arguments, "physical_memory", lambda: np.inf)

    def full(_shape: Any) -> Any:
        raise MemoryError

    with pytest.raises(InputError, match=r"f: results \(3,\), 2.24e-08 GiB, do not fit into memory; pray"):
        arguments.empty("f", [(3,)], full, "pray")
