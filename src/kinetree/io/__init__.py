"""Robots from files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kinetree.errors import LoadError
from kinetree.io.options import Diagnostics, Options
from kinetree.io.source import Source, clipped, usd_file
from kinetree.model.model import Model


def load(
    source: str | os.PathLike[str] | bytes,
    *,
    floating_base: bool = False,
    root: str | None = None,
    mimic: str = "couple",
    loops: str = "embed",
    near: Mapping[str, Any] | None = None,
    lock: Mapping[str, Any] | None = None,
    joint_order: Sequence[str] | None = None,
    gravity: Any = None,
    directory: str | os.PathLike[str] | None = None,
    xacro: Mapping[str, Any] | None = None,
    snap_angles: bool = False,
    package_roots: Sequence[str | os.PathLike[str]] = (),
    shapes: str | None = "collision",
) -> Model:
    """Load a robot from a URDF, SDF, MJCF or USD file; the format is detected from the content, for USD from the name.

    A `ModelWarning` with file and line reports what can be loaded but deserves attention: mimic joints, moving links
    without mass, unphysical inertias, and elements that are not read.

    A URDF or SDF file opens no other file until a shape needs its mesh. An MJCF file opens the files that it includes
    or attaches and the meshes that define a body's inertia, all below one directory; a USD file the layers that it is
    composed of.

    Args:
        source: A path, or the content of a file: a string that starts with "<" is content.
        floating_base: Whether root links float, on a joint "root_joint"; otherwise they are fixed to the world.
        root: Load only this link and its descendants. By default everything is loaded; several roots make a forest.
        mimic: "couple" makes mimic joints follow the joints they mimic, as the file says: they have no coordinates in
            q and v. "independent" gives them coordinates of their own; "lock" fixes them at the position that follows
            from the neutral or locked position of the joints they mimic. Joint equalities of MJCF are treated alike.
        loops: What becomes of closed loops, MuJoCo's equality constraints, or SDF joints to a link that has a parent:
            "embed" builds them into the coordinates, which are those of independent joints; "multipliers" keeps the
            open tree, and makes them constraints, `robot.equalities`, for `constrained_dynamics` and `Simulator`;
            "ignore" leaves them out. Couplings of joints come with them.
        near: Coordinates of joints, by name, near which loops are closed. By default the first keyframe of an MJCF
            file, else zero.
        lock: Joints to fix, by name, with their configurations.
        joint_order: Names of moving joints in the desired order of their coordinates. Coordinates are ordered depth
            first, so only whole branches can be reordered; an order that would split a branch is refused
            (`Model.joint_indices` permutes coordinates into any order). Joints not named come last.
        gravity: Acceleration of free fall in the world frame, (3,) [m/s²]. By default that of the file, or
            (0, 0, −9.81).
        directory: No file outside this directory is read, even through links. By default that of the file. Content
            given as a string reads no files unless a directory is given, which relative names then start from.
        xacro: Arguments of a xacro file, by name; {} if it has none. This permits expanding the file, which evaluates
            its expressions and reads any file that it includes: only for files that you trust.
        snap_angles: Whether angles of URDF and SDF files that are quarter turns up to the rounding of their last
            written digit, and to 1e-6 rad, become quarter turns, such as 1.57079632679. This makes the dynamics of some
            robots cheaper and moves bodies by that much; how many angles and how far is logged (INFO).
        package_roots: Directories that contain the robot's packages, where meshes of its shapes may lie, besides that
            of the file. They are read when a shape needs them.
        shapes: What `robot.shapes` has: "collision", what the file lets collide; "visual", what is seen, for URDF and
            SDF files without collision shapes; None, nothing.

    Returns:
        The model.

    Raises:
        LoadError: If the file is invalid; names its line.
        InputError: If an argument is invalid.
    """
    options = Options.checked(
        floating_base, root, mimic, loops, lock, joint_order, gravity, directory, xacro, snap_angles, near,
        package_roots, shapes,
    )  # fmt: skip
    stage = usd_file(source)
    if stage is not None:
        from kinetree.io.usd import load_usd

        diagnostics = Diagnostics(str(stage))
        model = load_usd(stage, options, diagnostics)
        diagnostics.warn(stacklevel=2)
        return model._edited(source=str(stage.absolute()))
    text = Source.of(source)
    if options.xacro is not None:
        from kinetree.io.urdf import expanded

        text = expanded(text, options.xacro)
    diagnostics = Diagnostics(text.file)
    read = _reader(text.root.rpartition(":")[2])
    if read is None:
        raise LoadError(
            f"starts with {clipped('<' + text.root + '>')}; a URDF starts with <robot>, an MJCF with <mujoco>, an SDF "
            "with <sdf>",
            text.file,
        )
    model = read(text, options, diagnostics)
    diagnostics.warn(stacklevel=2)
    return model if text.path is None else model._edited(source=str(text.path.absolute()))


@lru_cache
def _reader(root: str) -> Callable[[Source, Options, Diagnostics], Model] | None:
    """The function that reads files with this root element, imported when the first one is read; None if none does."""
    if root == "robot":
        from kinetree.io.urdf import load_urdf

        return load_urdf
    if root in ("mujoco", "mujocoinclude"):
        from kinetree.io.mjcf_convert import load_mjcf

        return load_mjcf
    if root == "sdf":
        from kinetree.io.sdf import load_sdf

        return load_sdf
    return None
