"""Flexible bodies: small deformations as a sum of shapes, relative to a root frame.

A point x of the body is at r = x + Φη − ½ e ηᵀΓη, for amplitudes η of shapes Φ(x). The last term is the foreshortening
due to bending, along the body's axis e: Γ(x) = ∫₀ˣ Φ′ᵀΦ′. It stiffens a spinning body; without it, a spinning beam
diverges [KRB87]. The velocity of the node is V = [V_p; η̇; twists of outlets]. Velocities of points are T [V_p; η̇]:

    T = [−r̃, 1, B]      B = ∂r/∂η = Φ − e (Γη)ᵀ      M = Σ m TᵀT
    b = Σ m Tᵀ (ω × v + ω × (ω × r) + 2 ω × Bη̇ − e η̇ᵀΓη̇)      τ = Kη + Cη̇

An outlet rotates by the Rodrigues vector ½ Ψη; its angular velocity is exactly the rate of that rotation, at any
amplitude.

[KRB87] T. Kane, R. Ryan, A. Banerjee, "Dynamics of a cantilever beam attached to a moving base", Journal of Guidance,
        Control, and Dynamics 10, 1987.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kinetree.errors import ModelError
from kinetree.model.nodes.general import Node
from kinetree.spatial.rotation import cross, skew
from kinetree.spatial.value import Array


class Station(NamedTuple):
    """A place on a flexible body that carries bodies.

    Attributes:
        x: Undeformed position, (3,) [m].
        shapes: Displacement per unit amplitude, (3, n).
        rotations: Rotation vector per unit amplitude, (3, n).
        shortening: Γ there, (n, n), or None.
    """

    x: Any
    shapes: Any
    rotations: Any
    shortening: Any = None


class FlexibleBody(Node):
    """A body that deforms in given shapes; add it to a robot with `Builder.add_flexible`.

    Its coordinates are the amplitudes of the shapes. Shapes and their slopes must vanish at the root: the root frame is
    fixed to the body's material there. The cost of the dynamics grows with the number of points.

    Args:
        points: Positions of its point masses, (g, 3) [m], in the root frame.
        masses: Masses of the points, (g,) [kg].
        shapes: Displacement of the points per unit amplitude, (g, 3, n).
        stiffness: (n, n), symmetric and positive definite.
        damping: (n, n), symmetric and positive semi-definite; zero by default.
        stations: Places that carry bodies, by name.
        shortening: Γ of the points, (g, n, n), or None for no foreshortening.
        axis: Direction of foreshortening, (3,).
        inertia: Additional inertia of the undeformed body about the root, (3, 3) [kg m²]: a line of points has none
            about its own axis.

    Raises:
        ModelError: If array shapes do not match, or mass or stiffness is not positive.
    """

    def __init__(
        self,
        points: Any,
        masses: Any,
        shapes: Any,
        stiffness: Any,
        *,
        damping: Any = None,
        stations: Mapping[str, Station] | None = None,
        shortening: Any = None,
        axis: Any = (1.0, 0.0, 0.0),
        inertia: Any = None,
    ) -> None:
        x, m = _array("points", points, (-1, 3)), _array("masses", masses, (-1,))
        phi = _array("shapes", shapes, (len(x), 3, -1))
        n = phi.shape[2]
        if len(m) != len(x):
            raise ModelError(f"flexible body: there are {len(x)} points, but {len(m)} masses")
        K = _symmetric("stiffness", stiffness, n)
        C = np.zeros((n, n)) if damping is None else _symmetric("damping", damping, n)
        gamma = np.zeros((len(x), n, n)) if shortening is None else _array("shortening", shortening, (len(x), n, n))
        e = _array("axis", axis, (3,))
        extra = np.zeros((3, 3)) if inertia is None else _array("inertia", inertia, (3, 3))
        M_e = np.einsum("g,gik,gil->kl", m, phi, phi)
        if not (m > 0.0).all():
            raise ModelError(f"flexible body: all masses must be positive; the least is {m.min():g} kg")
        for name, matrix, strict in (("stiffness", K, True), ("damping", C, False), ("mass of the shapes", M_e, True)):
            least, largest = np.linalg.eigvalsh(matrix)[[0, -1]]
            if least < (1e-13 if strict else -1e-13) * max(largest, -least):
                wanted = "definite" if strict else "semi-definite"
                raise ModelError(
                    f"flexible body: its {name} has the eigenvalue {least:.3g} and must be positive {wanted}"
                    + ("; are the shapes independent?" if matrix is M_e else "")
                )
        parts = {"K": K, "C": C, "e": e, "I": extra, "m": m, "x": x, "shapes": phi, "shortening": gamma}
        for name, station in (stations or {}).items():
            parts |= {
                f"{name}.x": _array(f"x of station {name!r}", station.x, (3,)),
                f"{name}.shapes": _array(f"shapes of station {name!r}", station.shapes, (3, n)),
                f"{name}.rotations": _array(f"rotations of station {name!r}", station.rotations, (3, n)),
                f"{name}.shortening": np.zeros((n, n)) if station.shortening is None
                else _symmetric(f"shortening of station {name!r}", station.shortening, n),
            }  # fmt: skip
        self._layout = _Layout(parts)
        self._stations = tuple(stations or ())
        self.nv, self.dimension = n, 6 + n + 6 * len(self._stations)
        self.outlets = {name: 6 + n + 6 * i for i, name in enumerate(self._stations)}
        self.constants = self._layout.constants(parts)

    def weight(self, c: Array, q: Array) -> Any:
        return np.concatenate([np.eye(6 + self.nv, 6), *(T[:, :6] for T in self._twists(c, q))])

    def joint_map(self, c: Array, q: Array) -> Any:
        return np.concatenate([np.eye(6 + self.nv, self.nv, -6), *(T[:, 6:] for T in self._twists(c, q))])

    def inertia(self, c: Array, q: Array) -> Any:
        of, own = self._layout.parts(c), 6 + self.nv
        total = np.zeros((own, own), dtype=np.result_type(c, q))
        total[:3, :3] = of["I"]
        for mass, r, B, _ in self._points(of, q):
            T = np.concatenate([-skew(r), np.eye(3), B], axis=1)
            total = total + (T.T @ T) * mass
        M = np.zeros((self.dimension or 0, self.dimension or 0), dtype=total.dtype)
        M[:own, :own] = total
        return M

    def gyroscopic(self, c: Array, q: Array, _v: Array, V: Array) -> Any:
        of, w, rate = self._layout.parts(c), V[:3], V[6 : 6 + self.nv]
        drift = cross(w, V[3:6])
        b = np.concatenate([cross(w, of["I"] @ w), np.zeros(3 + self.nv)])
        for mass, r, B, gamma in self._points(of, q):
            moving = cross(w, B @ rate)
            a = drift + cross(w, cross(w, r)) + moving + moving - of["e"] * (rate @ (gamma @ rate))
            b = b + np.concatenate([cross(r, a), a, B.T @ a]) * mass
        return np.concatenate([b, np.zeros(6 * len(self._stations))])

    def potential(self, c: Array, q: Array) -> Any:
        return 0.5 * (q @ (self._layout.parts(c)["K"] @ q))

    def rayleigh(self, c: Array, _q: Array, v: Array) -> Any:
        return 0.5 * (v @ (self._layout.parts(c)["C"] @ v))

    def _points(self, of: Mapping[str, Array], q: Array) -> Iterator[tuple[Any, Array, Array, Array]]:
        """Mass, position r, B = ∂r/∂η and Γ of each point."""
        for mass, x, phi, gamma in zip(of["m"], of["x"], of["shapes"], of["shortening"], strict=True):
            yield mass, *_deformed(of["e"], x, phi, gamma, q), gamma

    def _twists(self, c: Array, q: Array) -> Iterator[Array]:
        """The map from [V_p; η̇] to the twist of each outlet, (6, 6 + n)."""
        of = self._layout.parts(c)
        for name in self._stations:
            phi, psi, gamma = (of[f"{name}.{part}"] for part in ("shapes", "rotations", "shortening"))
            g = 0.5 * (psi @ q)
            scale = 2.0 / (1.0 + g @ g)
            G = skew(g)
            R_transposed = np.eye(3) - (G - G @ G) * scale
            r, B = _deformed(of["e"], of[f"{name}.x"], phi, gamma, q)
            turning = ((np.eye(3) - G) @ psi) * (0.5 * scale)
            rows = np.concatenate([R_transposed, np.zeros((3, 3)), turning], axis=1)
            yield np.concatenate([rows, R_transposed @ np.concatenate([-skew(r), np.eye(3), B], axis=1)])


def _deformed(e: Array, x: Array, phi: Array, gamma: Array, q: Array) -> tuple[Array, Array]:
    """r = x + Φη − ½ e ηᵀΓη, and ∂r/∂η."""
    bent = gamma @ q
    return x + phi @ q - e * (0.5 * (q @ bent)), phi - np.outer(e, bent)


class _Layout:
    """Constants in one flat list. Zeros are part of the formulas: they are not stored, and compile to nothing."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self._masks = {name: np.asarray(part) != 0.0 for name, part in parts.items()}

    def constants(self, parts: Mapping[str, Any]) -> tuple[float, ...]:
        return tuple(float(x) for name, mask in self._masks.items() for x in np.asarray(parts[name])[mask])

    def parts(self, c: Array) -> dict[str, Array]:
        """Unpack the arrays."""
        found, start = {}, 0
        for name, mask in self._masks.items():
            count = int(mask.sum())
            part = np.zeros(mask.shape, dtype=np.asarray(c).dtype)
            part[mask] = c[start : start + count]
            found[name], start = part, start + count
        return found


