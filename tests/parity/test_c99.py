"""Exported C has the bits of the native engine, with every compiler at hand."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import geometry as geo
from kinetree.errors import InputError, UnknownNameError
from tests.mechanisms import gripper
from tests.oracle import program
from tests.tolerance import refused
from tests.trees import mixed, random_mechanism
from tools.bits import Tally
from tools.c_bits import compared

COMPILERS = ("gcc", "clang")
STRICT = ("-ffp-contract=off", "-Wall", "-Wextra", "-pedantic", "-Werror")
FUNCTIONS = (
    "inverse_dynamics",
    "forward_dynamics",
    "mass_matrix",
    "mass_matrix_inverse",
    "mass_matrix_log_determinant",
    "energy",
    "velocity",
    "jacobian",
    "inverse_inertia",
)
ROBOTS = {
    "fixed": lambda: kt.zoo.random_tree(6, kinds=("revolute", "prismatic"), seed=2),
    "floating": lambda: kt.zoo.random_tree(7, kinds=("floating", "revolute"), seed=4),
    "every kind": lambda: random_mechanism("every kind", mixed(10, 1), 1).kinetree(),
}


@cache
def robot(name: str) -> kt.Model:
    return ROBOTS[name]()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    sources = {}
    for name in ROBOTS:
        model = robot(name)
        moving = [frame for frame in model.frames if model.site(frame).node >= 0]
        frames = [moving[-1], moving[0]]
        _, sources[name] = model.export_c(FUNCTIONS, tmp_path_factory.mktemp("c"), frames=frames)
    return sources


def checked(source: Path, cc: str, *options: str) -> list[str]:
    """What the check in a source prints."""
    binary = source.with_suffix(f".{cc}")
    macro = f"-D{source.stem.upper()}_CHECK"
    subprocess.run([program(cc), *options, macro, str(source), "-o", str(binary), "-lm"], check=True)
    run = subprocess.run([str(binary)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    return run.stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "cc", "level"),
    [
        *((name, cc, "-O2") for name in ROBOTS for cc in COMPILERS),
        *(("fixed", cc, level) for cc in COMPILERS for level in ("-O0", "-O3")),
    ],
)
def test_same_bits(exported: dict[str, Path], name: str, cc: str, level: str) -> None:
    lines = checked(exported[name], cc, level, "-std=c99", *STRICT)
    assert len(lines) == len(FUNCTIONS) + 1  # energies are two
    for line in lines:
        assert re.search(r" 0 of \d+ numbers differ$", line)


def test_same_bits_with_instructions_that_fuse(tmp_path: Path) -> None:
    """At states with exact zeros of both signs. GCC fuses more than it is told to."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists() or " fma " not in cpuinfo.read_text():
        pytest.skip("needs an x86-64 processor with fused multiply-add")
    command, tally = [program("gcc"), "-mfma", "-ffp-contract=off"], Tally()
    model = kt.zoo.random_tree(4, kinds=("planar", "spherical"), seed=4)
    for name, actual, expected in compared("free", model, tmp_path, command, [], ["inverse_dynamics.vjp"]):
        tally.add(name, actual, expected)
    assert not tally.differing
    assert tally.negative_zeros


