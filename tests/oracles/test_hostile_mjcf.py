"""Whatever an MJCF file holds, loading it gives a model or a `LoadError`, soon, and reads nothing elsewhere."""

from __future__ import annotations

import os
import random
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kinetree as kt
from kinetree import geometry as geo
from kinetree.errors import InputError, LoadError
from kinetree.io.mjcf_file import Directory
from kinetree.io.mjcf_reduce import Reduction
from kinetree.io.options import Diagnostics
from kinetree.io.source import Source
from tests.fuzz.meshes import FORMATS, model, spoilt
from tests.fuzz.mjcf import ARM, MESHES, MJCF, options_of
from tests.fuzz.mutations import mutated
from tests.fuzz.run import fault_of
from tests.oracle import oracle
from tests.tolerance import assert_near, bound, refused

mujoco = oracle("mujoco")

pytestmark = pytest.mark.filterwarnings("ignore:.*Kinetree does not model. contacts:kinetree.errors.ModelWarning")

BODY = '<body name="b"><joint/><geom size=".1"/></body>'
MESH_BODY = '<body name="b"><joint/><geom type="mesh" mesh="m"/></body>'
INCLUDED = f"<mujocoinclude>{BODY}</mujocoinclude>"


def file(worldbody: str = BODY, rest: str = "") -> str:
    return f"<mujoco>{rest}<worldbody>{worldbody}</worldbody></mujoco>"


def tetrahedron(size: float = 1.0) -> bytes:
    """An STL."""
    corners = size * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype="<f4")
    faces = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    return bytes(80) + struct.pack("<I", 4) + b"".join(bytes(12) + corners[f].tobytes() + bytes(2) for f in faces)


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.integers(0, 2**32))
def test_spoilt_files(seed: int) -> None:
    rng = random.Random(seed)
    outcome, wrong = fault_of(mutated(rng, (ARM, MESHES), MJCF), options_of(rng))
    assert wrong is None, f"{outcome}: {wrong}"


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.integers(0, 2**32))
def test_spoilt_meshes(seed: int) -> None:
    rng = random.Random(seed)
    suffix = rng.choice(list(FORMATS))
    data = spoilt(rng, suffix)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, f"mesh{suffix}").write_bytes(data)
        outcome, wrong = fault_of(model(rng, suffix, data).encode(), {}, Path(folder, "robot.xml"))
    assert wrong is None, f"{outcome}: {wrong}"


@pytest.mark.parametrize("suffix", FORMATS)
def test_meshes_that_are_not_spoilt_load(suffix: str, tmp_path: Path) -> None:
    """Otherwise `test_spoilt_meshes` would see nothing but refusals."""
    (tmp_path / f"mesh{suffix}").write_bytes(FORMATS[suffix]())
    (tmp_path / "robot.xml").write_text(model(random.Random(2), suffix, FORMATS[suffix]()))
    assert kt.load(tmp_path / "robot.xml").nv == 1


def test_meshes_open_no_other_files(tmp_path: Path) -> None:
    """Materials that an OBJ file names are left alone: nobody writes to the pipe, so opening it would take for ever."""
    os.mkfifo(tmp_path / "pipe.mtl")
    (tmp_path / "mesh.obj").write_bytes(b"mtllib pipe.mtl\nusemtl red\n" + FORMATS[".obj"]())
    path = tmp_path / "robot.xml"
    path.write_text(file(MESH_BODY, '<asset><mesh name="m" file="mesh.obj"/></asset>'))
    assert kt.load(path).nv == 1


