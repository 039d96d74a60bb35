"""Ways to spoil a robot's file."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

#: A small robot with every kind of joint and everything that is read.
ROBOT = """<?xml version="1.0" encoding="utf-8"?>
<robot name="seed">
  <material name="grey"><color rgba="0.5 0.5 0.5 1"/></material>
  <link name="base">
    <inertial>
      <origin xyz="0.1 0 0.2" rpy="0.1 0.2 0.3"/>
      <mass value="3.5"/>
      <inertia ixx="0.1" ixy="0.01" ixz="0" iyy="0.12" iyz="0" izz="0.09"/>
    </inertial>
    <visual><geometry><mesh filename="package://nowhere/base.stl" scale="1 1 1"/></geometry></visual>
  </link>
  <link name="upper"><inertial><mass value="2"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <link name="fore"><inertial><mass value="1"/><inertia ixx="0.02" iyy="0.02" izz="0.02"/></inertial></link>
  <link name="hand"/>
  <link name="left"><inertial><mass value="0.1"/><inertia ixx="1e-3" iyy="1e-3" izz="1e-3"/></inertial></link>
  <link name="right"><inertial><mass value="0.1"/><inertia ixx="1e-3" iyy="1e-3" izz="1e-3"/></inertial></link>
  <link name="ball"><inertial><mass value="0.5"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <link name="puck"><inertial><mass value="0.5"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <link name="bird"><inertial><mass value="0.5"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <joint name="shoulder" type="revolute">
    <parent link="base"/><child link="upper"/>
    <origin xyz="0 0 0.5" rpy="0 1.57 0"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" velocity="3" effort="40"/><dynamics damping="0.1" friction="0.2"/>
  </joint>
  <joint name="elbow" type="continuous">
    <parent link="upper"/><child link="fore"/><origin xyz="0.4 0 0"/><axis xyz="1 2 3"/>
  </joint>
  <joint name="wrist" type="fixed"><parent link="fore"/><child link="hand"/></joint>
  <joint name="finger" type="prismatic">
    <parent link="hand"/><child link="left"/><limit lower="0" upper="0.04" velocity="1" effort="20"/>
  </joint>
  <joint name="thumb" type="prismatic">
    <parent link="hand"/><child link="right"/><limit lower="0" upper="0.04" velocity="1" effort="20"/>
    <mimic joint="finger" multiplier="-1" offset="0.01"/>
  </joint>
  <joint name="socket" type="spherical"><parent link="base"/><child link="ball"/></joint>
  <joint name="table" type="planar"><parent link="base"/><child link="puck"/><axis xyz="0 0 1"/></joint>
  <joint name="air" type="floating"><parent link="base"/><child link="bird"/></joint>
  <gazebo reference="base"><mu1>0.2</mu1></gazebo>
</robot>
"""

NUMBERS = (
    "nan", "NaN", "inf", "-inf", "1e400", "-1e400", "1e308", "-1e308", "1e-320", "0", "-0", "1e100", "1e99",
    "1_0", "0x10", "1,5", "١", "∞", "${x}", "$(arg)", "1e", "1.2.3", "--", "+1", "1e16", "-1",
    "99999999999999999999", "1e-9",
)  # fmt: skip
_JUNK = (
    "\0",
    "<",
    ">",
    "&",
    '"',
    "'",
    "&lol;",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<?xml",
    "\ud800",
    "\uffff",
    "é",
    "\x0b",
)
_DOCTYPES = (
    '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>',
    '<!DOCTYPE r SYSTEM "file:///etc/passwd">',
    '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///dev/zero">]>',
    '<!DOCTYPE r [<!ATTLIST link name CDATA "base">]>',
)
_VALUE = re.compile(r'="([^"]*)"')
_NUMERIC = re.compile(r'(?<=["\s])-?\d[\d.e-]*(?=["\s])')


@dataclass(frozen=True)
class Dialect:
    """A format."""

    tags: tuple[str, ...]  # names of elements, of this format and of none
    types: tuple[str, ...]  # values of `type=`
    elements: tuple[str, ...]  # names of elements that are moved about as a whole
    root: str  # how the root element starts
    inside: str  # how an element starts in front of which others can stand
    numbers: tuple[str, ...] = NUMBERS  # values that are no number, or too great a one
    values: tuple[str, ...] = ("world", "base", "")  # others that matter


URDF = Dialect(
    tags=(
        "robot", "link", "joint", "inertial", "mass", "inertia", "origin", "parent", "child", "axis", "limit",
        "dynamics", "mimic", "visual", "xacro:if", "a:b",
    ),
    types=(
        "revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical", "ball", "screw",
        "REVOLUTE",
    ),
    elements=("link", "joint"),
    root="<robot",
    inside="<link",
)  # fmt: skip

Mutation = Callable[[random.Random, str, Dialect], str]


def _slice(rng: random.Random, text: str) -> tuple[int, int]:
    start = rng.randrange(len(text) + 1)
    return start, min(len(text), start + int(rng.expovariate(0.02)))


def truncate(rng: random.Random, text: str, _: Dialect) -> str:
    return text[: rng.randrange(len(text) + 1)]


def cut(rng: random.Random, text: str, _: Dialect) -> str:
    start, end = _slice(rng, text)
    return text[:start] + text[end:]


def repeat(rng: random.Random, text: str, _: Dialect) -> str:
    start, end = _slice(rng, text)
    return text[:end] + text[start:end] * rng.choice((1, 1, 2, 50)) + text[end:]


def move(rng: random.Random, text: str, _: Dialect) -> str:
    start, end = _slice(rng, text)
    piece, rest = text[start:end], text[:start] + text[end:]
    place = rng.randrange(len(rest) + 1)
    return rest[:place] + piece + rest[place:]


def _swapped(
    rng: random.Random, text: str, pattern: re.Pattern[str], group: int, new: Callable[[list[str]], str]
) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    one = rng.choice(found)
    return text[: one.start(group)] + new([each[group] for each in found]) + text[one.end(group) :]


def number(rng: random.Random, text: str, dialect: Dialect) -> str:
    return _swapped(rng, text, _NUMERIC, 0, lambda _: rng.choice(dialect.numbers))


def value(rng: random.Random, text: str, _: Dialect) -> str:
    """Another attribute's value: cycles, two parents, duplicate and missing names."""
    return _swapped(rng, text, _VALUE, 1, rng.choice)


