"""Whatever a file holds, loading it gives a model or a `LoadError`, soon. `tests/fuzz` has the long runs."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import kinetree as kt
from kinetree.errors import InputError, LoadError
from tests.fuzz.mutations import ROBOT, mutated
from tests.fuzz.run import fault_of
from tests.fuzz.urdf import options_of
from tests.unit.io.test_urdf import INERTIAL, joint, link, quiet, robot

NUMBERS = st.one_of(
    st.floats().map(repr),
    st.sampled_from(["", " ", "nan", "-inf", "1e999", "1_1", "0x1p3", "1,0", "١", "${a}", "1e", "--1", "é"]),
    st.text(max_size=8),
)
NAMES = st.sampled_from(["a", "b", "c", "world", "", " ", "root_joint", "x" * 200, "ü", "a\tb"])
KINDS = st.sampled_from(["revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical", "screw"])


def escaped(text: str) -> str:
    """A text as an attribute; what XML cannot hold stays, and must be refused."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def sound(data: bytes, options: dict[str, Any]) -> None:
    outcome, wrong = fault_of(data, options)
    assert wrong is None, f"{outcome}: {wrong}"


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    sound(data, {})


@given(st.text(max_size=300))
def test_any_text(text: str) -> None:
    sound(("<robot>" + text + "</robot>").encode("utf-8", "surrogatepass"), {})


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.integers(0, 2**32))
def test_spoilt_files(seed: int) -> None:
    rng = random.Random(seed)
    sound(mutated(rng), options_of(rng))


@example([("revolute", "a", "a", "a\tb")], ["a", "a\tb"], False)
@given(st.lists(st.tuples(KINDS, NAMES, NAMES, NAMES), max_size=6), st.lists(NAMES, max_size=4), st.booleans())
def test_any_graph(joints: list[tuple[str, str, str, str]], links: list[str], floating: bool) -> None:
    """Cycles, two parents, missing links, duplicates: a model, or an error; never a wrong tree."""
    parts = [link(name) for name in links] + [joint(name, one, two, kind) for kind, name, one, two in joints]
    text = robot(*parts)
    sound(text.encode(), {"floating_base": floating})
    try:
        model = quiet(text)
    except LoadError:
        return
    children = [two.replace("\t", " ") for _, _, _, two in joints]  # as XML reads attributes
    assert len(set(children)) == len(children)
    assert {found.child for found in model.joints} <= set(children) | {"world_link"}
    assert len(model.bodies) == len(links) - ("world" in links and "world" not in children)


@given(st.lists(NUMBERS, min_size=13, max_size=13), KINDS)
def test_any_numbers(numbers: list[str], kind: str) -> None:
    mass, xx, xy, zz, lower, upper, velocity, damping, multiplier, *xyz = map(escaped, numbers)
    text = robot(
        link("a", f'<inertial><origin rpy="{xyz[0]} {xyz[1]} 0"/><mass value="{mass}"/>'
                  f'<inertia ixx="{xx}" ixy="{xy}" iyy="{xx}" izz="{zz}"/></inertial>'),
        link("b", INERTIAL),
        joint("j", "a", "b", kind,
              f'<origin xyz="{xyz[2]} 0 {xyz[3]}"/><axis xyz="{xyz[3]} 1 0"/><dynamics damping="{damping}"/>'
              f'<limit lower="{lower}" upper="{upper}" velocity="{velocity}"/>'
              f'<mimic joint="j" multiplier="{multiplier}"/>'),
    )  # fmt: skip
    sound(text.encode("utf-8", "surrogatepass"), {})


def test_models_of_great_numbers_are_finite() -> None:
    text = ROBOT.replace('mass value="2"', 'mass value="1e100"').replace('xyz="0 0 0.5"', 'xyz="1e99 1e100 -1e100"')
    model = quiet(text)
    assert np.isfinite(model.mechanism.total_parameters).all()
    assert np.isfinite(model.random_configuration(0)).all()


def laugh(i: int) -> str:
    """An entity of ten of the one before."""
    inside = f"&a{i - 1};" * 10 if i else "ha"
    return f'<!ENTITY a{i} "{inside}">'


