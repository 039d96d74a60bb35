"""What [W12] says of its operation counts, and what ours say of it.

[W12] P. Wensing, R. Featherstone, D. Orin, "A reduced-order recursive algorithm for the computation of the
      operational-space inertia matrix", ICRA 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kinetree.model.model import Model
from kinetree.zoo import ASIMO_VARIANTS, asimo35, asimo35_tasks

#: Operations by mechanism, and by the names that the paper gives to algorithms.
Totals = Mapping[str, Mapping[str, int]]

BASE, _ONE_FOOT, LIMBS = "hands_feet", "one_foot", "two_arms_two_legs"
_FLOATING = tuple(variant for variant in ASIMO_VARIANTS if variant != _ONE_FOOT)
_LONGER = ("legs_plus_2", "legs_plus_4", "arms_plus_2", "arms_plus_4", "four_fingers")


@dataclass(frozen=True)
class Found:
    """What some counts say of a relation."""

    value: str
    holds: bool

    def __str__(self) -> str:
        return self.value if self.holds else f"{self.value}: differs"


@dataclass(frozen=True)
class Relation:
    """What the paper says of its counts, and what ours say.

    Attributes:
        claim: What is compared.
        published: What the paper says.
        here: By the counts of the library, in the common frame of the tree.
        links: By counts in link coordinates, as the paper's are.
    """

    claim: str
    published: str
    here: Found
    links: Found


def relations(here: Totals, links: Totals) -> list[Relation]:
    """The relations that the paper states in words; its bars could not be read."""
    counted = [Relation(claim, published, find(here), find(links)) for claim, (published, find) in _RELATIONS.items()]
    zeros = _zeros()
    return [*counted, Relation("zeros in H and J; in H with more limbs", "56, 67; 73 %", zeros, zeros)]


def ratio(totals: Totals, variant: str, one: str, other: str) -> float:
    """Of the operations of two algorithms."""
    return totals[variant][one] / totals[variant][other]


def growth(totals: Totals) -> float:
    """How much more RJK takes, next to SFA, if the humanoid has two more arms and legs."""
    return ratio(totals, LIMBS, "RJK", "SFA") / ratio(totals, BASE, "RJK", "SFA") - 1.0


def _sparse_share(totals: Totals) -> Found:
    share = ratio(totals, BASE, "SFA", "EFPA")
    return Found(f"{share:.0%}", abs(share - 0.78) < 0.03)


def _sparse_ahead(totals: Totals) -> Found:
    ahead = ratio(totals, BASE, "SFA", "EFPA") < 1.0
    return Found("yes" if ahead else "no", ahead)


def _propagators_ahead(totals: Totals) -> Found:
    least = min(ratio(totals, variant, "RJK", "EFPA") for variant in _FLOATING)
    return Found(f"RJK/EFPA ≥ {least:.2f}", least > 1.0)


def _one_foot(totals: Totals) -> Found:
    found = ratio(totals, _ONE_FOOT, "RJK", "EFPA")
    return Found(f"RJK/EFPA = {found:.3f}", found < 1.0)


def _longer_limbs(totals: Totals) -> Found:
    found = [ratio(totals, variant, "SFA", "EFPA") for variant in _LONGER]
    return Found(f"{min(found):.2f} to {max(found):.2f}", min(found) > ratio(totals, BASE, "SFA", "EFPA"))


def _more_limbs(totals: Totals) -> Found:
    before, after = (ratio(totals, variant, "SFA", "EFPA") for variant in (BASE, LIMBS))
    return Found(f"{before:.2f}, then {after:.2f}", abs(after - before) < 0.05)


def _pairs(totals: Totals) -> Found:
    found = growth(totals)
    return Found(f"{found:.0%}", found > 0.5)


_RELATIONS: dict[str, tuple[str, Callable[[Totals], Found]]] = {
    "SFA/EFPA, hands and feet": ("78 %", _sparse_share),
    "SFA ahead of EFPA there": ("yes", _sparse_ahead),
    "EFPA ahead of RJK in all cases of Figure 6": ("yes", _propagators_ahead),
    "RJK ahead of EFPA on one foot": ("yes", _one_foot),
    "longer limbs and fingers raise SFA/EFPA": ("yes", _longer_limbs),
    "two more arms and legs leave SFA/EFPA nearly the same": ("yes", _more_limbs),
    "and raise RJK/SFA by": ("> 50 %", _pairs),
}


def _zeros() -> Found:
    base, more = asimo35(BASE), asimo35(LIMBS)
    shares = zeros_of_mass_matrix(base), zeros_of_jacobian(base, BASE), zeros_of_mass_matrix(more)
    off = max(abs(share - published) for share, published in zip(shares, (0.56, 0.67, 0.73), strict=True))
    # 67.5 % is as near to 67 % as it is to 68 %
    return Found("{:.1f}, {:.1f}; {:.1f} %".format(*(100 * share for share in shares)), off <= 0.005 + 1e-9)


def zeros_of_mass_matrix(robot: Model) -> float:
    """Share of entries that are zero because neither degree of freedom carries the other."""
    return 1.0 - (2 * sum(_depths(robot)) - robot.nv) / robot.nv**2


def zeros_of_jacobian(robot: Model, variant: str) -> float:
    """Share of entries that are zero because the degree of freedom does not carry the task."""
    depths, starts = _depths(robot), robot.mechanism.v_starts
    moved = [depths[starts[robot.site(task).node + 1] - 1] for task in asimo35_tasks(variant)]
    return 1.0 - sum(moved) / (len(moved) * robot.nv)


def _depths(robot: Model) -> list[int]:
    """Degrees of freedom from the base to each one, itself included."""
    depths: list[int] = []
    for parent in robot.mechanism.column_parents:
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
    return depths
