"""Excluded bodies and pairs of geoms of MJCF files: the same geoms collide as in MuJoCo."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import kinetree as kt
from kinetree import geometry as geo
from kinetree import simulation
from kinetree.errors import LoadError, ModelWarning
from kinetree.model import collision_pairs as reasons
from kinetree.model.pair_rules import PairRules
from tests.oracle import oracle

mujoco = oracle("mujoco")

# all geoms overlap each other, and the floor
CHAIN = """<mujoco model="chain"><worldbody>
<geom name="floor" type="plane" size="1 1 1"/>
<body name="a"><freejoint/><geom name="a" size=".2"/>
  <geom name="ghost" type="box" size=".1 .1 .1" contype="0" conaffinity="0"/>
  <body name="b"><joint/><geom name="b" size=".2"/>
    <body name="c"><joint axis="0 1 0"/><geom name="c" size=".2"/><geom size=".1"/>
      <body name="d"><joint/><geom name="d" size=".2" contype="2" conaffinity="2"/></body>
    </body>
  </body>
</body></worldbody><contact>{}</contact></mujoco>"""
CONTACTS = [
    "",
    '<exclude body1="a" body2="c"/>',
    '<exclude body1="c" body2="a"/><exclude name="again" body1="a" body2="c"/>',
    '<exclude body1="world" body2="a"/>',
    '<pair geom1="a" geom2="b"/>',
    '<pair geom1="d" geom2="a" condim="1" friction="1 1 1 1 1"/>',
    '<pair geom1="c" geom2="a"/><exclude body1="a" body2="c"/>',
    '<pair geom1="ghost" geom2="d"/>',
    '<pair geom1="floor" geom2="d"/><pair geom1="b" geom2="a"/><exclude body1="world" body2="c"/>',
]


def their_pairs(text: str) -> set[frozenset[str]]:
    """The geoms that MuJoCo lets collide, where all overlap."""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    names = [model.geom(i).name or model.body(model.geom_bodyid[i]).name + "_1" for i in range(model.ngeom)]
    return {frozenset(names[int(geom)] for geom in contact.geom) for contact in data.contact}


def my_pairs(robot: kt.Model) -> set[frozenset[str]]:
    return set(map(frozenset, robot.collision_pairs(keep_colliding=True)))


@pytest.mark.parametrize("contacts", CONTACTS)
def test_the_same_geoms_collide(contacts: str) -> None:
    text = CHAIN.format(contacts)
    robot = kt.load(text)
    theirs = their_pairs(text)
    assert my_pairs(robot) == theirs
    other = kt.from_mujoco(mujoco.MjModel.from_xml_string(text))
    assert (other.pair_rules, other.shapes) == (robot.pair_rules, robot.shapes)
    written = kt.to_mjcf(robot)
    assert ("<contact>" in written) == bool(contacts)
    assert their_pairs(written) == theirs
    assert kt.load(written).pair_rules == robot.pair_rules


RULES = '<exclude body1="a" body2="c"/><pair geom1="c" geom2="a"/><pair geom1="ghost" geom2="d"/>'


def test_reasons() -> None:
    robot = kt.load(CHAIN.format(RULES))
    assert robot.pair_rules.excluded == (("a", "c"),)
    pairs = robot.collision_pairs(scene=kt.Scene([geo.Sphere("ball", (0, 0, 0), 1.0)]), keep_colliding=True)
    assert pairs.excluded["a", "c_1"] == reasons.EXCLUDED == "excluded by the file"
    assert pairs.excluded["ball", "ghost"] == reasons.MASKED  # it collides with nothing else
    assert {("a", "c"), ("d", "ghost"), ("d", "ball")} <= set(pairs)


def test_an_srdf_file_outweighs_pairs(tmp_path: Any) -> None:
    file = tmp_path / "chain.srdf"
    file.write_text('<robot name="chain"><disable_collisions link1="a" link2="c"/></robot>')
    pairs = kt.load(CHAIN.format(RULES)).collision_pairs(srdf=file, keep_colliding=True)
    assert pairs.excluded["a", "c"] == reasons.DISABLED


def test_edited_robots_keep_them() -> None:
    robot = kt.load(CHAIN.format(RULES))
    mine = my_pairs(robot)
    assert pickle.loads(pickle.dumps(robot)) == robot
    assert robot != robot._edited(pair_rules=PairRules())
    locked = robot.reduced({robot.joints[-1].name: 0.0})
    assert locked.pair_rules == robot.pair_rules
    assert robot.astype("float32").pair_rules == robot.pair_rules
    assert my_pairs(robot.with_shapes(geo.simplified(robot.shapes))) == mine
    some = robot.with_shapes([shape for shape in robot.shapes if shape.name != "ghost"])
    assert some.pair_rules == PairRules((("a", "c"),), tuple(p for p in robot.pair_rules.included if "ghost" not in p))
    part = robot.subtree("b")
    assert part.pair_rules == PairRules()
    both = robot.attach("world", robot, prefix="x_")
    theirs = {frozenset(f"x_{name}" for name in pair) for pair in mine}
    own = {pair for pair in my_pairs(both) if len({name.startswith("x_") for name in pair}) == 1}
    assert own == mine | theirs
    on_world = kt.load(CHAIN.format('<exclude body1="world" body2="a"/>'))
    assert robot.attach("d", on_world, prefix="x_").pair_rules.excluded == (("a", "c"), ("d", "x_a"))


def test_simulations_keep_to_them() -> None:
    text = CHAIN.format(RULES).replace('<body name="c">', '<body name="c" pos="1 0 0">')
    for contacts, there in (("", True), ('<exclude body1="a" body2="c"/>', False), (RULES, True)):
        robot = kt.load(text.replace(RULES, contacts))
        world = simulation.Simulator(robot, contacts="discover")
        q = robot.neutral()
        q[2] = 1.0
        _, _, info = world.step(q, [0.0] * robot.nv)
        assert info.contacts is not None
        assert (frozenset("ac") in set(map(frozenset, info.contacts.names))) == there


def test_pairs_of_meshes_are_kept_and_unknown_names_refused() -> None:
    mesh = '<asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset><worldbody>'
    text = CHAIN.format('<pair geom1="hull" geom2="a"/><pair geom1="a" geom2="b"/>').replace("<worldbody>", mesh)
    text = text.replace("<freejoint/>", '<freejoint/><geom name="hull" type="mesh" mesh="m"/>')
    assert kt.load(text).pair_rules.included == (("hull", "a"), ("a", "b"))
    with pytest.raises(LoadError, match="nobody"):
        kt.load(CHAIN.format('<exclude body1="a" body2="nobody"/>'))
    with pytest.raises(LoadError, match="excluded"):
        kt.load(CHAIN.format('<excluded body1="a" body2="b"/>'))


def test_what_is_written_is_what_there_is() -> None:
    robot = kt.load(CHAIN.format(RULES))
    ball = geo.Box("ghost", (0.2, 0.2, 0.2), rounding=0.01, body="a")
    hull = robot.with_shapes([ball, geo.Hull("d", "d.dae"), *robot.shapes[:2], *robot.shapes[3:5]])
    with pytest.warns(ModelWarning, match="hull 'd'"):
        text = kt.to_mjcf(hull)
    assert '<pair geom1="a" geom2="c"/>' in text
    assert "ghost" not in text.split("<contact>")[1]
