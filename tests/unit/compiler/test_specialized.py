"""Specialized models: what users see of straight-line code for one robot, and when there is some."""

from __future__ import annotations

import logging
import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler import specialize
from kinetree.compiler.lower.layout import Tables
from kinetree.compiler.lower.lower import lower
from kinetree.compiler.programs import simplified, variants_of
from kinetree.compiler.specialize import RobotKey, Straight, TooLongError, Unrolling
from kinetree.errors import InputError, UnsupportedError
from kinetree.language.algorithm import with_constants
from kinetree.runtime import kernels
from kinetree.runtime.kernels import bind
from tests.tolerance import assert_close, bound, condition
from tests.trees import serial

QUARTER = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])


def arm(mass: float = 2.0) -> kt.Model:
    """Six joints whose axes are parallel or at right angles, with the centre of mass on an axis of each link."""
    turns = (np.eye(3), QUARTER, np.eye(3), np.eye(3), QUARTER, QUARTER.T)
    offsets = ((0.0, 0.0, 0.1), (0.0, 0.0, 0.0), (0.4, 0.0, 0.0), (0.4, 0.0, 0.0), (0.0, 0.0, 0.1), (0.0, 0.1, 0.0))
    solid = {"mass": mass, "com": (0.1, 0.0, 0.0), "inertia": np.diag([0.01, 0.02, 0.02])}
    builder = serial(({"placement": at, **solid} for at in zip(turns, offsets, strict=True)), "link")
    return builder.add_frame("tool", body="link5", placement=(np.eye(3), (0.0, 0.0, 0.1))).build()


@pytest.fixture(scope="module")
def robot() -> kt.Model:
    return arm()


@pytest.fixture(scope="module")
def fast(robot: kt.Model) -> kt.Model:
    return robot.compile(["forward_dynamics", "mass_matrix"], specialize=True)


def state(robot: kt.Model, size: int = 9) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return robot.random_configuration(rng, (size,)), *rng.uniform(-1.0, 1.0, (2, size, robot.nv))


# The model


def test_compile_returns_the_model(robot: kt.Model) -> None:
    assert robot.compile(["gravity_forces"]) is robot
    assert robot.compile(()) is robot


def test_the_specialized_model_is_another_one(robot: kt.Model, fast: kt.Model) -> None:
    """A model is frozen: what its functions compute does not change because someone specializes it."""
    assert fast is not robot
    assert fast != robot
    assert robot.compile((), specialize=True) is fast
    assert fast.compile((), specialize=True) is fast
    assert fast.compile(["energy"]) is fast
    arrays = state(robot)
    before = arm().forward_dynamics(*arrays)
    np.testing.assert_array_equal(robot.forward_dynamics(*arrays), before)
    kappa = condition(robot.mass_matrix(arrays[0]))
    assert_close(fast.forward_dynamics(*arrays), before, bound(robot.nv, kappa))
    assert fast.joints == robot.joints
    assert fast.frames == robot.frames


def test_its_copies_are_specialized_too(fast: kt.Model) -> None:
    copy, function = pickle.loads(pickle.dumps((fast, fast.forward_dynamics)))
    assert copy == fast
    assert hash(copy) == hash(fast)
    assert copy.forward_dynamics is function
    assert function.specialization().straight
    arrays = state(fast)
    np.testing.assert_array_equal(function(*arrays), fast.forward_dynamics(*arrays))


def test_variants_are_not(fast: kt.Model) -> None:
    """They have other constants, for which nobody asked for code."""
    variants = (
        fast.reduced({"link5_joint": 0.1}),
        fast.with_gravity((0.0, 0.0, -1.6)),
        fast.with_payload("tool", 1.0),
        fast.subtree("link2"),
    )
    for variant in variants:
        assert not variant.forward_dynamics.specialization().straight
        assert "not specialized" in str(variant.forward_dynamics.specialization())


def test_populations_run_on_shared_code(fast: kt.Model, robot: kt.Model) -> None:
    """Their constants are inputs."""
    assert specialize.robot_key(with_constants(fast.energy.algorithm), fast.mechanism, ()) is None
    q, v, _ = state(robot)
    gravity = np.array([[0.0, 0.0, -9.81], [0.0, 0.0, -1.6]])
    for one, other in zip(*(each.population(gravity=gravity).energy(q[:2], v[:2]) for each in (fast, robot))):
        np.testing.assert_array_equal(one, other)


