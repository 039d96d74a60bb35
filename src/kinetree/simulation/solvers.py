"""Solvers of the contact problem (`kinetree.simulation.contact`) as sequences of kernels.

They take the mobility Λ⁻¹ of all bodies that may touch something, in world axes, the arms, velocities, normals and
heights of the contacts, the time step and the impulses to start from. They return impulses in world axes, the residual,
and impulses in contact axes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from kinetree.engines.kernel_function import KernelFunction, compiled
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.operands import Operand
from kinetree.engines.native.sequence import Place, Sequence
from kinetree.kernels.contact_admm import admm_adapt, admm_round, admm_weights
from kinetree.kernels.contact_problem import contact_forces, contact_problem, contact_start, contact_velocities
from kinetree.kernels.contact_sweep import SEVERAL, contact_sweep, contact_sweeps
from kinetree.kernels.eigen import diagonalize
from kinetree.kernels.joint_rows import (
    joint_contact_start,
    joint_contact_sweep,
    joint_residual,
    joint_share,
    joint_start,
    response_to_contacts,
)
from kinetree.kernels.language import Kernel
from kinetree.simulation.joint_rows import JointRows

#: Rounds of ADMM after which ρ is adapted.
_ADAPTED = 5
#: Sweeps after rounds of ADMM.
_AFTER_ADMM = 11


def of_bodies(kernel: Kernel, bodies: tuple[int, ...]) -> KernelFunction:
    """A kernel of contacts that belong to bodies, given by their numbers."""
    contacts = [(3 * i, 6 * body) for i, body in enumerate(bodies)]
    return compiled(kernel, r=3 * len(bodies), n=6 * (max(bodies) + 1), contacts=contacts)


def _problem(bodies: tuple[int, ...]) -> tuple[KernelFunction, list[Operand]]:
    """The kernel that states the problem of contacts of these bodies, and its inputs."""
    moving, r = 6 * (max(bodies) + 1), 3 * len(bodies)
    inputs = [Operand("mobility", (moving, moving))]
    inputs += [Operand(name, (r,)) for name in ("arm", "velocity", "normal", "height")]
    inputs += [Operand("dt", ()), Operand("start", (r,))]
    return of_bodies(contact_problem, bodies), inputs


def _results(rows: int) -> list[Operand]:
    return [Operand("forces", (rows,)), Operand("residual", ()), Operand("impulses", (rows,))]


def _bound(contacts: int, *kernels: Kernel) -> list[KernelFunction]:
    return [compiled(one, r=3 * contacts) for one in kernels]


@lru_cache(maxsize=32)
def sweeps_solver(bodies: tuple[int, ...], sweeps: int, frictions: tuple[float, ...], rounds: int = 0) -> Compiled:
    """Impulses in world axes, the residual and λ; all robots share it.

    Args:
        bodies: The body of each contact.
        sweeps: Number of sweeps.
        frictions: μ of each contact.
        rounds: Number of rounds of ADMM before them.
    """
    r, friction = 3 * len(bodies), np.repeat(frictions, 3)
    begin, velocities, finish, *sweeping = _bound(
        len(bodies), contact_start, contact_velocities, contact_forces, contact_sweeps, contact_sweep
    )
    prepare, inputs = _problem(bodies)
    sequence = Sequence("contacts", inputs, _results(r))
    *problem, start = sequence.inputs
    swept, once = sequence.share(*sweeping)
    G, scale, mu, u, impulse = swept.inputs
    _, _, free, axes = sequence.call(prepare, *problem, into=(G, scale, None, None))
    sequence.copy(sequence.constant(friction), mu)
    start = _admm(sequence, len(bodies), rounds, G, mu, free, start) if rounds else start
    sequence.call(begin, G, free, start, into=(u, impulse))
    # the first with many rounds for each contact, then several at a time, and what is left over
    for some, times in ((once, 1), (swept, (sweeps - 1) // SEVERAL), (once, (sweeps - 1) % SEVERAL)):
        if times:
            with sequence.loop(times):
                for result, place in zip(some.run(*(None,) * 5), (u, impulse), strict=True):
                    sequence.copy(result, place)
    u = sequence.call(velocities, G, impulse, free)
    forces, residual, impulses = sequence.outputs
    found = axes, impulse, free, u, friction, scale, np.zeros(4)
    sequence.call(finish, *found, into=[forces, impulses, None, residual])
    return sequence.finish()


def admm_solver(bodies: tuple[int, ...], rounds: int, frictions: tuple[float, ...]) -> Compiled:
    """The same by rounds of ADMM, and a few sweeps: rounds couple contacts well, sweeps solve each of them."""
    return sweeps_solver(bodies, _AFTER_ADMM, frictions, rounds)


def _admm(sequence: Sequence, contacts: int, rounds: int, G: Place, mu: Place, free: Place, start: Place) -> Place:
    """Record rounds of ADMM; returns λ."""
    weigh, one_round, adapt = _bound(contacts, admm_weights, admm_round, admm_adapt)
    values, vectors = sequence.call(compiled(diagonalize, n=3 * contacts), G)
    rho, gain = sequence.call(weigh, values)
    rounded = sequence.prepare(one_round)
    given = (vectors, gain, rho, mu, free, start, sequence.constant(np.zeros(3 * contacts)))
    for source, place in zip(given, rounded.inputs, strict=True):
        sequence.copy(source, place)
    with sequence.loop(-(-rounds // _ADAPTED)):
        with sequence.loop(_ADAPTED):
            impulse, dual, off, step = rounded.run(*(None,) * len(given))
            sequence.copy(impulse, rounded.inputs[5])
            sequence.copy(dual, rounded.inputs[6])
        follow, gain = sequence.call(adapt, values, G, rho, rounded.inputs[2], off, step)
        sequence.copy(gain, rounded.inputs[1])
        sequence.copy(follow, rounded.inputs[2])
    found: Place = impulse
    return found


def joint_solver(
    nv: int, bodies: tuple[int, ...], sweeps: int, frictions: tuple[float, ...], joints: JointRows
) -> Compiled:
    """Joint velocities, impulses in world axes, the residual, λ, and impulses of joints."""
    r, mu = 3 * len(bodies), np.repeat(frictions, 3)
    velocities, finish = _bound(len(bodies), contact_velocities, contact_forces)
    prepare, inputs = _problem(bodies)
    turn, begin_joints, sweep = (
        compiled(one, r=r, n=nv) for one in (response_to_contacts, joint_contact_start, joint_contact_sweep)
    )
    inputs += [Operand("joints", (2 * nv,)), Operand("Minv", (nv, nv))]
    inputs += [Operand("response", (nv, r)), *(Operand(name, (nv,)) for name in ("v", "slowest", "fastest"))]
    sequence = Sequence("contacts", inputs, [Operand("v", (nv,)), *_results(r), Operand("joints", (2 * nv,))])
    *problem, start, own, Minv, response, v, slowest, fastest = sequence.inputs
    G, scale, free, axes = sequence.call(prepare, *problem)
    response = sequence.call(turn, response, axes)

    def moving(impulse: Place, friction: Place, stop: Place) -> Any:
        """Velocities of joints and rows with all impulses."""
        w = sequence.call(joints.kernel(joint_start), Minv, v, friction, stop)
        u = sequence.call(velocities, G, impulse, free)
        return sequence.call(begin_joints, response, w, u, impulse, friction, stop)

    started = own.part(0, nv), own.part(nv, nv)
    w, u = moving(start, *started)
    swept = sequence.prepare(sweep)
    constants = sequence.constant(mu), sequence.constant(joints.dry)
    given = (G, scale, constants[0], Minv, response, slowest, fastest, constants[1], u, w, start, *started)
    for source, place in zip(given, swept.inputs, strict=True):
        sequence.copy(source, place)
    with sequence.loop(sweeps):
        results = swept.run(*(None,) * len(given))
        for result, place in zip(results, swept.inputs[8:], strict=True):
            sequence.copy(result, place)
    found = results[2:]
    w, u = moving(*found)
    bounds = slowest, fastest, constants[1]
    parts, _ = sequence.call(joints.kernel(joint_residual), Minv, *bounds, v, w, *found[1:])
    after, forces, residual, impulses, others = sequence.outputs
    into = [forces, impulses, None, residual]
    *_, share, _ = sequence.call(finish, axes, found[0], free, u, mu, scale, parts, into=into)
    into = [after, others.part(0, nv), others.part(nv, nv)]
    sequence.call(joints.kernel(joint_share), share, v, w, *found[1:], into=into)
    return sequence.finish()
