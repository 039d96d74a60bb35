"""Notes inertias of a file that deserve attention."""

from __future__ import annotations

from collections.abc import Sequence

from kinetree.loading.findings import Findings
from kinetree.model.physical import clearly_possible, fault_in
from kinetree.model.specs import BodySpec, JointSpec


def note_inertias(links: Sequence[BodySpec], hinges: Sequence[JointSpec], findings: Findings) -> None:
    """Note what no body can have, and bodies that move without mass, with all that is fixed to them.

    Args:
        links: Each after its parent.
        hinges: The joint above each of them.
        findings: Collects the notes.
    """
    massless = False
    for link, hinge in zip(links, hinges):
        mass, (xx, xy, xz, yx, yy, yz, zx, zy, zz) = link.mass, link.inertia
        if mass > 0.0 and clearly_possible(xx, yy, zz, xy, xz, yz):
            continue
        if mass >= 0.0 and not any(link.inertia):
            if mass > 0.0:
                findings.add("mass without rotational inertia (a point mass)", f"link {link.name!r}", link.line)
            elif hinge.kind != "fixed":
                massless = True
            continue
        problem = fault_in(mass, [[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]])
        if problem is not None:
            findings.add("unphysical inertias", f"link {link.name!r}: {problem}", link.line)
    if massless:
        _note_massless(links, hinges, findings)


def _note_massless(links: Sequence[BodySpec], hinges: Sequence[JointSpec], findings: Findings) -> None:
    """Note links that move without mass of their own or of what is fixed to them."""
    carrier: dict[str, str] = {}
    heavy: dict[str, bool] = {}
    for link, hinge in zip(links, hinges):
        name, moving = link.name, hinge.kind != "fixed"
        carrier[name] = name if moving or hinge.parent not in carrier else carrier[hinge.parent]
        if moving:
            heavy[name] = False
        if carrier[name] in heavy and (link.mass != 0.0 or any(link.inertia)):
            heavy[carrier[name]] = True
    for link in links:
        if not heavy.get(link.name, True):
            findings.add(
                "moving links without mass (functions that need the inverse of the mass matrix may raise)",
                f"link {link.name!r}",
                link.line,
            )