def test_the_check_finds_a_wrong_number(exported: dict[str, Path], tmp_path: Path) -> None:
    source = exported["fixed"]
    text = source.read_text(encoding="utf-8")
    place = text.index("static const real tau_expected")
    digit = re.compile(r"\d\.\d*?([1-8])\d*,").search(text, place)
    assert digit is not None
    spoiled = text[: digit.start(1)] + str(int(digit[1]) + 1) + text[digit.end(1) :]
    (tmp_path / source.name).write_text(spoiled, encoding="utf-8")
    shutil.copy(source.with_suffix(".h"), tmp_path)
    binary = tmp_path / "check"
    macro = f"-D{source.stem.upper()}_CHECK"
    subprocess.run([program("gcc"), macro, str(tmp_path / source.name), "-o", str(binary), "-lm"], check=True)
    run = subprocess.run([str(binary)], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert re.search(r"inverse_dynamics +1 of \d+ numbers differ", run.stdout)


def test_called_from_another_program(exported: dict[str, Path], tmp_path: Path) -> None:
    """Other states than the one in the source, through the header, and from C++."""
    import ctypes

    source, model = exported["floating"], robot("floating")
    library = tmp_path / "robot.so"
    subprocess.run(
        [program("gcc"), "-O2", "-shared", "-fPIC", "-ffp-contract=off", str(source), "-o", str(library), "-lm"],
        check=True,
    )
    loaded = ctypes.CDLL(str(library))
    rng = np.random.default_rng(5)

    def pointer(array: Any) -> Any:
        return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))

    for _ in range(20):
        q, v, tau = model.random_configuration(rng), *rng.uniform(-3.0, 3.0, (2, model.nv))
        a = np.empty(model.nv)
        loaded[f"{source.stem}_forward_dynamics"](*map(pointer, (q, v, tau, a)))
        assert np.array_equal(a, model.forward_dynamics(q, v, tau))


@pytest.mark.parametrize("scalar", ["double", "float"])
def test_distances(scalar: str, tmp_path: Path) -> None:
    """Beside functions of other frames, whose constants are others."""
    model = robot("floating")
    names = [body.name for body in model.bodies]
    ball, rod = geo.Sphere(names[0], (0, 0, 0.1), 0.2), geo.Capsule(names[2], (0, 0, 0), (0.1, 0.2, 0.3), 0.1)
    model = model.with_shapes([ball, rod, geo.Box(names[4], (0.3, 0.2, 0.1), rounding=0.01)])
    scene = kt.Scene([geo.Plane(), geo.Box("block", (1, 1, 1)), geo.Sphere("stone", (1, 1, 1), 0.5)])
    pairs = model.collision_pairs(scene=scene, keep_colliding=True)
    assert pairs.runs.classes == ("points", "sphere_boxes", "capsule_boxes", "boxes", "planes")
    wanted = ["pose", "distances", "forward_dynamics"]
    _, source = model.export_c(wanted, tmp_path, frames=names[3:5], pairs=pairs, scalar=scalar)
    lines = checked(source, "gcc", "-O2", "-std=c99", *STRICT)
    assert [line.split("  ")[0] for line in lines] == [
        "pose", "distances: distance", "distances: normal", "distances: points", "forward_dynamics",
    ]  # fmt: skip
    refused("has no pairs of shapes", robot("floating").export_c, ["distances"], tmp_path)


def test_distances_by_iterations(tmp_path: Path) -> None:
    model = robot("floating")
    names = [body.name for body in model.bodies]
    model = model.with_shapes([geo.Ellipsoid(names[4], (0.1, 0.2, 0.3))])
    pairs = model.collision_pairs(scene=kt.Scene([geo.Sphere("ball", (0, 0, 0.1), 0.2)]), keep_colliding=True)
    _, source = model.export_c(["distances"], tmp_path, pairs=pairs)
    assert len(checked(source, "gcc", "-O0", "-std=c99", *STRICT)) == 3


def test_single_precision(tmp_path: Path) -> None:
    model = robot("fixed")
    _, source = model.export_c(["forward_dynamics", "mass_matrix", "inverse_dynamics"], tmp_path, scalar="float")
    assert "double" not in source.read_text(encoding="utf-8")
    assert all(" 0 of " in line for line in checked(source, "gcc", "-O2", "-std=c99", *STRICT))