#: Texts that would take long, much memory or the process itself if MuJoCo got them as they are.
GREEDY = {
    "height field": lambda: file(rest='<asset><hfield name="h" nrow="65536" ncol="65536" size="1 1 1 1"/></asset>'),
    "texture": lambda: file(
        rest='<asset><texture name="t" type="cube" builtin="flat" width="30000" height="30000"/></asset>'
    ),
    "built-in mesh": lambda: file(
        MESH_BODY, '<asset><mesh name="m" builtin="supertorus" params="30000 .5 1 1"/></asset>'
    ),
    "many built-in meshes": lambda: file(
        "<body><joint/>" + "".join(f'<geom type="mesh" mesh="{i}"/>' for i in range(60)) + "</body>",
        "<asset>"
        + "".join(f'<mesh name="{i}" builtin="supertorus" params="199 .5 1 1"/>' for i in range(60))
        + "</asset>",
    ),
    "user data": lambda: file(rest='<size nuser_body="2000000000" nuserdata="2000000000" memory="900G"/>'),
    "keyframes": lambda: file() .replace("</mujoco>", "<keyframe>" + "<key/>" * 100_000 + "</keyframe></mujoco>"),
    "number of keyframes": lambda: file(rest='<size nkey="1000000000"/>'),
    "numeric": lambda: file(rest='<custom><numeric name="n" size="2000000000"/></custom>'),
    "comments": lambda: "<mujoco>" + "<!-- " * 32_000,
    "comments in front": lambda: "<!-- " * 32_000,
    "bodies": lambda: file("<body/>" * 20_000),
    "bodies in time": lambda: file('<body><joint/><geom size=".1"/></body>' * 1_300),
    "coordinates in series": lambda: file(
        ('<body><geom size=".1"/>' + "<joint/>" * 6) * 240 + "</body>" * 240
    ),
    "copies of nothing": lambda: file('<replicate count="999999999"/>'),
    "attributes": lambda: file("<body " + " ".join(f'a{i}="1"' for i in range(100_000)) + "/>"),
    "classes": lambda: file(
        rest="<default><geom "
        + " ".join(f'a{i}="1"' for i in range(90))
        + "/>"
        + "".join(f'<default class="c{i}"/>' for i in range(100_000))
        + "</default>"
    ),
    "settings": lambda: file(rest="<default>" + '<geom type="box"/>' * 149_000 + "</default>"),
    "sections": lambda: file(rest="<contact/>" * 149_000),
    "shapes without mass": lambda: file('<body><joint/><geom size=".1"/>' + '<geom mass="0"/>' * 149_000 + "</body>"),
    "elements": lambda: file("<light/>" * 499_000),
    "vertices": lambda: file(MESH_BODY, f'<asset><mesh name="m" vertex="{"1 2 3 " * 1_500_000}"/></asset>'),
    "entities": lambda: '<!DOCTYPE m [<!ENTITY n "99999999">]>' + file('<replicate count="&n;"><site/></replicate>'),
    "entity without a type": lambda: file('<replicate count="&n;"><site/></replicate>'),
}  # fmt: skip


@pytest.mark.parametrize("case", GREEDY)
def test_greedy_files_are_dealt_with_soon(case: str) -> None:
    outcome, wrong = fault_of(GREEDY[case]().encode(), {})
    assert wrong is None, f"{outcome}: {wrong}"


@pytest.mark.parametrize("case", ["classes", "settings"])
def test_too_many_defaults_are_refused_before_they_are_read(case: str) -> None:
    with pytest.raises(LoadError, match="more than 4000 default classes and settings; compile it with MuJoCo"):
        kt.load(GREEDY[case]())


def test_elements_of_all_files_are_counted(tmp_path: Path) -> None:
    message = "more than 33554432 characters or 150000 elements and attributes, included files counted"
    refused(message, kt.load, GREEDY["elements"](), error=LoadError)
    for i in range(2):
        (tmp_path / f"{i}.xml").write_text("<r>" + "<light/>" * 80_000 + "</r>")
    path = tmp_path / "robot.xml"
    path.write_text(file('<include file="0.xml"/>' + BODY))
    assert kt.load(path).nv == 1
    path.write_text(file('<include file="0.xml"/><include file="1.xml"/>' + BODY))
    caught = refused(message, kt.load, path, error=LoadError)
    assert caught.file == str(path)


@pytest.mark.parametrize(
    "case", ["height field", "texture", "user data", "keyframes", "number of keyframes", "numeric"]
)
def test_what_has_no_part_in_the_dynamics_is_left_out(case: str) -> None:
    assert kt.load(GREEDY[case]()) == kt.load(file())


@pytest.mark.parametrize("number", ["nan", "-inf", "1e308", "1e400", "1e101", "1_0", "١", "0x10"])
@pytest.mark.parametrize(
    "text",
    [
        '<body>\n<inertial pos="0 0 0" mass="1" diaginertia="{} 1 1"/><joint/></body>',
        '<body>\n<inertial pos="0 {} 0" mass="1" diaginertia="1 1 1"/><joint/></body>',
        '<body>\n<geom size="{}"/><joint/></body>',
        '<body><joint axis="0 0 1"\nref="{}"/><geom size="1"/></body>',
    ],
)
def test_numbers_must_be_finite(text: str, number: str) -> None:
    caught = refused("no number, not finite, or too great", kt.load, file(text.format(number)), error=LoadError)
    assert caught.line == 2


def test_products_of_great_numbers_are_refused() -> None:
    with pytest.raises(LoadError, match="infinite|cannot compile|too great"):
        kt.load(file('<body><joint/><geom size="1e100"/></body>'))


