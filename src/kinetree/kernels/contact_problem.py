"""The problem of frictional contacts in contact axes. Cost O(r²) for r = 3 rows of each.

Rows of a contact are two tangents and its normal. Contacts belong to bodies, so their mobility is that of the bodies,

    G = χ Λ⁻¹ χᵀ         χ of a row along n at r from its body: (r × n, n)

whatever the number of contacts. Impulses λ along the rows give velocities u = G λ + g, and obey Signorini's and
Coulomb's laws:

    λ ∈ K_μ,   u + Γ ∈ K_μ*,   λ ⊥ u + Γ,   Γ = (0, 0, μ‖u_t‖)                                    (1)

Heights of points above fixed shapes are signed distances from the surface, negative inside. They are stored as the last
of three numbers for each point, the normal row of a contact.

    arm, velocity, normal, height    of each contact, in world axes: from its body to its point; of the point without
                                     contacts; outward; signed distance from the surface, at the normal row
    G, g, axes                       G, free, in contact axes; two tangents and the normal [D17]
    contacts                         the first of the r rows of each contact, and the first of the n columns of its body

[D17] T. Duff et al., "Building an orthonormal basis, revisited", Journal of Computer Graphics Techniques 6, 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kinetree.kernels.language import IndexBlock, Kernel, Size, Workspace, kernel
from kinetree.language.tree import Indexed
from kinetree.spatial.dual import Dual
from kinetree.spatial.rotation import cross
from kinetree.spatial.scalar import magnitude, select, sqrt

#: β: fraction of a penetration that is corrected in each step.
RECOVERY = 0.2
#: Contacts whose mean mobility is not larger take no impulses; far below any inverse mass.
IMMOBILE = 1e-30
#: What constraints leave of a mobility is rounding below this share of what it would be without them.
ROUNDED = 1e-11
#: Speeds and impulses count for the size of a problem by this factor.
ROUNDING = 1e-6


@kernel(
    mobility=("n", "n"), own=("n",), arm=("r",), velocity=("r",), normal=("r",), height=("r",), dt=(), G=("r", "r"),
    free=("r",), axes=("r", 3), outputs=("G", "free", "axes"), lists={"contacts": {"r": 3, "n": 6}},
)  # fmt: skip
def contact_problem(
    k: Workspace, mobility: Indexed, own: Indexed, arm: Indexed, velocity: Indexed, normal: Indexed, height: Indexed,
    dt: Indexed, G: Indexed, free: Indexed, axes: Indexed,
) -> None:  # fmt: skip
    """The rows of all contacts along tangents and normal.

    `mobility` are velocities of the bodies per unit impulse on each, in world axes, angular components first, and `own`
    is its diagonal without constraints. Normal velocities in `free` have the gap over dt added: a point may close its
    gap in that time but not more.
    """
    chi = [k.array("r") for _ in range(6)]
    half_way = k.array("n", "r")
    for rows in contacts(k.r):
        basis = normal_basis(*row_values(normal, rows))
        moving, away = row_values(velocity, rows), np.array(row_values(arm, rows))
        h = height[rows[2]][()]
        allowed = select(-h, 0.0, h, RECOVERY * h) / dt[...]
        for row, axis, extra in zip(rows, basis, (0.0, 0.0, allowed), strict=True):
            axes[row] = np.array(axis)
            free[row] = _dot(axis, moving) + extra
            for part, x in zip(chi, (*cross(away, np.array(axis)), *axis), strict=True):
                part[row] = x

    for rows, body in k.contacts:
        pushes = [np.array([part[row][()] for part in chi]) for row in rows]
        for c in k.n:
            moved = [mobility[c, other] for other in body]
            for row, push in zip(rows, pushes, strict=True):
                half_way[c, row] = sum(x * y for x, y in zip(moved, push, strict=True))

    for rows, body in k.contacts:
        pushes = [np.array([part[row][()] for part in chi]) for row in rows]
        for other in k.r:
            column = np.array([half_way[c, other] for c in body])
            for row, push in zip(rows, pushes, strict=True):
                G[row, other] = push @ column
        for row, push in zip(rows, pushes, strict=True):
            alone = sum(x * x * own[c] for x, c in zip(push, body, strict=True))
            G[row, row] = what_moves(push @ np.array([half_way[c, row] for c in body]), alone)


def what_moves(mobility: Any, alone: Any) -> Any:
    """The mobility of a row that would be `alone` without constraints; zero if they hold it."""
    return select(mobility, ROUNDED * alone, 0.0, mobility)  # NaN stays


@kernel(axes=("r", 3), impulse=("r",), force=("r",), outputs=("force",))
def contact_forces(k: Workspace, axes: Indexed, impulse: Indexed, force: Indexed) -> None:
    """Impulses of contacts, from their own axes to the world's."""
    for rows in contacts(k.r):
        total = sum(axes[row] * impulse[row] for row in rows)
        for row, part in zip(rows, total, strict=True):
            force[row] = part


