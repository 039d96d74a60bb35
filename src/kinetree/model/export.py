"""Exports functions of a robot as C99 source code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from kinetree.algorithms.methods import inertia, inverse_inertia
from kinetree.algorithms.methods.choice import choose, view_of
from kinetree.algorithms.tasks.task_space import TaskKinds
from kinetree.compiler.c99.source import SCALARS, Composed, CSource, Declared, Exported
from kinetree.errors import InputError, UnknownNameError, UnsupportedError
from kinetree.language.algorithm import Algorithm
from kinetree.language.common_frame import in_view
from kinetree.language.mechanism import Mechanism, Site
from kinetree.model.configurations import Configurations
from kinetree.model.singularity import require_invertible, require_mass
from kinetree.runtime.function import FrameFunction
from kinetree.runtime.kernels import bind
from kinetree.tasks.task_types import CenterOfMassTask, RelativeTask, Task, read_tasks, sites_of

#: Functions of task frames, with their descriptions.
TASK_FUNCTIONS = {
    "inverse_inertia": (inverse_inertia, "Inverse operational-space inertia of all rows of all tasks together."),
    "inertia": (
        inertia,
        "Operational-space inertia of all rows of all tasks together; spread estimates its squared weighted norm.",
    ),
}


def export_c(
    robot: Configurations,
    functions: Iterable[str],
    names: Sequence[str],
    directory: Any,
    frames: Any,
    pairs: Any,
    scalar: str | None,
    version: str,
) -> tuple[Path, Path]:
    """Write a header and a source file, see `Model.export_c`; `names` are those of all functions of the robot."""
    if scalar is not None:
        if scalar not in tuple(SCALARS):  # also of what has no hash
            raise UnknownNameError("scalar", scalar, tuple(SCALARS))
        robot = robot.astype(SCALARS[scalar].name)  # raises if a number of the model is out of its range
    wanted = tuple(dict.fromkeys([functions] if isinstance(functions, str) else functions))
    if not wanted:
        raise InputError("export_c: functions is empty; name at least one")
    sites = _sites(robot, wanted, frames)
    of_frames = (
        bool(sites)
        or "distances" in wanted
        or any(isinstance(getattr(robot, name, None), FrameFunction) for name in wanted)
    )
    reaching = robot.mechanism.reaching if of_frames else None
    mechanism = robot.mechanism if reaching is None else reaching
    quantities = [
        _distances(robot, pairs) if name == "distances" else _quantity(robot, mechanism, name, names, sites)
        for name in wanted
    ]
    provenance = [
        f"{robot.name}: {', '.join(wanted)}",
        "",
        f"Written by Kinetree {version}. To change it, export it again.",
    ]
    return CSource(robot.name, mechanism, quantities, provenance, _labels(robot, mechanism)).write(directory)


def _sites(robot: Configurations, functions: Sequence[str], frames: Any) -> tuple[Site, ...]:
    """The frames of a call; tasks are allowed if all functions of frames are functions of tasks."""
    if not frames:
        return ()
    named: list[Any] = [frames] if isinstance(frames, (str, Task, RelativeTask, CenterOfMassTask)) else list(frames)
    if all(isinstance(frame, str) for frame in named):
        return tuple(robot.site(frame) for frame in named)
    for name in functions:
        if name not in TASK_FUNCTIONS and isinstance(getattr(robot, name, None), FrameFunction):
            raise InputError(
                f"export_c: {name} is a function of frames, which are given by name; export it separately from "
                f"functions of tasks ({', '.join(TASK_FUNCTIONS)})"
            )
    return tuple(site for task in read_tasks(named, "frames") for site in sites_of(task, robot.site))


def _labels(robot: Configurations, mechanism: Mechanism) -> list[str]:
    """For each node, its body and the joint that carries it."""
    joints: dict[int, str] = {}
    for joint in robot.joints:
        joints.update(dict.fromkeys(range(joint.v_start, joint.v_start + joint.nv), joint.name))
    starts = mechanism.v_starts
    found = [(body, joints.get(start, body)) for body, start in zip(mechanism.names, starts, strict=False)]
    return [body if joint == body else f"{body} (joint {joint})" for body, joint in found]


def _quantity(
    robot: Configurations, mechanism: Mechanism, name: str, names: Sequence[str], frames: tuple[Site, ...]
) -> Exported:
    if name in TASK_FUNCTIONS:
        if not frames:
            raise InputError(f"export_c: {name} needs frames: export_c([{name!r}], frames=[…])")
        require_invertible(robot.mechanism)
        parts = TaskKinds.of(frames)
        if parts.mass:
            require_mass(robot.mechanism)
        make, text = TASK_FUNCTIONS[name]
        method = choose(mechanism, frames)
        recursion = in_view(make(method, "local", parts), mechanism, view_of(frames, method))
        return _sampled(robot, mechanism, name, recursion, frames, text)
    exportable = (*names, *TASK_FUNCTIONS, "distances")
    if name not in exportable:
        raise UnknownNameError("function", name, exportable)
    function = attrgetter(name)(robot)
    function.require()
    if function.mechanism.kinds != robot.mechanism.kinds:  # each fixed joint is a node there
        raise UnsupportedError(
            f"export_c: {name} of robots with fixed joints cannot be exported, since C code merges them"
        )
    sites: tuple[Site, ...] = ()
    if isinstance(function, FrameFunction):
        sites = frames or tuple(robot.site(frame) for frame in robot.frames)
    return _sampled(robot, mechanism, name, function.algorithm, sites, _summary(function.__doc__ or name))


def _distances(robot: Any, pairs: Any) -> Composed:
    """Distances of shapes: their poses, then a kernel."""
    if pairs is None and robot.shapes:
        pairs = robot.collision_pairs()
    if not pairs:
        raise InputError(f"export_c: {robot.name!r} has no pairs of shapes; give it some with robot.with_shapes(…)")
    placed, narrow = robot._distance_parts(pairs, True)
    count, q = len(pairs), robot.random_configuration(np.random.default_rng(0))
    shapes = {"distance": (count,), "normal": (3, count), "points": (2, 3, count)}
    own = [Declared("q", (robot.nq,), True), *(Declared(name, shape, False) for name, shape in shapes.items())]
    parts = [
        (Exported("distances_poses", placed.algorithm, placed.sites), ["q", "poses"]),
        (
            Exported("distances_of_poses", narrow.algorithm, (), mechanism=narrow.mechanism),
            ["poses", "sizes", "poses", "sizes", *shapes],
        ),
    ]
    named = ", ".join(f"{a} and {b}" for a, b in pairs.names)
    text = f"Signed distances of pairs of shapes, normals from the second to the first, nearest points: {named}."
    arrays, sample = {"poses": 16 * len(pairs.shapes)}, ([q], robot._distance_function(pairs, True)(q))
    return Composed("distances", text, own, parts, arrays, {"sizes": pairs.sizes}, sample)


def _summary(docstring: str) -> str:
    """The first paragraph of a docstring."""
    paragraph = " ".join(docstring.strip().split("\n\n")[0].split())
    return paragraph.replace("`", "").replace("(…, ", "(").replace("(…)", "a number")


def _sampled(
    robot: Configurations, mechanism: Mechanism, name: str, algorithm: Algorithm, sites: tuple[Site, ...], text: str
) -> Exported:
    """The function, with the native engine's results for a random state."""
    rng = np.random.default_rng(0)
    sizes = algorithm.sizes(mechanism, sites)
    inputs = [
        robot.random_configuration(rng) if argument.name == "q" else rng.uniform(-1.0, 1.0, argument.shape(sizes))
        for argument in algorithm.inputs
        if sites or "frames" not in argument.dimensions
    ]
    results = bind(algorithm, mechanism, sites, name)(*inputs)
    outputs = results if isinstance(results, tuple) else (results,)
    return Exported(name, algorithm, sites, text, (inputs, outputs))