def test_a_robot_that_computes_in_float32_is_exported_in_single_precision(tmp_path: Path) -> None:
    """With the bits of its kernels, also for functions of frames and tasks; `scalar` chooses the other type."""
    model = robot("floating")
    functions = ["forward_dynamics", "step", "pose", "inverse_inertia", "inertia"]
    frames = [frame for frame in model.frames if model.site(frame).node >= 0][-2:]
    by_type = model.astype("float32").export_c(functions, tmp_path / "type", frames=frames)
    by_name = model.export_c(functions, tmp_path / "name", frames=frames, scalar="float")
    assert [path.read_bytes() for path in by_type] == [path.read_bytes() for path in by_name]
    assert "double" not in by_type[1].read_text(encoding="utf-8")
    lines = checked(by_type[1], "gcc", "-O2", "-std=c99", *STRICT)
    assert len(lines) >= len(functions)
    assert all(" 0 of " in line for line in lines)
    back = model.astype("float32").export_c(functions, tmp_path / "back", frames=frames, scalar="double")
    double = model.export_c(functions, tmp_path / "double", frames=frames)
    assert [path.read_bytes() for path in back] == [path.read_bytes() for path in double]


def test_readers_find_joints_frames_and_origin(exported: dict[str, Path]) -> None:
    source = exported["fixed"].read_text(encoding="utf-8")
    header = exported["fixed"].with_suffix(".h").read_text(encoding="utf-8")
    model = robot("fixed")
    for body in model.mechanism.names:
        assert f"/* {body}" in source
        assert body in header
    assert f"Written by Kinetree {kt.__version__}" in source
    assert f"double M[{model.nv**2}]" in header
    assert "accelerations" in header.lower()
    assert "malloc" not in source
    assert not re.search(r"\b(sin|cos|exp|pow)\(", source)


def test_the_same_files_every_time(tmp_path: Path) -> None:
    first, second = (robot("fixed").export_c(["mass_matrix"], tmp_path / name) for name in ("a", "b"))
    for one, other in zip(first, second):
        assert one.read_bytes() == other.read_bytes()


def test_tasks_of_every_sort_can_be_exported(tmp_path: Path) -> None:
    """Points of frames, relative tasks and the centre of mass, as `tasks` takes them: the same numbers, and bits."""
    model = kt.zoo.random_tree(3, kinds=("floating", "revolute"), seed=4)
    one, *_, other = [frame for frame in model.frames if model.site(frame).node >= 0]
    tasks = [one, kt.Task(other, "position", (0.1, 0.2, 0.3)), kt.RelativeTask(one, other), kt.CenterOfMassTask()]
    _, source = model.export_c(["inverse_inertia"], tmp_path, frames=tasks)
    expected = model.tasks(tasks).inverse_inertia(model.random_configuration(np.random.default_rng(0)))
    assert all(f"{x!r}," in source.read_text() for x in expected.reshape(-1).tolist())
    assert all(" 0 of " in line for line in checked(source, "gcc", "-std=c99", *STRICT))


def test_frames_and_tasks_of_robots_with_coupled_joints(tmp_path: Path) -> None:
    functions = ["pose", "jacobian", "inverse_inertia"]
    _, source = gripper().export_c(functions, tmp_path, frames=["tip", "link1"])
    lines = checked(source, "gcc", "-std=c99", *STRICT)
    assert len(lines) >= len(functions)
    assert all(" 0 of " in line for line in lines)


def test_what_cannot_be_exported_says_so(tmp_path: Path) -> None:
    model = robot("fixed")
    refused("function", model.export_c, ["forward_dynamic"], tmp_path, error=UnknownNameError)
    refused("scalar", model.export_c, ["mass_matrix"], tmp_path, scalar="half", error=UnknownNameError)
    refused("frame", model.export_c, ["jacobian"], tmp_path, frames=["nowhere"], error=UnknownNameError)
    with pytest.raises(
        InputError, match=re.escape("inverse_inertia needs frames: export_c(['inverse_inertia'], frames=")
    ):
        model.export_c(["inverse_inertia"], tmp_path)
    refused("functions is empty", model.export_c, [], tmp_path)
    with pytest.raises(InputError, match="jacobian is a function of frames, which are given by name; export it sep"):
        model.export_c(["inertia", "jacobian"], tmp_path, frames=[kt.Task(model.frames[-1], "position")])
    assert not list(tmp_path.iterdir())
