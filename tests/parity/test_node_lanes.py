"""A single sample with a node in each lane has the bits of one node at a time, and of a batch."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.compiler import interpreter
from kinetree.compiler.llvm import machine_code
from kinetree.compiler.lower import node_schedule
from kinetree.compiler.lower.node_schedule import LANES
from kinetree.language.algorithm import Algorithm
from kinetree.language.setup import Variants
from kinetree.runtime.kernels import bind
from tests.mechanisms import built
from tests.parity.functions import FUNCTIONS, Array, Function, assert_same_bits, robot, states
from tests.trees import mixed, random_mechanism

pytestmark = pytest.mark.skipif(machine_code.host().width < LANES, reason="this processor has too few lanes")

#: Functions that consist of sweeps, and enough arithmetic to be worth lanes.
SWEEPS = (
    "step",
    "inverse_dynamics",
    "forward_dynamics",
    "mass_matrix_solve",
    "bias_forces",
    "gravity_forces",
    "energy",
    "center_of_mass",
    "centroidal_momentum_matrix",
    "inverse_dynamics.jvp",
    "inverse_dynamics.vjp",
    "inverse_dynamics.hvp",
    "forward_dynamics.jvp",
    "forward_dynamics.vjp",
    "forward_dynamics.hvp",
)
#: Those with little arithmetic, which run so only on demand.
LIGHT = ("integrate", "difference", "dintegrate", "ddifference", "tangent_map", "bracket", "normalize")

ROBOTS = {
    "every kind": random_mechanism("every kind", mixed(28, 114), 114, branching=0.7).kinetree(),
    "revolute": kt.zoo.random_tree(50, kinds=("revolute",), seed=2),
    "humanoid": kt.zoo.humanoid24(),
}


def test_batches_share_the_kernels_of_the_laws() -> None:
    """If this fails, choose another seed above: robots of as many kinds take long to compile."""
    assert Variants.of(ROBOTS["every kind"].mechanism, ()).key == Variants.of(robot().mechanism, ()).key


def named(*names: str) -> list[Function]:
    return [function for function in FUNCTIONS if str(function) in names]


def fresh(model: kt.Model) -> kt.Model:
    copied: kt.Model = pickle.loads(pickle.dumps(model))
    return copied


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes in lanes wherever that is possible, even if slower."""
    monkeypatch.setattr(node_schedule, "WORTH", math.inf)


@contextmanager
def never() -> Iterator[None]:
    """One node at a time."""
    with mock.patch.object(node_schedule, "WORTH", 0.0):
        yield


def in_node_lanes(robot: kt.Model, algorithm: Algorithm) -> bool:
    return bind(algorithm, robot.mechanism, (), algorithm.name).binding.single_workspace > 0


def signed_zeros(model: kt.Model) -> list[tuple[Array, Array, Array]]:
    """Rest at the neutral configuration, with both signs of zero."""
    q = model.neutral()
    return [(np.where(q == 0.0, zero, q), np.full(model.nv, zero), np.full(model.nv, zero)) for zero in (0.0, -0.0)]


@pytest.mark.parametrize(
    ("function", "name"),
    # second derivatives of every kind of joint take a minute to compile
    [(f, n) for f in named(*SWEEPS, *LIGHT) for n in ROBOTS if n != "every kind" or not f.name.endswith("hvp")],
    ids=str,
)
@pytest.mark.usefixtures("always")
def test_bits(function: Function, name: str) -> None:
    model = fresh(ROBOTS[name])
    samples = [*zip(*states(model, (3,)), strict=True), *signed_zeros(model)]
    together = function(model, *(np.stack(arrays) for arrays in zip(*samples, strict=True)))
    with never():
        one_at_a_time = fresh(model)
        expected = [function(one_at_a_time, *sample) for sample in samples]
    for i, sample in enumerate(samples):
        assert_same_bits(function(model, *sample), expected[i])
        assert_same_bits(tuple(part[i] for part in together), expected[i])


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.usefixtures("always")
def test_random_trees(seed: int) -> None:
    """Of all shapes, from one node on; robots with the same kinds share code."""
    count = (1, 2, 3, 5, 8, 13, 21, 34)[seed % 8]
    joints = ["revolute", "prismatic", "spherical"]
    tree = random_mechanism(
        "tree", mixed(count, seed, *joints), seed, branching=seed / 12, roots=min(count, 1 + seed % 4)
    )
    model = tree.kinetree()
    q, v, x = states(model, (4,), seed)
    for name in ("inverse_dynamics", "forward_dynamics"):
        function = getattr(model, name)
        assert_same_bits((np.stack([function(*s) for s in zip(q, v, x, strict=True)]),), (function(q, v, x),))


@pytest.mark.parametrize("algorithm", [inverse_dynamics, forward_dynamics], ids=lambda a: a.name)
@pytest.mark.usefixtures("always")
def test_interpreter(algorithm: Algorithm) -> None:
    """Machine code with nodes in lanes has the bits of the interpreter, which has never heard of them."""
    robot = kt.zoo.random_tree(9, kinds=("revolute", "spherical"), seed=5)
    assert in_node_lanes(robot, algorithm)
    q, v, x = states(robot, ())
    native = bind(algorithm, robot.mechanism, (), algorithm.name)(q, v, x)
    assert_same_bits(interpreter.run(algorithm, robot.mechanism, (), [q, v, x, np.zeros((0, 6))]), (native,))