#: Texts that would take long, or much memory, if they were read without care.
GREEDY = {
    "long value": lambda: f'<robot name="{"x" * 10_500_000}"/>',
    "long number": lambda: robot(link("a", f'<inertial><mass value="{"9" * 9_000_000}"/><inertia/></inertial>')),
    "long text": lambda: f"<robot>{'x' * 31_000_000}</robot>",
    "long comment": lambda: "<!--" + "-" * 31_000_000,
    "blank": lambda: " " * 31_000_000 + "<robot/>",
    "too long": lambda: " " * 40_000_000 + "<robot/>",
    "many elements": lambda: "<robot>" + "<a/>" * 400_000 + "</robot>",
    "too many elements": lambda: "<robot>" + "<a/>" * 2_000_000 + "</robot>",
    "many attributes": lambda: "<robot " + " ".join(f"a{i}='x'" for i in range(300_000)) + "/>",
    "many links": lambda: robot(*(f'<link name="{i}"/>' for i in range(200_000))),
    "deep": lambda: "<robot>" + "<a>" * 400_000,
    "billion laughs": lambda: "<!DOCTYPE r [" + "".join(map(laugh, range(12))) + ']><robot name="&a11;"/>',
    "chain": lambda: robot(
        *map(link, map(str, range(3000))), *(joint(f"j{i}", f"{i}", f"{i + 1}") for i in range(2999))
    ),
    "mimics": lambda: robot(
        *map(link, map(str, range(1500))),
        *(joint(f"j{i}", f"{i}", f"{i + 1}", inside=f'<mimic joint="j{i + 1}"/>') for i in range(1499)),
    ),
}


@pytest.mark.parametrize("case", GREEDY)
def test_greedy_files_are_dealt_with_soon(case: str) -> None:
    sound(GREEDY[case]().encode(), {"mimic": "lock"})


def test_memory_is_bounded(tmp_path: Path) -> None:
    """In a process that may not have more than a gigabyte."""
    file = tmp_path / "robot.urdf"
    file.write_text(GREEDY["many elements"]())
    code = "import sys, warnings, kinetree\nwarnings.simplefilter('ignore')\nprint(kinetree.load(sys.argv[1]).nv)"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))

    done = subprocess.run(
        [sys.executable, "-c", code, str(file)], preexec_fn=limit, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "0\n", done.stderr


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(2**42)
    for name, message in {
        "pipe": "is not a regular file",
        "folder": "is a directory; give the path of a file",
        "zero": "is not a regular file",
        "loop": "cannot be read",
        "huge": "has 4398046511104 bytes",
        "absent": "there is no such file; looked in",
        "a" * 10_000: "cannot be read.*too long",
        "a\0b": "cannot be read.*null",
    }.items():
        with pytest.raises(LoadError, match=message):
            kt.load(str(tmp_path / name))


SIMPLE = "<robot name='r'><link name='é'/></robot>"


@pytest.mark.parametrize(
    "data",
    [
        SIMPLE.encode(),
        bytearray(SIMPLE.encode()),
        memoryview(SIMPLE.encode()),
        SIMPLE.encode("utf-8-sig"),
        SIMPLE.encode("utf-16"),
        ("<?xml version='1.0' encoding='iso-8859-1'?>" + SIMPLE).encode("latin-1"),
        "\ufeff" + SIMPLE,
        "\n\n " + SIMPLE,
    ],
)
def test_encodings_that_are_read(data: Any) -> None:
    assert kt.load(data).frames == ("world", "é")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (SIMPLE.encode("utf-32"), "UTF-32 is not supported; save it as UTF-8"),
        (SIMPLE.encode("latin-1"), "is not valid utf-8; save it as UTF-8"),
        (SIMPLE.replace("é", "\0").encode(), "invalid character"),
        (SIMPLE.replace("é", "\ud800"), "lone surrogate"),
        (b"", "is empty"),
        (" \n", "is empty"),
        ("<robot>" + "<![CDATA[\n" * 10, "CData section not finished"),
    ],
)
def test_encodings_that_are_refused(data: Any, message: str) -> None:
    with pytest.raises(LoadError, match=message) as caught:
        kt.load(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "option", ["floating_base", "root", "mimic", "lock", "joint_order", "gravity", "directory", "xacro"]
)
def test_options_that_are_none(option: str) -> None:
    """Whatever is given for an option, no error but the library's own comes out."""
    things = ["x", 5, object(), np.zeros(3), np.zeros((2, 2)), np.array(3.0), {1: 2}, {"a", "b"}, float("nan"), b"x"]
    for thing in things:
        if option == "gravity" and np.shape(thing) == (3,):
            continue
        with pytest.raises(InputError):
            kt.load("<mujoco/>" if option == "directory" else SIMPLE, **{option: thing})