def _array(name: str, values: Any, shape: tuple[int, ...]) -> Array:
    """A finite array of a given shape; −1 stands for any length."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"flexible body: {name} is not a rectangular array of numbers") from None
    fits = array.ndim == len(shape) and all(want in (-1, have) for want, have in zip(shape, array.shape, strict=True))
    if not fits or not array.size:
        wanted = ", ".join("…" if length < 0 else str(length) for length in shape)
        raise ModelError(f"flexible body: {name} has shape {array.shape}, must be ({wanted})")
    if not np.isfinite(array).all():
        raise ModelError(f"flexible body: {name} has NaN or infinite entries")
    return array


def _symmetric(name: str, values: Any, n: int) -> Array:
    matrix = _array(name, values, (n, n))
    if np.abs(matrix - matrix.T).max() > 1e-9 * max(np.abs(matrix).max(), 1e-300):
        raise ModelError(f"flexible body: {name} is not symmetric")
    mean: Array = (matrix + matrix.T) / 2.0
    return mean


class Beam(FlexibleBody):
    """A slender beam along x, clamped to its root frame: the first bending modes of an Euler–Bernoulli beam.

    Modes come from Hermite elements with consistent mass, and are normalised to unit modal mass. Coordinates are
    their amplitudes, plane by plane. Outlets are "tip" and the `stations`. The mass is lumped at Gauss points.

    Args:
        length: [m].
        EI: Bending stiffness [N m²], one number or one for each plane.
        rhoA: Mass per length [kg/m].
        modes: Number of modes in each plane.
        planes: Directions of bending: "y", "z" or "yz".
        damping: Damping ratio of every mode.
        stations: Further outlets by name: their distance from the root [m].
        foreshortening: Whether bending shortens the beam, which stiffens it when it spins.
        axial_inertia: Moment of inertia about its axis [kg m²].
        elements: Number of elements from which the modes are computed.
        points: Number of points that carry the mass; by default enough for the modes.
    """

    def __init__(
        self,
        length: float,
        EI: Any,
        rhoA: float,
        *,
        modes: int = 3,
        planes: str = "yz",
        damping: float = 0.0,
        stations: Mapping[str, float] | None = None,
        foreshortening: bool = True,
        axial_inertia: float = 0.0,
        elements: int = 24,
        points: int | None = None,
    ) -> None:
        if not isinstance(planes, str) or planes not in ("y", "z", "yz"):
            raise ModelError(f'beam: planes is "y", "z" or "yz"; got {planes!r}')
        points = 2 * modes + 4 if points is None else points
        for name, value in (("modes", modes), ("elements", elements), ("points", points)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ModelError(f"beam: {name} is a whole number, 1 or more; got {value!r}")
        if modes > 2 * elements:
            raise ModelError(f"beam: {elements} elements have {2 * elements} modes in a plane; {modes} are too many")
        stiffness = _array("EI", np.broadcast_to(np.asarray(EI, dtype=float), len(planes)), (len(planes),))
        for name, positive in (("length", length), ("EI", stiffness.min()), ("rhoA", rhoA)):
            if not positive > 0.0:
                raise ModelError(f"beam: {name} must be positive; got {positive!r}")
        places = {"tip": length, **(stations or {})}
        for name, place in places.items():
            if not 0.0 <= place <= length:
                raise ModelError(f"beam: station {name!r} is at {place!r} m, but the beam is {length!r} m long")
        frequencies, nodal = _clamped_modes(length, rhoA, modes, elements)
        spring = np.concatenate([frequencies * value for value in stiffness])
        curve = _Curve(nodal, length / elements, planes)
        fractions, weights = _gauss(points)
        spots = [length * one for one in fractions]
        at = [curve.at(x) for x in spots]
        none = np.zeros((len(spring), len(spring)))
        super().__init__(
            [(x, 0.0, 0.0) for x in spots],
            [rhoA * length * weight for weight in weights],
            [one.shapes for one in at],
            np.diag(spring),
            damping=np.diag(2.0 * damping * np.sqrt(spring)),
            stations={
                name: one if foreshortening else one._replace(shortening=none)
                for name, one in ((name, curve.at(place)) for name, place in places.items())
            },
            shortening=[one.shortening for one in at] if foreshortening else None,
            inertia=np.diag([axial_inertia, 0.0, 0.0]),
        )


def _gauss(count: int = 5) -> tuple[Sequence[float], Sequence[float]]:
    """Points and weights on [0, 1]; five are exact for products of shapes of an element."""
    x, w = np.polynomial.legendre.leggauss(count)
    return [float(one) for one in (x + 1.0) / 2.0], [float(one) for one in w / 2.0]


def _hermite(s: float, h: float) -> tuple[Array, Array]:
    """Shapes and slopes of an element of length h, for displacement and slope at both ends."""
    shapes = [1 - 3 * s**2 + 2 * s**3, h * (s - 2 * s**2 + s**3), 3 * s**2 - 2 * s**3, h * (s**3 - s**2)]
    slopes = [(6 * s**2 - 6 * s) / h, 1 - 4 * s + 3 * s**2, (6 * s - 6 * s**2) / h, 3 * s**2 - 2 * s]
    return np.array(shapes), np.array(slopes)


def _clamped_modes(length: float, rhoA: float, modes: int, elements: int) -> tuple[Array, Array]:
    """Squared frequencies for EI = 1, (modes,), and nodal values of the modes, (2 elements + 2, modes)."""
    h, count = length / elements, 2 * elements + 2
    M, K = np.zeros((count, count)), np.zeros((count, count))
    bending = np.array(
        [[12, 6 * h, -12, 6 * h], [0, 4 * h * h, -6 * h, 2 * h * h], [0, 0, 12, -6 * h], [0, 0, 0, 4 * h * h]]
    )
    bending = (bending + np.triu(bending, 1).T) / h**3
    for i in range(elements):
        place = slice(2 * i, 2 * i + 4)
        K[place, place] += bending
        for s, weight in zip(*_gauss(), strict=True):
            shapes, _ = _hermite(s, h)
            M[place, place] += rhoA * h * weight * np.outer(shapes, shapes)
    root = np.linalg.cholesky(M[2:, 2:])  # the root is clamped
    half = np.linalg.solve(root, K[2:, 2:])
    values, vectors = np.linalg.eigh(np.linalg.solve(root, half.T))
    nodal = np.zeros((count, modes))
    nodal[2:] = np.linalg.solve(root.T, vectors[:, :modes])
    return values[:modes], nodal * np.sign(nodal[-2])  # tips up


class _Curve:
    """Shapes of a beam along its length."""

    def __init__(self, nodal: Array, h: float, planes: str) -> None:
        self._nodal, self._h, self._planes = nodal, h, planes
        self._elements, self._modes = len(nodal) // 2 - 1, nodal.shape[1]
        self._before = [np.zeros((self._modes, self._modes))]
        for i in range(self._elements):
            self._before.append(self._before[-1] + self._shortening(i, 1.0))

    def _shortening(self, element: int, upto: float) -> Array:
        """∫ Φ′ᵀΦ′ over a part of an element."""
        total = np.zeros((self._modes, self._modes))
        for s, weight in zip(*_gauss(), strict=True):
            slope = _hermite(s * upto, self._h)[1] @ self._nodal[2 * element : 2 * element + 4]
            total += self._h * upto * weight * np.outer(slope, slope)
        return total

    def at(self, x: float) -> Station:
        """The station at a distance from the root."""
        element = min(int(x / self._h), self._elements - 1)
        s = x / self._h - element
        shapes, slopes = (one @ self._nodal[2 * element : 2 * element + 4] for one in _hermite(s, self._h))
        n, count = self._modes, self._modes * len(self._planes)
        phi, psi, gamma = np.zeros((3, count)), np.zeros((3, count)), np.zeros((count, count))
        for i, plane in enumerate(self._planes):
            own = slice(i * n, (i + 1) * n)
            phi["xyz".index(plane), own] = shapes
            # y′ turns about +z, z′ about −y
            psi[2 if plane == "y" else 1, own] = slopes if plane == "y" else -slopes
            gamma[own, own] = self._before[element] + self._shortening(element, s)
        return Station(np.array([x, 0.0, 0.0]), phi, psi, gamma)