@pytest.mark.skipif(not machine_code.host().is_x86, reason="for x86-64 processors")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_processors_without_avx2(dtype: str) -> None:
    """They have no instruction that permutes the lanes of children to those of their parents."""
    sandybridge = machine_code.Processor(machine_code.host().triple, "sandybridge", "", LANES)
    assert not sandybridge.has_avx2
    robot = kt.zoo.random_tree(9, kinds=("revolute",), seed=5).astype(dtype)
    q, v, x = states(robot, ())
    expected = robot.forward_dynamics(q, v, x)
    with machine_code.use(sandybridge):
        other = fresh(robot)
        assert in_node_lanes(other, forward_dynamics)
        assert_same_bits((other.forward_dynamics(q, v, x),), (expected,))


@pytest.mark.parametrize("function", named(*SWEEPS), ids=str)
def test_which_functions_run_so(function: Function) -> None:
    model = fresh(ROBOTS["revolute"])
    name, _, derivative = function.name.partition(".")
    method = getattr(getattr(model, name), derivative) if derivative else getattr(model, name)
    assert method.bound().binding.single_workspace > 0


def test_who_runs_so() -> None:
    assert in_node_lanes(ROBOTS["humanoid"], forward_dynamics)
    assert in_node_lanes(kt.zoo.random_tree(400, kinds=("revolute",), seed=2), inverse_dynamics)
    # a chain gains nothing; neither do two nodes
    assert not in_node_lanes(kt.zoo.chain(7), forward_dynamics)
    assert not in_node_lanes(kt.zoo.double_pendulum(), forward_dynamics)
    with machine_code.use(machine_code.host().with_width(2)):
        assert not in_node_lanes(ROBOTS["humanoid"], forward_dynamics)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
@pytest.mark.parametrize("seed", range(3))
def test_external_forces(name: str, seed: int) -> None:
    """Forces on frames of any node: one whose lanes are repeated, several on one node, the world."""
    model = kt.zoo.random_tree(14, kinds=("revolute", "spherical"), seed=seed, roots=2)
    assert in_node_lanes(model, forward_dynamics)
    frames = np.random.default_rng(seed).permutation(list(model.frames))[:7].tolist()
    wrenches = {frame: np.random.default_rng(i).normal(size=(3, 6)) for i, frame in enumerate([*frames, "world"])}
    q, v, x = states(model, (3,), seed)
    function = getattr(model, name)
    together = function(q, v, x, f_ext=wrenches)
    for i in range(3):
        alone = function(q[i], v[i], x[i], f_ext={frame: wrench[i] for frame, wrench in wrenches.items()})
        assert_same_bits((alone,), (together[i],))
    assert function.bound(frames).binding.single_workspace > 0


@pytest.mark.parametrize("name", list(ROBOTS))
@pytest.mark.usefixtures("always")
def test_frames(name: str) -> None:
    """All frames, those of the world too, so that all nodes are visited."""
    model = fresh(ROBOTS[name])
    arrays, frames = states(model, (3,)), ["world", *model.frames]
    for count, function in enumerate((model.pose, model.velocity, model.acceleration), start=1):
        together = function(*arrays[:count], frames)
        for i in range(3):
            alone = function(*(array[i] for array in arrays[:count]), frames)
            assert_same_bits((alone,), (together[i],))
    assert model.pose.bound(frames).binding.single_workspace > 0


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
def test_populations(name: str) -> None:
    """Constants of nodes as an input."""
    model = fresh(ROBOTS["humanoid"])
    parameters = np.stack([model.inertial_parameters * factor for factor in (0.9, 1.0, 1.2)])
    q, v, x = states(model, (3,))
    together = getattr(model.population(parameters), name)(q, v, x)
    for i in range(3):
        alone = getattr(model.population(parameters[i]), name)(q[i], v[i], x[i])
        assert_same_bits((alone,), (together[i],))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", ["four_bar_on_base", "belt_leg_on_base"])
def test_loops(name: str) -> None:
    """Nodes whose joint map and inertia depend on q."""
    model = built(name)
    q, v, x = states(model, (3,))
    for function in (model.inverse_dynamics, model.forward_dynamics):
        assert_same_bits((np.stack([function(*s) for s in zip(q, v, x, strict=True)]),), (function(q, v, x),))


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
def test_single_precision(name: str) -> None:
    model = fresh(ROBOTS["humanoid"]).astype("float32")
    q, v, x = (array.astype(np.float32) for array in states(model, (3,)))
    function = getattr(model, name)
    assert function.bound().binding.single_workspace > 0
    together = function(q, v, x)
    assert together.dtype == np.float32
    assert_same_bits((np.stack([function(*s) for s in zip(q, v, x, strict=True)]),), (together,))


def test_rollouts() -> None:
    """Time steps call kernels with nodes in lanes from a sequence, without Python in between."""
    model = fresh(ROBOTS["humanoid"])
    simulator = kt.simulation.Simulator(model, dt=1e-3)
    q, v, _ = states(model, (4,))
    tau = np.zeros((10, model.nv))
    together = simulator.rollout(q, v, tau)
    for i in range(4):
        alone = simulator.rollout(q[i], v[i], tau)
        assert_same_bits((alone.q, alone.v), (together.q[i], together.v[i]))


@pytest.mark.usefixtures("always")
def test_nan_stays_in_its_branch() -> None:
    """Lanes do not leak: what one node computes from NaN reaches its ancestors, but no sibling."""
    robot = kt.zoo.random_tree(12, kinds=("revolute",), seed=6, roots=4)
    q, v, x = states(robot, ())
    q[0] = np.nan
    assert_same_bits((robot.inverse_dynamics(q, v, x),), (robot.inverse_dynamics(q[None], v[None], x[None])[0],))
    assert np.isnan(robot.inverse_dynamics(q, v, x)).sum() == robot.mechanism.topology.subtree_end(0)
