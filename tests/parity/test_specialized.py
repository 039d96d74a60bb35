"""Straight-line code for one robot: right, with the same bits however it is run, and on every back end."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import kinetree as kt
from kinetree.algorithms.dynamics.coriolis_matrix import coriolis_matrix
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.algorithms.dynamics.mass_matrix import mass_matrix, mass_matrix_inverse
from kinetree.algorithms.kinematics.frame_kinematics import JACOBIANS, poses
from kinetree.algorithms.methods import inertia, inverse_inertia
from kinetree.algorithms.tasks.task_space import TaskKinds
from kinetree.compiler import interpreter, specialize
from kinetree.compiler.ir import Segment
from kinetree.compiler.llvm import machine_code
from kinetree.compiler.specialize import RobotKey, Specialization
from kinetree.language.algorithm import Algorithm
from kinetree.language.common_frame import in_common_frame
from kinetree.language.setup import Variants
from kinetree.runtime import threads
from tests.mechanisms import gripper
from tests.parity.functions import FEW, FUNCTIONS, Function, assert_same_bits, states
from tests.parity.test_c99 import COMPILERS, STRICT, checked
from tests.parity.test_engines import SOLVING, agree, task_sites
from tests.tolerance import assert_close, bound, condition
from tests.trees import KINDS, random_mechanism

#: Between them, every kind of joint, in trees and in a forest.
ROBOTS = {
    "turning": lambda: random_mechanism("turning", ["revolute", "universal", "spherical", "helical"], 1).kinetree(),
    "sliding": lambda: random_mechanism(
        "sliding", ["prismatic", "planar", "cylindrical", "translational"], 2, armature=1.0
    ).kinetree(),
    "floating": lambda: random_mechanism("floating", ["floating", "revolute", "revolute"], 3, roots=1).kinetree(),
    "arm": kt.zoo.arm7,
}


@cache
def specialized(name: str) -> kt.Model:
    return ROBOTS[name]().compile((), specialize=True)


def always(_algorithm: Algorithm, _variants: Variants, _individual: RobotKey, _aim: str) -> Specialization:
    return Specialization(True, 0, 0, "for a test")


@pytest.fixture(scope="module", autouse=True)
def _straight_line() -> Iterator[None]:
    """All functions run on straight-line code, whether it pays or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(specialize, "_chosen", always)
        yield


def test_every_kind_of_joint_is_there() -> None:
    used = {joint.kind for name in ROBOTS for joint in specialized(name).joints}
    assert used == set(KINDS)


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_agrees_with_the_reference(function: Function, name: str) -> None:
    robot = specialized(name)
    q, v, x = states(robot, (9,))
    kappa = condition(robot.mass_matrix(q)) if function.name in SOLVING else 1.0
    batch = function(robot, q, v, x)
    for one, other in zip(batch, function(robot, q, v, x, engine="reference"), strict=True):
        assert_close(one, other, bound(robot.nv, kappa))
    assert_same_bits(function(robot, q[4], v[4], x[4]), tuple(part[4] for part in batch))


@pytest.mark.parametrize("function", FEW, ids=str)
def test_bits_do_not_depend_on_lanes_threads_or_batches(function: Function) -> None:
    robot = specialized("arm")
    arrays = states(robot, (1000,))
    expected = function(robot, *arrays)
    for size in (1, 2, 3, 8, 9, 31):
        assert_same_bits(function(robot, *(array[:size] for array in arrays)), tuple(part[:size] for part in expected))
    for width in (1, 2, 4):
        with machine_code.use(machine_code.host().with_width(width)):
            fresh = pickle.loads(pickle.dumps(robot))
            assert_same_bits(function(fresh, *arrays), expected)
    threads.set_threads(1)
    try:
        assert_same_bits(function(robot, *arrays), expected)
    finally:
        threads.set_threads(None)


@pytest.mark.parametrize("name", ["turning", "sliding", "floating"])
@pytest.mark.parametrize(
    "algorithm",
    [
        *(forward_dynamics, inverse_dynamics, mass_matrix, mass_matrix_inverse, coriolis_matrix),
        *map(in_common_frame, (mass_matrix, mass_matrix_inverse, coriolis_matrix)),
    ],
    ids=lambda a: a.name,
)
def test_the_interpreter_has_the_same_bits(algorithm: Algorithm, name: str) -> None:
    agree(algorithm, specialized(name))