@kernel(
    place=("c", 15), twist=("c", 6), position=("c", 3), points=("c", 3), arm=("c", 3), velocity=("c", 3),
    outputs=("points", "arm", "velocity"),
)  # fmt: skip
def contact_points(
    k: Workspace, place: Indexed, twist: Indexed, position: Indexed, points: Indexed, arm: Indexed, velocity: Indexed
) -> None:
    """Positions and velocities of c points in the world, and their arms.

    `place` is as of `mass_factors` and `twist` in world axes, of the body of each point; `position` is in the body.
    """
    for i in k.c:
        R, there = place[i][:9].reshape(3, 3), place[i][9:12]
        away = R @ position[i]
        points[i] = there + away
        arm[i] = away
        velocity[i] = twist[i][3:] + cross(twist[i][:3], away)


@kernel(
    arm=("r",), force=("r",), wrench=("n",), outputs=("wrench",), sparse=("wrench",),
    lists={"contacts": {"r": 3, "n": 6}},
)  # fmt: skip
def contact_wrenches(k: Workspace, arm: Indexed, force: Indexed, wrench: Indexed) -> None:
    """What forces at all points are for their bodies: wrenches in world axes, moments first."""
    for rows, own in k.contacts:
        push = np.array(row_values(force, rows))
        for c, x in zip(own, (*cross(np.array(row_values(arm, rows)), push), *push), strict=True):
            wrench[c] = wrench[c] + x


@kernel(response=("m", "n"), v=("m",), wrench=("n",), after=("m",), outputs=("after",), sparse=("after",))
def velocities_after(k: Workspace, response: Indexed, v: Indexed, wrench: Indexed, after: Indexed) -> None:
    """v + M⁻¹Jᵀ w: joint velocities after impulses on bodies, from their response M⁻¹Jᵀ."""
    for i in k.m:
        after[i] = v[i] + k.sum(response[i, j] * wrench[j] for j in k.n)


@kernel(residual=(), before=(), after=(), outputs=("after",))
def larger_residual(_k: Workspace, residual: Indexed, before: Indexed, after: Indexed) -> None:
    """The larger of two residuals; NaN if the first one is."""
    after[...] = larger(before[...][()], residual[...][()])


def contacts(rows: Size) -> Iterator[IndexBlock]:
    """The three rows of each contact."""
    for block in rows.blocks(3):
        if len(block) == 3:
            yield block


def larger(a: Any, b: Any) -> Any:
    """The larger one; b if it is NaN."""
    return select(b, a, a, b)


def normal_basis(x: Any, y: Any, z: Any) -> tuple[tuple[Any, Any, Any], ...]:
    """Two tangents and the normal. [D17]: the only branch is the sign of z."""
    sign = select(z, 0.0, -1.0, 1.0)
    a = -1.0 / (sign + z)
    b = x * y * a
    return (1.0 + sign * x * x * a, sign * b, -sign * x), (b, sign + y * y * a, -y), (x, y, z)


def in_cone(mu: Any, v: list[Any]) -> list[Any]:
    """P_K: the nearest point of the friction cone."""
    t = sqrt(v[0] * v[0] + v[1] * v[1])
    k = (mu * t + v[2]) / (1.0 + mu * mu)
    share = mu * k / select(-t, 0.0, t, 1.0)
    edge = [share * v[0], share * v[1], k]
    near = [select(mu * v[2], t, e, x) for e, x in zip(edge, v, strict=True)]
    return [select(-v[2], mu * t, x, 0.0) for x in near]  # in this order: without friction, all of the axis is near


def row_values(array: Indexed, rows: Any) -> list[Any]:
    """The values of some rows, as scalars."""
    return [array[row][()] for row in rows]


def _dot(a: Any, b: Any) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


Vector = tuple[Any, Any, Any]
#: A point and the numbers of a shape to the height and the normal.
Measure = Callable[[Vector, Any], tuple[Any, Vector]]