def kind(rng: random.Random, text: str, dialect: Dialect) -> str:
    pattern = re.compile(rf'type="({"|".join(dialect.types)})"')
    return _swapped(rng, text, pattern, 1, lambda _: rng.choice(dialect.types))


def tag(rng: random.Random, text: str, dialect: Dialect) -> str:
    return _swapped(rng, text, re.compile(r"</?([a-z]+)\b"), 1, lambda _: rng.choice(dialect.tags))


def renamed(rng: random.Random, text: str, dialect: Dialect) -> str:
    """Every occurrence of one tag or value, so that the file stays well formed."""
    old = rng.choice([match[1] or match[2] for match in re.finditer(r'<([a-z]+)\b|="([^"]+)"', text)] or ["x"])
    return text.replace(old, rng.choice((*dialect.tags, *dialect.numbers, *dialect.values)))


def element(rng: random.Random, text: str, dialect: Dialect) -> str:
    """Delete, double or move a whole element."""
    names = "|".join(dialect.elements)
    found = list(re.finditer(rf"<({names})\b.*?</\1>|<[a-z]+ [^<>]*/>", text, re.DOTALL))
    if not found:
        return text
    one, other = rng.choice(found), rng.choice(found)
    piece = "" if rng.random() < 0.3 else one[0]
    return text[: other.start()] + piece + (text[other.start() :] if rng.random() < 0.5 else text[other.end() :])


def junk(rng: random.Random, text: str, _: Dialect) -> str:
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice(_JUNK) * rng.choice((1, 1, 3, 100)) + text[place:]


def doctype(rng: random.Random, text: str, dialect: Dialect) -> str:
    place = text.find(dialect.root)
    return text[: max(place, 0)] + rng.choice(_DOCTYPES) + text[max(place, 0) :].replace("base", "&c;")


def nest(rng: random.Random, text: str, dialect: Dialect) -> str:
    place, depth = text.find(dialect.inside), rng.choice((10, 200, 300, 20_000))
    return text[: max(place, 0)] + "<a>" * depth + "</a>" * rng.choice((depth, 0)) + text[max(place, 0) :]


def swell(rng: random.Random, text: str, _: Dialect) -> str:
    """A value of up to eleven megabytes."""
    size = rng.choice((2_000, 200_000, 200_000, 11_000_000 if rng.random() < 0.02 else 1_000))
    return _swapped(rng, text, _VALUE, 1, lambda _: rng.choice("9x ") * size)


#: What keeps a file well formed, mostly, so that errors lie deeper.
MEANINGFUL: tuple[Mutation, ...] = (number, value, kind, renamed, element)

MUTATIONS: tuple[Mutation, ...] = (*MEANINGFUL, truncate, cut, repeat, move, tag, junk, doctype, nest, swell)

ENCODINGS = (*["utf-8"] * 24, "utf-8-sig", "utf-16", "utf-32", "latin-1", "utf-16-le", "cp037")


def mutated(rng: random.Random, seeds: tuple[str, ...] = (ROBOT,), dialect: Dialect = URDF) -> bytes:
    """The bytes of a file that was spoilt a few times."""
    text = rng.choice(seeds)
    gentle = rng.random() < 0.5
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        text = rng.choice(MEANINGFUL if gentle else MUTATIONS)(rng, text, dialect)
    if gentle:
        return text.encode()
    data = text.encode(rng.choice(ENCODINGS), "replace" if rng.random() < 0.5 else "ignore")
    if rng.random() < 0.1:
        spoilt = bytearray(data)
        for _ in range(rng.randrange(1, 20)):
            if spoilt:
                spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
        data = bytes(spoilt)
    return data