def test_tasks_and_simulations_use_its_code(fast: kt.Model, robot: kt.Model) -> None:
    q, v, tau = state(robot)
    tool = fast.tasks(["tool"])
    kappa = condition(robot.mass_matrix(q))
    assert_close(tool.inverse_inertia(q), robot.tasks(["tool"]).inverse_inertia(q), bound(robot.nv, kappa))
    steps = [each.step(q, v, tau, 1e-3) for each in (fast, robot)]
    assert_close(steps[0][1], steps[1][1], bound(robot.nv, kappa))
    assert fast.step.specialization().straight


# What is chosen


def test_says_what_it_chose(fast: kt.Model, robot: kt.Model) -> None:
    chosen = fast.forward_dynamics.specialization()
    assert chosen.straight
    assert chosen.operations is not None
    assert chosen.shared is not None
    assert chosen.operations < chosen.shared
    assert str(chosen) == f"straight-line code: {chosen.operations:,} operations instead of {chosen.shared:,}"
    assert not robot.forward_dynamics.specialization().straight


def test_code_that_would_not_be_faster_is_shared() -> None:
    """Where nothing folds, there is nothing to gain."""
    fast = kt.zoo.random_tree(6, seed=1).compile(["integrate"], specialize=True)
    chosen = fast.integrate.specialization()
    assert not chosen.straight
    assert "would not be faster" in str(chosen)
    made = kernels.kernels(fast.integrate.algorithm, variants_of(fast.integrate.algorithm, fast.mechanism, ()))
    assert fast.integrate.bound().binding.code == made.code


def chosen(own: int, shared: int, independent: int = 0, node_lanes: float = 1.0) -> list[str]:
    """For which aims straight-line code of so many operations is chosen."""
    program: Any = None
    made = Straight(program, Counter(mul=own), Counter({False: shared - independent, True: independent}), node_lanes)
    return [aim for aim in ("single", "batch", "both") if specialize._choose(made, aim).straight]


def test_what_pays() -> None:
    assert chosen(1000, 1100) == []
    assert chosen(1000, 1200) == ["single", "batch", "both"]
    # single samples lose lanes of columns
    assert chosen(1000, 1200, independent=600) == ["batch"]
    assert chosen(1000, 1500, independent=1500) == ["batch", "both"]
    # and of nodes
    assert chosen(1000, 1500, node_lanes=0.3) == ["batch"]
    assert chosen(1000, 2000, node_lanes=0.3) == ["batch", "both"]
    assert chosen(1000, 2000, node_lanes=0.9) == ["single", "batch", "both"]


def test_aims_make_different_models() -> None:
    """A function may be faster on one code for single samples, and on the other in batches."""
    legged = kt.zoo.humanoid24()
    models = {aim: legged.compile((), specialize=aim) for aim in ("single", "batch")}
    assert len({legged, legged.compile((), specialize=True), *models.values()}) == 4
    assert models["single"].compile((), specialize="single") is models["single"]
    assert models["batch"].mass_matrix_inverse.specialization().straight
    reason = str(models["single"].mass_matrix_inverse.specialization())
    assert reason.endswith(", of which single samples compute several at once, would not be faster")
    assert pickle.loads(pickle.dumps(models["batch"])) == models["batch"]