def _shape(numbers: int) -> Callable[[Measure], tuple[Kernel, Kernel]]:
    """Kernels that measure all points: normals and heights, and their derivatives with respect to the points."""

    def declare(measure: Measure) -> tuple[Kernel, Kernel]:
        def run(k: Workspace, points: Indexed, shape: Indexed, normal: Indexed, height: Indexed) -> None:
            for point in k.c:
                h, n = measure(tuple(points[point]), shape[...])
                normal[point] = np.array(n)
                height[point] = np.array([0.0, 0.0, h])

        def slopes(k: Workspace, points: Indexed, shape: Indexed, slope: Indexed, bend: Indexed) -> None:
            for point in k.c:
                rates = []
                for unit in np.eye(3):
                    moved = [Dual(x, dx) for x, dx in zip(points[point], unit, strict=True)]
                    h, n = measure((moved[0], moved[1], moved[2]), shape[...])
                    rates.append([x.rate if isinstance(x, Dual) else 0.0 for x in (h, *n)])
                by_x = np.array(rates)
                slope[point], bend[point] = by_x[:, 0], by_x[:, 1:].T

        name = measure.__name__.removeprefix("_")
        run.__name__, run.__doc__ = f"above_{name}", measure.__doc__
        slopes.__name__, slopes.__doc__ = f"{name}_slopes", f"Derivatives of heights and normals. {measure.__doc__}"
        axes: dict[str, Any] = {"points": ("c", 3), "shape": (numbers,)}
        measured = kernel(**axes, normal=("c", 3), height=("c", 3), outputs=("normal", "height"))
        return measured(run), kernel(**axes, slope=("c", 3), bend=("c", 3, 3), outputs=("slope", "bend"))(slopes)

    return declare


def _plane(p: Vector, shape: Any) -> tuple[Any, Vector]:
    """Of a plane: unit normal, and distance from the origin along it."""
    n = shape[0], shape[1], shape[2]
    return _dot(p, n) - shape[3], n


def _sphere(p: Vector, shape: Any) -> tuple[Any, Vector]:
    """Of a sphere: centre, radius."""
    return _around(_minus(p, shape[:3]), shape[3])


def _capsule(p: Vector, shape: Any) -> tuple[Any, Vector]:
    """Of a capsule: start and axis of its segment, one over the axis' squared length or zero, radius."""
    way, axis = _minus(p, shape[:3]), tuple(shape[3:6])
    share = _clipped(_dot(way, axis) * shape[6])
    return _around(_minus(way, [share * a for a in axis]), shape[7])


def _block(p: Vector, shape: Any) -> tuple[Any, Vector]:
    """Of a box along the world axes: centre, half edges. Inside, the nearest face counts."""
    way = _minus(p, shape[:3])
    x, y, z = (magnitude(w) - half for w, half in zip(way, shape[3:], strict=True))
    outside = tuple(0.5 * (b + magnitude(b)) for b in (x, y, z))
    far = sqrt(_dot(outside, outside))
    # one face, even at an edge
    face = (
        select(x, y, 0.0, select(x, z, 0.0, 1.0)),
        select(x, y, select(y, z, 0.0, 1.0), 0.0),
        select(select(x, y, y, x), z, 1.0, 0.0),
    )
    inside = select(select(x, y, y, x), z, z, select(x, y, y, x))
    safe = select(-far, 0.0, far, 1.0)
    normal = [
        select(w, 0.0, -1.0, 1.0) * select(-far, 0.0, o / safe, f) for w, o, f in zip(way, outside, face, strict=True)
    ]
    return select(-far, 0.0, far, inside), (normal[0], normal[1], normal[2])


def _around(way: Any, radius: Any) -> tuple[Any, Vector]:
    """Height above a surface around a point or line, and the direction away from it; up, exactly on the latter."""
    far = sqrt(_dot(way, way))
    safe = select(-far, 0.0, far, 1.0)
    x, y, z = (w / safe for w in way)
    return far - radius, (x, y, select(-far, 0.0, z, 1.0))


def _minus(a: Any, b: Any) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def _clipped(x: Any) -> Any:
    low = 0.5 * (x + magnitude(x))
    return select(-low, -1.0, 1.0, low)


above_plane, plane_slopes = _shape(4)(_plane)
above_sphere, sphere_slopes = _shape(4)(_sphere)
above_capsule, capsule_slopes = _shape(8)(_capsule)
above_block, block_slopes = _shape(6)(_block)
