"""Motions as films, and configurations as pictures.

A film is a single HTML file that plays in any browser, without a server or a network, or a video in an .mp4 file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from kinetree.errors import InputError
from kinetree.model.mesh_formats import Visual
from kinetree.model.model import Model
from kinetree.model.shapes import Scene as Surroundings
from kinetree.model.shapes import surroundings
from kinetree.ocp.plan import Plan
from kinetree.runtime.arguments import refuse_lazy
from kinetree.simulation.step_results import Film, Rollout
from kinetree.spatial.value import Array
from kinetree.viewer import browser
from kinetree.viewer import view as servers
from kinetree.viewer.files import own_or_given
from kinetree.viewer.overlays import Overlays, checked_contacts, checked_distances, draw, floats
from kinetree.viewer.scene import Scene

#: Suffixes of films and of pictures.
FILMS, PICTURES = (".html", ".mp4"), (".png", ".jpg")

# With more pictures, browsers take too long to open the file.
_MOST_PICTURES = 20_000


def film(
    path: str | os.PathLike[str],
    robot: Model,
    q: Any,
    time: Any = None,
    *,
    visuals: Any = None,
    package_roots: Sequence[str | os.PathLike[str]] = (),
    ellipsoids: Iterable[str] = (),
    forces: Mapping[str, Any] | None = None,
    center_of_mass: bool = False,
    contacts: Any = None,
    distances: Any = None,
    inertias: bool = False,
    frames: bool = False,
    shapes: bool = False,
    rate: float = 30.0,
    size: tuple[int, int] = (1280, 720),
    force_scale: float | None = None,
    progress: Callable[[float], None] | None = None,
    scene: Surroundings | None = None,
) -> Path:
    """Write a motion as a single, self-contained HTML file, or as a video.

    Args:
        path: Path of the file, which ends in .html or .mp4. An existing file is replaced. Videos need Chromium or
            Chrome, and the extra `video` or ffmpeg; they take about half a second for each picture.
        robot: The mechanism.
        q: Configurations along the motion, (T, nq); a plan of `kinetree.ocp`, with its times and forces; or what
            `Simulator.rollout` or `run` of one robot returns.
        time: Times of the configurations, increasing, (T,) [s]; by default they are spaced at `rate`.
        visuals: As for `View`.
        package_roots: As for `View`.
        ellipsoids: As for `View.show`.
        forces: By frame, in its axes: forces (T, 3) [N] or wrenches, moment first, (T, 6) [N m, N]. Without the first
            axis they are constant.
        center_of_mass: As for `View.show`.
        contacts: `info.contacts` of all samples, such as of `world.step(q, v)` with the states of the motion.
        distances: `robot.distances(q, pairs)` of all samples, or its `nearest(…)`.
        inertias: As for `View.show`.
        frames: As for `View.show`.
        shapes: As for `View.show`.
        rate: Pictures per second. Between samples, the motion is interpolated in the robot's coordinates; forces are
            those of the preceding sample.
        size: Width and height of a video [pixels].
        force_scale: As for `View`.
        progress: Called with the share of the pictures that are drawn, from 0 to 1.
        scene: As for `View`.

    Returns:
        The path.

    Raises:
        InputError: If an argument is invalid.
        ImportError: If viser, or what a video needs, is not installed.
        ViewerError: If a video cannot be drawn.
        LoadError: If the file with the visuals cannot be read.
    """
    target = _checked_path(path, FILMS, "a film")
    names = _names(ellipsoids)
    if isinstance(q, Plan):
        if time is not None or forces is not None:
            raise InputError("a plan brings its own time and forces; show q=plan.q to give others")
        q, time, forces = q.motion()
    elif isinstance(q, (Rollout, Film)):
        if time is not None:
            raise InputError("a simulation brings its own time; show q=path.q to give another")
        q, time = q.q, q.time
    motion = _motion(robot, q)
    times = _times(time, len(motion), rate)
    at = _pictures(times, rate)
    before = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 1)
    samples = _interpolated(robot, motion, times, at, before)
    pushes = {name: _along(name, value, len(motion))[before] for name, value in (forces or {}).items()}
    touching = checked_contacts(contacts, axes=1)
    near = checked_distances(distances, axes=1)
    for name, count in (("contacts", touching and len(touching.pair)), ("distances", near and len(near.distance))):
        if count is not None and count != len(motion):
            raise InputError(f"{name} of {count} samples do not fit the {len(motion)} of the motion")
    width, height = browser.checked_size(size)
    moving = target.suffix.lower() == ".mp4"
    if moving:
        browser.require_browser()
        browser.require_encoder()
    layers = {"inertias": inertias, "frames": frames, "shapes": shapes}
    shown = own_or_given(robot, visuals, package_roots)
    with _stage(robot, shown, samples, layers, force_scale, scene) as (server, stage, overlays):

        def drawn() -> Iterator[None]:
            """Draw one sample after another."""
            for i, sample in enumerate(samples):
                push = {name: each[i] for name, each in pushes.items()}
                now = (
                    None
                    if touching is None
                    else touching._replace(
                        **{name: getattr(touching, name)[before[i]] for name in touching._fields[1:]}
                    )
                )
                lines = near and SimpleNamespace(points=near.points[before[i]], distance=near.distance[before[i]])
                draw(stage, overlays, sample, names, push, center_of_mass, now, lines)
                yield
                if progress is not None:
                    progress((i + 1) / len(samples))

        if moving:
            with browser.pictures(server, width, height) as picture, browser.video(target, width, height, rate) as out:
                for _ in drawn():
                    out.write(picture().tobytes())
            return target
        steps = drawn()
        next(steps)
        recorder = server.get_scene_serializer()  # starts with the current scene
        for _ in steps:
            recorder.insert_sleep(1.0 / rate)
        recorder.insert_sleep(1.0 / rate)
        html: str = recorder.as_html()
    try:
        target.write_text(html, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot be written: {error.strerror}; choose another path") from None
    return target


def picture(
    path: str | os.PathLike[str],
    robot: Model,
    q: Any = None,
    *,
    visuals: Any = None,
    package_roots: Sequence[str | os.PathLike[str]] = (),
    ellipsoids: Iterable[str] = (),
    forces: Mapping[str, Any] | None = None,
    center_of_mass: bool = False,
    contacts: Any = None,
    distances: Any = None,
    inertias: bool = False,
    frames: bool = False,
    shapes: bool = False,
    size: tuple[int, int] = (1280, 720),
    force_scale: float | None = None,
    scene: Surroundings | None = None,
) -> Path:
    """Write a picture of a robot. Needs Chromium or Chrome.

    Args:
        path: Path of the file, which ends in .png or .jpg. An existing file is replaced.
        robot: The mechanism.
        q: Configuration, (nq,); by default that in which `View` shows it first.
        visuals: As for `View`.
        package_roots: As for `View`.
        ellipsoids: As for `View.show`.
        forces: As for `View.show`.
        center_of_mass: As for `View.show`.
        contacts: As for `View.show`.
        distances: As for `View.show`.
        inertias: As for `View.show`.
        frames: As for `View.show`.
        shapes: As for `View.show`.
        size: Width and height [pixels].
        force_scale: As for `View`.
        scene: As for `View`.

    Returns:
        The path.

    Raises:
        InputError: If an argument is invalid.
        ImportError: If viser is not installed.
        ViewerError: If there is no browser, or it does not draw.
        LoadError: If the file with the visuals cannot be read.
    """
    target, names = _checked_path(path, PICTURES, "a picture"), _names(ellipsoids)
    marks = checked_contacts(contacts), checked_distances(distances)
    width, height = browser.checked_size(size)
    _require_model(robot)
    sample = servers.configuration(robot, robot.neutral() if q is None else q)[None]
    browser.require_browser()
    layers = {"inertias": inertias, "frames": frames, "shapes": shapes}
    shown = own_or_given(robot, visuals, package_roots)
    with _stage(robot, shown, sample, layers, force_scale, scene) as (server, stage, overlays):
        if q is None:
            sample = stage.standing()[None]
            stage.aim(sample)
        draw(stage, overlays, sample[0], names, forces or {}, center_of_mass, *marks)
        with browser.pictures(server, width, height) as look:
            colours = look()
    from PIL import Image  # comes with viser

    try:
        Image.fromarray(colours).save(target)
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot be written: {error.strerror}; choose another path") from None
    return target


def standing(robot: Model, package_roots: Sequence[str | os.PathLike[str]] = ()) -> Array:
    """The configuration in which `View` shows a robot first, (nq,): a keyframe, or neutral and on the floor."""
    shown = own_or_given(robot, None, package_roots)
    with _stage(robot, shown, robot.neutral()[None], {}, None, None) as (_, stage, _):
        return stage.standing()


@contextmanager
def _stage(
    robot: Model, shown: Sequence[Visual], samples: Array, layers: Mapping[str, bool], force_scale: float | None,
    around: Any,
) -> Iterator[tuple[Any, Scene, Overlays]]:  # fmt: skip
    """A server with the robot and what is around it, and a camera that sees all samples, (T, nq)."""
    shapes = surroundings(around)
    server = servers.start(0, robot.name)
    try:
        scene = Scene(server, robot, shown, shapes)
        overlays = Overlays(scene, force_scale)
        scene.aim(samples)
        for layer, visible in layers.items():
            scene.show_layer(layer, visible)
        yield server, scene, overlays
    finally:
        servers.stop(server)


def _checked_path(path: str | os.PathLike[str], suffixes: Sequence[str], what: str) -> Path:
    if Path(path).suffix.lower() not in suffixes:
        raise InputError(f"{os.fspath(path)}: {what} is written as {' or '.join(suffixes)}; choose such a name")
    return Path(path)


def _names(ellipsoids: Iterable[str]) -> tuple[str, ...]:
    if isinstance(ellipsoids, str):
        raise InputError(f"ellipsoids={ellipsoids!r} is one name; pass a list of them")
    return tuple(ellipsoids)


def _require_model(robot: Any) -> None:
    if not isinstance(robot, Model):
        raise InputError(f"robot is a kinetree.Model, got {type(robot).__name__}; load files first: kt.load(path)")


def _motion(robot: Model, q: Any) -> Array:
    refuse_lazy("q", q)
    _require_model(robot)
    motion = floats(q, "q is not made of real numbers")
    if motion.ndim != 2 or motion.shape[1] != robot.nq or not len(motion):
        one = "; show one of several motions: q[0], or path.q[0] and path.time" if motion.ndim > 2 else ""
        raise InputError(f"q has shape {motion.shape}; a film takes (T, {robot.nq}), T at least one{one}")
    if not np.all(np.isfinite(motion)):
        bad = int(np.argmin(np.all(np.isfinite(motion), axis=1)))
        raise InputError(f"q has NaN or infinite entries in sample {bad}, which cannot be drawn")
    return motion


def _times(time: Any, count: int, rate: float) -> Array:
    if not (np.isfinite(rate) and rate > 0.0):
        raise InputError(f"rate={rate!r} is not a positive number of pictures per second")
    if time is None:
        return np.arange(count) / rate
    times = floats(time, "time is not made of numbers")
    if times.shape != (count,):
        raise InputError(f"time has shape {times.shape}; q has {count} samples")
    if not (np.all(np.isfinite(times)) and np.all(np.diff(times) > 0.0)):
        raise InputError("time does not increase from sample to sample")
    return times


def _pictures(times: Array, rate: float) -> Array:
    """Times of the pictures: evenly spaced from the first sample to the last."""
    count = int(min((times[-1] - times[0]) * rate, float(_MOST_PICTURES)) + 1e-9) + 1
    if count > _MOST_PICTURES:
        raise InputError(f"the film would have more than {_MOST_PICTURES} pictures; lower rate=, or cut the motion")
    at: Array = times[0] + np.arange(count) / rate
    return at


def _interpolated(robot: Model, motion: Array, times: Array, at: Array, before: Array) -> Array:
    """Configurations at the times of the pictures, interpolated between samples along the path of `integrate`."""
    after = np.minimum(before + 1, len(times) - 1)
    span = np.where(after > before, times[after] - times[before], 1.0)
    share = np.clip((at - times[before]) / span, 0.0, 1.0)
    samples: Array = robot.integrate(motion[before], robot.difference(motion[before], motion[after]), share)
    return samples


def _along(name: str, value: Any, count: int) -> Array:
    forces = floats(value, f"the force at {name!r} is not made of numbers")
    if forces.ndim == 1:
        forces = np.broadcast_to(forces, (count, len(forces)))
    if forces.ndim != 2 or forces.shape[0] != count or forces.shape[1] not in (3, 6):
        raise InputError(f"the forces at {name!r} have shape {forces.shape}; pass ({count}, 3) or ({count}, 6)")
    return forces