@pytest.mark.parametrize(
    "algorithm",
    [poses, JACOBIANS["world"], in_common_frame(JACOBIANS["world"]), forward_dynamics],
    ids=lambda a: a.name,
)
def test_functions_of_frames(algorithm: Algorithm) -> None:
    robot = specialized("arm")
    agree(algorithm, robot, tuple(robot.site(name) for name in ("hand", "world", "link3")))


@pytest.mark.parametrize("method", ["chang_khatib", "rjk", "sparse_factorization", "efpa_segments"])
def test_rows_of_tasks(method: str) -> None:
    agree(inverse_inertia(method, "local"), tree(), task_sites(TaskKinds()))


def test_relative_tasks_and_groups() -> None:
    agree(inertia("pv_osim", "local", TaskKinds(relative=True)), tree(), task_sites(TaskKinds(relative=True)))


@cache
def tree() -> kt.Model:
    return kt.zoo.random_tree(9, kinds=("revolute", "spherical"), seed=5).compile((), specialize=True)


@pytest.mark.parametrize("length", [4, 60])
def test_parts_have_the_bits_of_the_whole(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values pass from part to part through scratch memory, whose places are reused."""
    # a robot and a cache that know nothing of parts of another length
    monkeypatch.setenv("KINETREE_CACHE_DIR", "off")
    robot = kt.zoo.random_tree(4, kinds=("revolute", "planar"), seed=length).compile((), specialize=True)
    q, v, x = (array[0] for array in states(robot, (1,)))
    whole = interpreter.run(forward_dynamics, robot.mechanism, (), (q, v, x, np.zeros((0, 6))))
    monkeypatch.setattr(specialize, "LENGTH", length)
    specialize._straight.cache_clear()
    cut = specialize.specialized(forward_dynamics, robot.mechanism, ())
    assert cut is not None
    pieces = [item for item in cut.lowered.program.top.items if isinstance(item, Segment)]
    assert len(pieces) > cut.operations.total() // (2 * length)
    assert 0 < cut.lowered.layout.records["world"] < cut.operations.total() // 2
    agree(forward_dynamics, robot)
    assert_same_bits((robot.forward_dynamics(q, v, x),), whole)
    assert_same_bits((robot.forward_dynamics(*(np.tile(a, (8, 1)) for a in (q, v, x)))[5],), whole)
    specialize._straight.cache_clear()


@pytest.mark.parametrize("cc", COMPILERS)
@pytest.mark.parametrize("name", ["floating", "arm"])
def test_exported_c_has_the_same_bits(name: str, cc: str, tmp_path: Path) -> None:
    robot = specialized(name)
    functions = ("inverse_dynamics", "forward_dynamics", "mass_matrix", "energy", "jacobian")
    _, source = robot.export_c(functions, tmp_path, frames=[robot.frames[-1]])
    text = source.read_text()
    assert "for (int i = 0; i < count" in text  # of its check
    assert "switch" not in text
    for line in checked(source, cc, "-O2", "-std=c99", *STRICT):
        assert re.search(r" 0 of \d+ numbers differ$", line)


def test_loops_and_coupled_joints() -> None:
    """Nodes that are not rigid bodies are unrolled like others."""
    robot = gripper().compile((), specialize=True)
    q, v, x = states(robot, (5,))
    for name in ("forward_dynamics", "inverse_dynamics"):
        function = getattr(robot, name)
        kappa = condition(robot.mass_matrix(q))
        assert_close(function(q, v, x), function.engine("reference")(q, v, x), bound(robot.nv, kappa))
        assert_same_bits((function(q[3], v[3], x[3]),), (function(q, v, x)[3],))


def test_single_precision() -> None:
    """The same program in another format, whichever is asked for first."""
    robot = specialized("arm")
    single = robot.astype("float32")
    assert single.compile((), specialize=True) is single
    assert pickle.loads(pickle.dumps(single)) == single
    assert ROBOTS["arm"]().astype("float32").compile((), specialize=True) == single
    q, v, x = states(robot, (9,))
    batch = single.inverse_dynamics(*(array.astype(np.float32) for array in (q, v, x)))
    assert batch.dtype == np.float32
    one = single.inverse_dynamics(*(array[4].astype(np.float32) for array in (q, v, x)))
    np.testing.assert_array_equal(one, batch[4])
    assert_close(batch, robot.inverse_dynamics(q, v, x), bound(robot.nv, dtype=np.float32))