def test_limits_may_be_infinite() -> None:
    text = file('<body><joint type="slide" range="-inf 2" limited="true"/><geom size=".1"/></body>')
    assert (kt.load(text).joints[0].limits.lower, kt.load(text).joints[0].limits.upper) == ((-np.inf,), (2.0,))


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder, with secrets beside it."""
    (tmp_path / "secret.xml").write_text(INCLUDED)
    (tmp_path / "secret.stl").write_bytes(tetrahedron())
    inner = tmp_path / "model"
    inner.mkdir()
    (inner / "link.xml").symlink_to(tmp_path / "secret.xml")
    (inner / "link.stl").symlink_to(tmp_path / "secret.stl")
    return inner


OUTSIDE = {
    "include": '<mujoco><worldbody>\n<include file="{}.xml"/></worldbody></mujoco>',
    "mesh": '<mujoco><asset>\n<mesh name="m" file="{}.stl"/></asset><worldbody>' + MESH_BODY + "</worldbody></mujoco>",
    "model": '<mujoco><asset>\n<model name="m" file="{}.xml"/></asset><worldbody><attach model="m" body="b" '
    'prefix="p"/></worldbody></mujoco>',
}


@pytest.mark.parametrize("kind", OUTSIDE)
@pytest.mark.parametrize("name", ["../secret", "link", "{absolute}"])
def test_files_outside_of_the_directory_are_not_read(kind: str, name: str, folder: Path) -> None:
    path = folder / "robot.xml"
    path.write_text(OUTSIDE[kind].format(name.format(absolute=folder.parent / "secret")))
    caught = refused(r"outside the directory .*directory=", kt.load, path, error=LoadError)
    assert (caught.file, caught.line) == (str(path), 2)
    if kind != "model":
        assert kt.load(path, directory=folder.parent).nv == 1


def test_a_folder_of_meshes_lies_in_the_directory(folder: Path) -> None:
    path = folder / "robot.xml"
    path.write_text(OUTSIDE["mesh"].format("secret").replace("<asset>", '<compiler meshdir=".."/><asset>'))
    refused("outside the directory", kt.load, path, error=LoadError)
    assert kt.load(path, directory=folder.parent).nv == 1


@pytest.mark.parametrize("kind", OUTSIDE)
def test_a_text_reads_no_files(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    for name in ("secret", str(folder.parent / "secret"), "nowhere"):
        refused("content given as a string may not read files", kt.load, OUTSIDE[kind].format(name), error=LoadError)
    if kind == "include":
        assert kt.load(OUTSIDE[kind].format("secret"), directory=folder.parent).nv == 1


def test_absent_files_and_files_elsewhere_look_alike(folder: Path) -> None:
    """A file must not find out what there is outside of its directory."""
    path = folder / "robot.xml"
    told = []
    for name in ("../secret", "../nothing"):
        path.write_text(OUTSIDE["include"].format(name))
        caught = refused("outside the directory", kt.load, path, error=LoadError)
        told.append(str(caught).replace("nothing", "secret"))
    assert told[0] == told[1]


@pytest.mark.parametrize("directory", [5, "nowhere", "a\0b"])
def test_the_directory_must_be_one(directory: object) -> None:
    with pytest.raises(InputError, match="is not a"):
        kt.load(file(), directory=directory)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["include", "mesh"])
def test_pipes_devices_and_folders_are_not_read(kind: str, tmp_path: Path) -> None:
    suffix = {"include": ".xml", "mesh": ".stl"}[kind]
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    with (tmp_path / f"huge{suffix}").open("wb") as huge:
        huge.truncate(2**40)
    (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
    path = tmp_path / "robot.xml"
    for name, message in (("pipe", "regular"), ("folder", "directory"), ("huge", "bytes"), ("absent", "not exist")):
        path.write_text(OUTSIDE[kind].format(name))
        refused(message, kt.load, path, error=LoadError)
    path.write_text(OUTSIDE[kind].format("zero"))
    refused("regular", kt.load, path, directory="/", error=LoadError)


def test_meshes_are_read_only_for_inertia(tmp_path: Path) -> None:
    """A mesh of a body with <inertial>, without mass, of the world or in another group may be absent."""
    (tmp_path / "there.stl").write_bytes(tetrahedron())
    path = tmp_path / "robot.xml"
    rest = '<asset><mesh name="m" file="there.stl"/><mesh file="absent.stl"/></asset>'
    rest += '<compiler inertiagrouprange="0 2"/><default><default class="visual"><geom type="mesh" mass="0"/></default>'
    rest += '<default class="light"><geom type="mesh" density="0"/></default></default>'
    inertial = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    inside = (
        '<geom type="mesh" mesh="absent"/>'
        f'<body><joint/>{inertial}<geom type="mesh" mesh="absent"/>'
        '<frame><geom type="mesh" mesh="absent"/></frame></body>'
        '<body><joint/><geom type="mesh" mesh="m"/><geom class="visual" mesh="absent"/></body>'
        '<body childclass="light"><joint/><geom mesh="absent"/><geom type="mesh" mesh="m" density="1000"/></body>'
        '<body><joint/><geom type="mesh" mesh="m"/><geom type="mesh" mesh="absent" group="3"/></body>'
    )
    path.write_text(file(inside, rest))
    robot = kt.load(path)
    masses = [body.mass for body in robot.bodies]
    assert masses == pytest.approx([1.0, 1000 / 6, 1000 / 6, 1000 / 6])
    path.write_text(file(inside, rest).replace('mass="0"', 'mass="1"'))
    refused(r"absent.stl.*does not exist", kt.load, path, error=LoadError)


@pytest.mark.parametrize("choice", ["true", "false", "auto"])
def test_inertias_are_those_of_the_whole_file(choice: str, tmp_path: Path) -> None:
    (tmp_path / "t.stl").write_bytes(tetrahedron(0.3))
    path = tmp_path / "robot.xml"
    inertial = '<inertial pos=".1 0 0" mass="2" diaginertia=".1 .1 .1"/>'
    rest = f'<compiler inertiafromgeom="{choice}"/><asset><mesh name="m" file="t.stl" inertia="exact"/></asset>'
    shapes = '<geom type="mesh" mesh="m" pos="0 .1 0"/><geom type="box" mesh="m" mass=".3"/><site/>'
    inside = (
        f"<body><joint/>{inertial}{shapes}<body>{inertial if choice == 'false' else ''}<joint/>{shapes}</body></body>"
    )
    path.write_text(file(inside, rest + '<option><flag contact="disable"/></option>'))
    whole = kt.from_mujoco(mujoco.MjModel.from_xml_path(str(path)))
    robot = kt.load(path)
    assert robot.with_shapes(()) == whole.with_shapes(())
    for mine, theirs in zip(robot.shapes, whole.shapes, strict=True):
        assert (mine.kind, mine.body, mine.masks) == (theirs.kind, theirs.body, theirs.masks)
        if isinstance(mine, geo.Hull) and isinstance(theirs, geo.Hull):  # MuJoCo's vertices are float32
            corners = [shape.vertices @ shape.placement[:3, :3].T + shape.placement[:3, 3] for shape in (mine, theirs)]
            assert_near(*(each[np.lexsort(each.round(5).T)] for each in corners), bound(6, dtype=np.float32))


# -- includes and attached models --------------------------------------------------------------------------------------


def test_includes_nest_and_name_their_lines(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "robot.xml").write_text('<mujoco><worldbody><include file="parts/arm.xml"/></worldbody></mujoco>')
    (tmp_path / "parts" / "arm.xml").write_text(
        '<mujocoinclude>\n<body name="a"><joint/><geom size=".1"/>\n<include file="hand.xml"/></body></mujocoinclude>'
    )
    hand = tmp_path / "parts" / "hand.xml"
    hand.write_text('<mujocoinclude>\n\n<body name="hand"><joint/><geom size=".1"/></body></mujocoinclude>')
    assert kt.load(tmp_path / "robot.xml").frames == ("world", "a", "hand")
    hand.write_text('<mujocoinclude>\n\n<body name="hand"><joint type="hing"/></body></mujocoinclude>')
    caught = refused("MuJoCo cannot compile it", kt.load, tmp_path / "robot.xml", error=LoadError)
    assert (caught.file, caught.line) == (str(hand), 3)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ('<mujocoinclude><include file="robot.xml"/></mujocoinclude>', "is included twice"),
        ("<mujocoinclude/>", "has no elements"),
        ("<mujocoinclude>", "broken XML"),
        ("", "is empty"),
        ('<!DOCTYPE r [<!ENTITY a "b">]><r><body/></r>', "document types"),
        ('<mujocoinclude><include file="x.xml"><body/></include></mujocoinclude>', "nothing inside"),
        ("<mujocoinclude><include/></mujocoinclude>", "must have file="),
    ],
)
def test_includes_that_are_refused(part: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "robot.xml").write_text('<mujoco><worldbody><include file="part.xml"/></worldbody></mujoco>')
    (tmp_path / "part.xml").write_text(part)
    refused(message, kt.load, tmp_path / "robot.xml", error=LoadError)


def test_copies_are_counted_through_includes(tmp_path: Path) -> None:
    text = '<mujoco><worldbody><replicate count="90"><include file="part.xml"/></replicate></worldbody></mujoco>'
    (tmp_path / "robot.xml").write_text(text)
    (tmp_path / "part.xml").write_text('<r>\n<replicate count="90"><site/></replicate></r>')
    caught = refused("copies included", kt.load, tmp_path / "robot.xml", error=LoadError)
    assert (caught.file, caught.line) == (str(tmp_path / "part.xml"), 2)


def test_attached_models(tmp_path: Path) -> None:
    """They are reduced as well, and count as often as they are attached."""
    hand = file('<body name="hand"><joint name="j"/><geom size=".1"/><geom type="mesh" mesh="m" mass="0"/></body>')
    hand = hand.replace(
        "<worldbody>", '<size nuser_body="2000000000"/><asset><mesh name="m" file="no"/></asset><worldbody>'
    )
    (tmp_path / "hand.xml").write_text(hand)
    text = file(
        '<body name="arm"><joint name="j"/><geom size=".1"/>{}</body>',
        '<asset><model name="h" file="hand.xml"/></asset>',
    )
    path = tmp_path / "robot.xml"
    path.write_text(
        text.format('<attach model="h" body="hand" prefix="l_"/><attach model="h" body="hand" prefix="r_"/>')
    )
    robot = kt.load(path)
    assert [joint.name for joint in robot.joints] == ["j", "l_j", "r_j"]
    path.write_text(text.format('<replicate count="900"><attach model="h" body="hand" prefix="l_"/></replicate>'))
    refused("copies included", kt.load, path, error=LoadError)
    (tmp_path / "hand.xml").write_text(
        file(BODY + '<attach model="h" body="b" prefix="p"/>', '<asset><model name="h" file="hand.xml"/></asset>')
    )
    refused("attached more than 8 deep", kt.load, path, error=LoadError)


def test_parts_and_strangers_are_refused() -> None:
    refused("to be included by others", kt.load, INCLUDED, error=LoadError)
    with pytest.raises(LoadError, match="unrecognized element '<wordbody>' in <mujoco>") as caught:
        kt.load("<mujoco>\n<wordbody/></mujoco>")
    assert caught.value.line == 2
    with pytest.raises(LoadError, match="type hfield gives its body inertia"):
        kt.load(file('<body><joint/><geom type="hfield" hfield="h"/></body>'))
    with pytest.raises(LoadError, match="is of a type that is not read"):
        kt.load(file(MESH_BODY, '<asset><mesh name="m" file="m.dae"/></asset>'))
    with pytest.raises(LoadError, match="made by a plugin"):
        kt.load(file(MESH_BODY, '<asset><mesh name="m"><plugin plugin="p"/></mesh></asset>'))


@pytest.mark.parametrize(
    "text",
    [
        '<mujoco>\n<compiler angel="radian"/></mujoco>',
        '<mujoco>\n<option gravty="0 0 0"/></mujoco>',
        '<mujoco><option>\n<flag gravty="disable"/></option></mujoco>',
        '<mujoco><option>\n<flg gravity="disable"/></option></mujoco>',
        "<mujoco><compiler>\n<lengthrang/></compiler></mujoco>",
        '<mujoco><default>\n<jont damping="1"/></default></mujoco>',
        '<mujoco><default>\n<joint dampng="1"/></default></mujoco>',
        '<mujoco><worldbody><body>\n<joint dampng="1"/><geom size="1"/></body></worldbody></mujoco>',
        "<mujoco><worldbody><body><geom size='1'>\n<joint/></geom></body></worldbody></mujoco>",
        "<mujoco><worldbody>\n<body psition='1'/></worldbody></mujoco>",
        "<mujoco><worldbody><frame>\n<boddy/></frame></worldbody></mujoco>",
    ],
)
def test_what_is_misspelt_is_refused(text: str) -> None:
    """What is left out must be known to have no part in the dynamics."""
    caught = refused("unrecognized", kt.load, text, error=LoadError)
    assert caught.line == 2


def test_mujoco_sees_no_file_names() -> None:
    """What a text names, other than what is read here, does not reach MuJoCo; user data is a number of ours."""
    source = Source.of(ARM)
    reduced = Reduction(source, Directory(source, None), Diagnostics(source.file), collisions=True).content
    for word in ("texture", "file=", "absent", "material", "size ", "nuser", "sensor", "include"):
        assert word not in reduced
