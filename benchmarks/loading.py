"""How long a robot's file takes to become a model, against Pinocchio's reader of the same file."""

from __future__ import annotations

import warnings

import pinocchio as pin

import kinetree as kt
from benchmarks import robots
from benchmarks.table import Table
from benchmarks.timing import race
from kinetree.errors import ModelWarning

#: Files below `robots.share()`.
FILES = {
    "Panda": "panda_description/urdf/panda.urdf",
    "ANYmal": "anymal_c_simple_description/urdf/anymal.urdf",
    "G1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "Talos": "talos_data/robots/talos_reduced.urdf",
    "Talos, all joints": "talos_data/robots/talos_full_v2.urdf",
    "TIAGo, two arms": "tiago_description/robots/tiago_dual.urdf",
}


def table(seconds: float) -> Table:
    """Times of `kinetree.load` and `pinocchio.buildModelFromUrdf`, from the path to the model.

    Args:
        seconds: How long to go on for each contender.
    """
    found = Table("Loading a URDF", ["robot", "links", "kB", "Kinetree", "Pinocchio", "Pinocchio takes"])
    for name, file in FILES.items():
        path = robots.share() / file
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)
            links = len(kt.load(path).bodies)
            times = race(
                {
                    "Kinetree": (kt.load, [(str(path),)]),
                    "Pinocchio": (pin.buildModelFromUrdf, [(str(path),)]),
                },
                seconds,
            )
        found.add(
            name,
            str(links),
            f"{path.stat().st_size / 1e3:.0f}",
            f"{times['Kinetree'] * 1e3:.2f} ms",
            f"{times['Pinocchio'] * 1e3:.2f} ms",
            f"{times['Pinocchio'] / times['Kinetree']:.2f}×",
        )
    return found