def test_the_choice_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With choice and code on disk, nothing is traced."""
    monkeypatch.setenv("KINETREE_CACHE_DIR", str(tmp_path / "cache"))
    with caplog.at_level(logging.INFO, "kinetree"):
        expected = arm(3.0).compile(["energy"], specialize=True).energy(np.zeros(6), np.ones(6))
    assert "energy: straight-line code: " in caplog.text

    def refuse(*_: Any) -> None:
        raise AssertionError("traced")

    specialize._chosen.cache_clear()
    monkeypatch.setattr(specialize, "_straight", refuse)
    monkeypatch.setattr(kernels, "_made", kernels.lru_cache(maxsize=256)(kernels.Kernels))
    assert arm(3.0).compile((), specialize=True).energy(np.zeros(6), np.ones(6)) == expected


@pytest.mark.parametrize("aim", ["single", "batch", True])
def test_choices_against_lanes_of_nodes_are_remembered(
    aim: bool | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINETREE_CACHE_DIR", str(tmp_path / "cache"))
    found = []
    for _ in range(2):
        specialize._chosen.cache_clear()
        found.append(kt.zoo.asimo35().compile((), specialize=aim).forward_dynamics.specialization())
    assert found[0] == found[1]
    assert type(found[0].straight) is bool


def test_frames_are_a_part_of_the_code(fast: kt.Model, robot: kt.Model) -> None:
    q, v, _ = state(robot)
    for frame in ("tool", "link3"):
        assert fast.velocity.specialization(frame).straight
        assert_close(fast.velocity(q, v, frame), robot.velocity(q, v, frame), bound(robot.nv))
    fast.velocity.compile()  # there is nothing to compile before frames are named
    wrench = {"tool": np.ones(6)}
    ratio = condition(robot.mass_matrix(q))
    assert_close(fast.forward_dynamics(q, v, v, wrench), robot.forward_dynamics(q, v, v, wrench), bound(6, ratio))


# Identity


def test_other_numbers_have_other_code(fast: kt.Model) -> None:
    """Two robots of the same structure never share straight-line code."""
    other = arm(2.0 + 1e-15).compile((), specialize=True)
    codes = [bind(each.energy.algorithm, each.mechanism, (), "energy").binding.code for each in (fast, other)]
    assert codes[0] != codes[1]
    shared = [bind(each.energy.algorithm, each.mechanism, (), "energy").binding.code for each in (arm(), arm(3.0))]
    assert shared[0] == shared[1]


def test_everything_that_code_depends_on_is_in_the_digest(fast: kt.Model) -> None:
    mechanism, site = fast.mechanism, fast.site("tool")
    parameters = list(mechanism.parameters)
    parameters[2] = parameters[2] + np.eye(len(parameters[2]))[-1] * 1e-12
    swapped = [parameters[1], mechanism.parameters[0], *mechanism.parameters[2:]]
    moved = replace(site, placement=site.placement + 1e-12)
    different = [
        (mechanism, ()),
        (replace(mechanism, parameters=tuple(parameters)), ()),
        (replace(mechanism, parameters=tuple(swapped)), ()),
        (replace(mechanism, gravity=-mechanism.gravity), ()),
        (replace(mechanism, gravity=np.array([-0.0, 0.0, mechanism.gravity[2]])), ()),
        (replace(mechanism, parents=(-1, 0, 1, 2, 3, 3)), ()),
        (mechanism, (site,)),
        (mechanism, (site, site)),
        (mechanism, (moved,)),
        (mechanism, (replace(site, node=3),)),
        (mechanism, (replace(site, rows=(3, 4, 5)),)),
        (mechanism, (replace(site, part="near"),)),
    ]
    assert len({RobotKey.of(*one).digest for one in different}) == len(different)
    assert RobotKey.of(mechanism, ()) == RobotKey.of(arm().mechanism, ())


# Operations


def test_operations_are_those_of_code_written_for_this_arm(fast: kt.Model, robot: kt.Model) -> None:
    """They may fall, but not rise."""
    for name, most in MOST.items():
        assert fast.count(name).total <= most, name
        assert fast.count(name).total < robot.count(name).total, name


MOST = {
    "inverse_dynamics": 542,
    "forward_dynamics": 1033,
    "mass_matrix": 716,
    "mass_matrix_inverse": 1229,
    "gravity_forces": 110,
    "center_of_mass": 142,
}


def test_a_pendulum_is_what_one_would_write() -> None:
    """τ = a + g sin q, for 1 kg at 1 m."""
    fast = kt.zoo.pendulum().compile((), specialize=True)
    assert str(fast.count("inverse_dynamics")) == "1 multiplications, 1 additions, 0 divisions, 0 square roots, 1 sines"


def test_the_limit_on_operations(robot: kt.Model) -> None:
    algorithm = robot.forward_dynamics.algorithm
    variants = variants_of(algorithm, robot.mechanism, ())
    program = simplified(algorithm, variants)
    lowered = lower(program, algorithm, variants)
    tables = Tables(algorithm, variants, robot.mechanism, (), lowered.metadata)
    executed = Unrolling(lowered, tables, 100_000).executed.total()
    assert Unrolling(lowered, tables, executed).executed.total() == executed
    with pytest.raises(TooLongError):
        Unrolling(lowered, tables, executed - 1)


# Bad input


def test_specialize_is_a_truth_value(robot: kt.Model) -> None:
    for wrong in ("yes", 1, None):
        with pytest.raises(InputError, match=r"compile\(\): specialize is True, False, 'single' or 'batch'; got"):
            robot.compile(["energy"], specialize=wrong)  # type: ignore[arg-type]


def test_a_robot_too_large_for_a_function_by_name() -> None:
    large = kt.zoo.chain(400)
    with pytest.raises(
        UnsupportedError,
        match=r"forward_dynamics of this robot cannot be specialized: it executes more than 100,000 operations, too "
        r"many to unroll\. Leave it out of `functions`",
    ):
        large.compile(["forward_dynamics"], specialize=True)


def test_a_large_robot_keeps_shared_code_otherwise() -> None:
    large = kt.zoo.chain(400)
    fast = large.compile((), specialize=True)
    q, v, tau = state(large, 3)
    np.testing.assert_array_equal(fast.forward_dynamics(q, v, tau), large.forward_dynamics(q, v, tau))
    assert "too many to unroll" in str(fast.forward_dynamics.specialization())
