"""What help, editors and type checkers see of a robot's functions, and that looking at them costs nothing."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, UnknownNameError
from kinetree.model.dynamics import FUNCTIONS
from kinetree.runtime.function import Function


@pytest.fixture(scope="module")
def robot() -> kt.Model:
    return kt.zoo.double_pendulum()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_is_about_the_quantity(robot: kt.Model, name: str) -> None:
    function = getattr(robot, name)
    assert isinstance(function, Function)
    parameters = inspect.signature(function).parameters
    text = pydoc.plain(pydoc.render_doc(function))
    assert f"{name}({', '.join(parameters)[:1]}" in text
    assert function.__doc__ == inspect.getdoc(getattr(kt.Model, name))
    assert function.__doc__ in "\n".join(line.strip() for line in text.splitlines()) or all(
        line.strip() in text for line in function.__doc__.splitlines()
    )
    described = function.__doc__.partition("Args:")[2]
    for parameter in parameters:
        assert f"{parameter}: " in described


def test_signatures_say_what_is_needed(robot: kt.Model) -> None:
    def required(function: object) -> list[str]:
        given = inspect.signature(function).parameters.values()
        return [p.name for p in given if p.default is inspect.Parameter.empty]

    assert required(robot.jacobian) == ["q", "frames"]
    assert required(robot.pose) == ["q"]
    assert list(inspect.signature(robot.pose).parameters) == ["q", "frames", "out"]
    assert list(inspect.signature(robot.regressor).parameters) == ["q", "v", "a", "frames", "out"]
    assert required(robot.forward_dynamics) == ["q", "v", "tau"]
    assert required(robot.forward_dynamics.jvp) == ["q", "v", "tau", "dq", "dv", "dtau"]
    assert repr(robot.velocity) == "<velocity(q, v, frames=None, reference='local', *, out=None) on the native engine>"


def test_results_with_several_parts_are_named(robot: kt.Model) -> None:
    for engine in ("native", "reference"):
        for q in (np.array([0.3, 0.4]), np.full((2, 2), 0.3)):
            for _ in range(2):  # before and after single samples take the short way
                energy = robot.energy.engine(engine)(q, q)
                assert isinstance(energy, kt.Energy)
                np.testing.assert_array_equal(energy.kinetic, energy[0])
                assert isinstance(robot.forward_dynamics.engine(engine).vjp(q, q, q, q), kt.ForwardGradients)
                assert isinstance(robot.inverse_dynamics.engine(engine).hvp(*[q] * 7), kt.InverseGradients)
    assert isinstance(robot.inverse_dynamics_derivatives(q, q, q), kt.LinearizedInverse)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_one_frame_has_no_axis_and_several_have_one(robot: kt.Model, engine: str) -> None:
    q, v, a = np.random.default_rng(0).uniform(size=(3, 5, 2))
    calls = {
        "pose": (q,), "velocity": (q, v), "acceleration": (q, v, a), "jacobian": (q,), "jacobian_dot_v": (q, v),
        "jacobian_rate": (q, v), "velocity_derivative": (q, v), "regressor": (q, v, a),
    }  # fmt: skip
    names = robot.frames[-2:]
    for name, arrays in calls.items():
        function = getattr(robot, name).engine(engine)
        axis = -2 if name in ("velocity", "acceleration", "jacobian_dot_v", "regressor") else -3
        together = function(*arrays, names)
        for i, frame in enumerate(names):
            one = function(*arrays, frame)
            np.testing.assert_array_equal(one, np.take(together, i, axis))
            np.testing.assert_array_equal(one, function(*arrays, frames=frame))
        np.testing.assert_array_equal(together, function(*arrays, list(names)))
        np.testing.assert_array_equal(together, function(*arrays, (name for name in names)))


def test_acceleration_is_jacobian_times_acceleration_plus_drift(robot: kt.Model) -> None:
    q, v, a = np.random.default_rng(0).uniform(size=(3, 2))
    for reference in ("local", "local_world_aligned", "world"):
        expected = robot.jacobian(q, "tip", reference) @ a + robot.jacobian_dot_v(q, v, "tip", reference)
        np.testing.assert_allclose(robot.acceleration(q, v, a, "tip", reference), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_every_way_to_choose_classical_accelerations(robot: kt.Model, engine: str) -> None:
    function, rng = robot.acceleration.engine(engine), np.random.default_rng(0)
    for shape in ((2,), (3, 2)):
        q, v, a = rng.uniform(size=(3, *shape))
        for reference in ("local", "local_world_aligned", "world"):
            twist, rate = robot.velocity(q, v, "tip", reference), function(q, v, a, "tip", reference)
            expected = rate.copy()
            if reference != "local_world_aligned":  # there they are the same
                expected[..., 3:] += np.cross(twist[..., :3], twist[..., 3:])
            for _ in range(3):  # before and after choices are known
                for yes, no in ((True, False), (np.True_, np.False_), (1, 0)):
                    found = function(q, v, a, "tip", reference, yes)
                    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
                    np.testing.assert_array_equal(
                        function(q, v, a, ["tip"], reference, classical=yes)[..., 0, :], found
                    )
                    np.testing.assert_array_equal(function(q, v, a, "tip", reference, no), rate)
                    assert not np.array_equal(found, rate) or reference == "local_world_aligned"
        by_default = function(q, v, a, classical=True)
        np.testing.assert_array_equal(by_default, function(q, v, a, robot.frames, "local", True))
        for wrong in ("yes", None, 2, np.array([True]), [True]):
            with pytest.raises(InputError, match="classical is True or False"):
                function(q, v, a, "tip", classical=wrong)
    with pytest.raises(InputError, match="takes no 'classical'"):
        robot.velocity(q, v, "tip", classical=True)
    assert robot.acceleration.count("tip", "local", True).total > robot.acceleration.count("tip").total


@pytest.mark.parametrize(
    "frames", [5, 3.5, {"tip"}, frozenset(["tip"]), {"tip": 1}, {"tip": 1}.keys(), b"tip"], ids=str
)
def test_frames_are_a_name_or_a_sequence_of_names(robot: kt.Model, frames: object) -> None:
    kind = type(frames).__name__
    for function in (robot.pose, robot.jacobian, robot.pose.engine("reference")):
        with pytest.raises(InputError, match=f"{function.name}: frames is a name or a sequence of names, got {kind}"):
            function(np.zeros(2), frames)
    for name in ("pose", "efpa"):
        with pytest.raises(InputError, match=f"{name}: frames is a name or a sequence"):
            robot.count(name, frames)


def test_counts_are_of_one_frame_or_several(robot: kt.Model) -> None:
    for name in ("pose", "jacobian", "efpa"):
        assert robot.count(name, "tip") == robot.count(name, ["tip"])
    with pytest.raises(UnknownNameError, match=r"no function is called \['pose'\]"):
        robot.count(["pose"])


def test_wrong_calls(robot: kt.Model) -> None:
    q = np.zeros(2)
    for call, message in {
        lambda: robot.pose(q, "tip", reference="world"): "pose takes no 'reference'; it takes (q, frames, out)",
        lambda: robot.jacobian(q): "jacobian needs frames; it takes (q, frames, reference, out)",
        lambda: robot.jacobian(q, None): "jacobian: frames is a name or a sequence of names, got None",
        lambda: robot.jacobian(q, ["tip", 3]): "jacobian: frames is a name or a sequence of names, got 3 in it",
        lambda: robot.jacobian(q, "tip", "world", 1): "jacobian got 4 arguments; it takes (q, frames, reference, out)",
        lambda: robot.mass_matrix(q, q=q): "mass_matrix got 'q' twice; it takes (q, out)",
        lambda: robot.inverse_dynamics(q): "inverse_dynamics needs v and a; it takes (q, v, a, f_ext, out)",
    }.items():
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == message
    for wrong in (5, ["world"], None.__class__):
        with pytest.raises(UnknownNameError, match="no reference is called .* There are: local, local_world_aligned"):
            robot.jacobian(q, "tip", reference=wrong)


def test_reading_a_function_compiles_nothing() -> None:
    code = """
