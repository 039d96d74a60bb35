"""The options of `load`, validated, and the warnings that it collects about a file."""

from __future__ import annotations

import logging
import math
import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import InputError, ModelWarning

# of each kind of finding, this many are listed; the rest are counted
_LISTED = 40


class Diagnostics:
    """Collects findings about one file, and reports one `ModelWarning` for each kind, with the first of them."""

    def __init__(self, file: str, listed: int = _LISTED) -> None:
        self.file, self._most = file, listed
        self._listed: dict[str, list[str]] = {}
        self._unread: dict[str, list[int]] = {}

    def add(self, kind: str, what: str, line: int | None = None) -> None:
        """Add a finding; its kind is the title of a list, with possible remedies."""
        self._listed.setdefault(kind, []).append(what if line is None else f"{what} (line {line})")

    def unread(self, what: str, line: int) -> None:
        """Add an element or attribute that is not read but might have been intended."""
        self._unread.setdefault(what, []).append(line)

    def log(self, kind: str, items: Sequence[str]) -> None:
        """Log what most files have, so that a warning would tell nothing: by the logger `kinetree`, as INFO."""
        if items:
            logging.getLogger("kinetree").info("%s: %s: %s", self.file, kind, "; ".join(items))

    def texts(self) -> list[str]:
        """One message for each kind of finding."""
        lists = dict(self._listed)
        if self._unread:
            lists["not read, check the spelling or ignore this"] = [
                f"{what} (line {lines[0]}{f' and {len(lines) - 1} more' if len(lines) > 1 else ''})"
                for what, lines in self._unread.items()
            ]
        texts = []
        for kind, items in lists.items():
            shown = "; ".join(items[: self._most])
            rest = f"; … ({len(items)} in all)" if len(items) > self._most else ""
            texts.append(f"{self.file}: {kind}: {shown}{rest}")
        return texts

    def warn(self, stacklevel: int) -> None:
        """Issue the warnings, attributed to the caller of this method, or with 2 to its caller."""
        for text in self.texts():
            warnings.warn(text, ModelWarning, stacklevel=stacklevel + 1)


#: Values of `load(mimic=…)`.
MIMIC = ("couple", "independent", "lock")
#: Values of `load(loops=…)`.
LOOPS = ("embed", "multipliers", "ignore")
#: Values of `load(shapes=…)`.
SHAPES = ("collision", "visual", None)


class Options(NamedTuple):
    """The arguments of `load`; see there."""

    floating_base: bool
    root: str | None
    mimic: str
    loops: str
    lock: dict[str, Any]
    joint_order: tuple[str, ...]
    gravity: Any
    directory: Any
    xacro: Mapping[str, Any] | None
    snap_angles: bool
    near: dict[str, Any]
    package_roots: tuple[str, ...]
    shapes: str | None

    @classmethod
    def checked(cls, *given: Any) -> Options:
        """Validate the arguments; without locks and order, these are empty."""
        (
            floating_base, root, mimic, loops, lock, joint_order, gravity, directory, xacro, snap_angles, near, roots,
            shapes,
        ) = given  # fmt: skip
        for name, flag in (("floating_base", floating_base), ("snap_angles", snap_angles)):
            if not isinstance(flag, (bool, np.bool_)):
                raise InputError(f"{name}={flag!r} is neither True nor False")
        if root is not None and not isinstance(root, str):
            raise InputError(f"root={root!r} is not the name of a link")
        for name, choice, known in (("mimic", mimic, MIMIC), ("loops", loops, LOOPS)):
            if not isinstance(choice, str) or choice not in known:
                raise InputError(f"{name}={choice!r} is not known; choose one of {', '.join(map(repr, known))}")
        if not isinstance(shapes, (str, type(None))) or shapes not in SHAPES:
            raise InputError(f"shapes={shapes!r} is not known; choose one of {', '.join(map(repr, SHAPES))}")
        if lock is not None and not (isinstance(lock, Mapping) and all(isinstance(name, str) for name in lock)):
            raise InputError(f"lock={lock!r} is not a dictionary of configurations by joint name")
        if xacro is not None and not isinstance(xacro, Mapping):
            raise InputError(f"xacro={xacro!r} is not a dictionary of arguments; pass {{}} for none")
        if near is not None and not (isinstance(near, Mapping) and all(isinstance(name, str) for name in near)):
            raise InputError(f"near={near!r} is not a dictionary of coordinates by joint name")
        order, down = _names(joint_order), _vector(gravity)
        locked, snap, close = dict(lock or {}), bool(snap_angles), dict(near or {})
        return cls(
            bool(floating_base), root, mimic, loops, locked, order, down, directory, xacro, snap, close, _roots(roots),
            shapes,
        )  # fmt: skip

    def require_collision(self, kind: str) -> None:
        """Refuse shapes that are seen, of files that do not keep them apart as URDF and SDF do."""
        if self.shapes == "visual":
            raise InputError(f'shapes="visual" is for URDF and SDF files, and not for {kind}; use "collision" or None')

    def mesh_directories(self, file: str) -> tuple[str, ...]:
        """Where meshes of a robot's shapes may lie: beside its file, or in the directory given for it, and packages."""
        beside = "" if self.directory is None else os.fsdecode(self.directory)
        if not beside and not file.startswith("<"):
            beside = os.path.dirname(file)
        return (os.path.abspath(beside) if beside or not file.startswith("<") else "", *self.package_roots)


def _names(joint_order: Any) -> tuple[str, ...]:
    if joint_order is None:
        return ()
    if isinstance(joint_order, str):
        raise InputError("joint_order is one name; pass a list of them")
    ordered = isinstance(joint_order, (Sequence, np.ndarray)) and np.ndim(joint_order) == 1
    names = tuple(joint_order) if ordered else (None,)
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"joint_order={joint_order!r} is not a list of names")
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InputError(f"joint_order names {', '.join(twice)} more than once")
    return names


def _roots(package_roots: Any) -> tuple[str, ...]:
    if isinstance(package_roots, (str, bytes, os.PathLike)):
        raise InputError(f"package_roots={os.fsdecode(package_roots)!r} is one directory; pass a list of them")
    try:
        found = tuple(os.path.abspath(os.fsdecode(root)) for root in package_roots)
    except TypeError:
        raise InputError(f"package_roots={package_roots!r} is not a list of directories") from None
    for root in found:
        if not os.path.isdir(root):
            raise InputError(f"package_roots: {root!r} is not a directory; pass those that hold the robot's packages")
    return found


def _vector(gravity: Any) -> tuple[float, ...] | None:
    if gravity is None:
        return None
    try:
        x, y, z = (float(component) for component in gravity)
    except (TypeError, ValueError):
        raise InputError(f"gravity={gravity!r} is not three numbers") from None
    if not all(map(math.isfinite, (x, y, z))):
        raise InputError(f"gravity={gravity!r} is not finite")
    return x, y, z