import kinetree as kt
from kinetree.compiler import cache
from kinetree.runtime import compile_queue

def refuse(*_):
    raise AssertionError("something is compiled, loaded or hashed")

cache.source_fingerprint = cache.load = compile_queue.CompileJob.__init__ = compile_queue.Library.__init__ = refuse
robot = kt.zoo.humanoid24()
for name in kt.model.dynamics.FUNCTIONS:
    repr(getattr(robot, name))
robot.forward_dynamics.jvp, robot.mass_matrix.engine("reference")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


#: Checked by hand with pyright in strict mode, too.
SCRIPT = """
from collections.abc import Callable
import numpy as np
import kinetree as kt

robot = kt.zoo.humanoid24()
q = robot.random_configuration(0, (3,))
v = np.zeros((3, robot.nv))
tau: np.ndarray = robot.inverse_dynamics(q, v, v, f_ext={"left_hand": np.zeros(6)})
robot.forward_dynamics(q, v, tau, out=tau)
kinetic = robot.energy(q, v).kinetic
hand, hands = robot.pose(q, "left_hand"), robot.pose(q, ["left_hand", "right_hand"])
J = robot.jacobian(q, "left_hand", reference="local_world_aligned")
twists: np.ndarray = robot.velocity(q, v, ("left_hand", "right_hand"), "world")
change = robot.forward_dynamics.jvp(q, v, tau, v, v, v)
M = robot.linearize(q, v, a=v).da
A: np.ndarray = robot.discretize(q, v, tau, 0.01).A
gravity: Callable[[np.ndarray], np.ndarray] = robot.gravity_forces.engine("reference")
tasks = robot.tasks(
    ["left_hand", kt.Task("right_hand", "position"), kt.RelativeTask("left_hand", "right_hand"), kt.CenterOfMassTask()],
    singular="truncated",
    contacts=["left_foot"],
)
inertia: np.ndarray = tasks.inertia(q)
N: np.ndarray = tasks.dynamics(q).nullspace
state = tasks.at(q, v)
F: np.ndarray = state.bias
operations: int = robot.count("efpa", frames=["left_hand"]).total
"""

MISTAKES = {
    'robot.jacobian(q)': "call-arg",
    'robot.pose(q, "left_hand", reference="world")': "call-arg",
    'robot.jacobian(q, "left_hand", reference="body")': "arg-type",
    'robot.velocitie(q, v)': "attr-defined",
    'robot.energy(q, v).heat': "attr-defined",
    'robot.mass_matrix.hvp': "attr-defined",
    'tasks.dynamics(q).mass': "attr-defined",
    'robot.tasks(3)': "arg-type",
    'kt.Task(3)': "arg-type",
}  # fmt: skip


def test_mypy_understands_users(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "\n".join(MISTAKES) + "\n")
    here = Path(kt.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--follow-imports", "silent", str(script)],
        env={"MYPYPATH": str(here), "PATH": "", "HOME": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    first = 1 + SCRIPT.count("\n")
    assert len(errors) == len(MISTAKES), done.stdout + done.stderr
    for number, (error, code) in enumerate(zip(errors, MISTAKES.values(), strict=True), start=first):
        assert f"script.py:{number}: " in error
        assert f"[{code}]" in error


def test_types_are_shipped() -> None:
    assert Path(kt.__file__).with_name("py.typed").exists()
