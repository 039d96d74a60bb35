"""Solvers of the contact problem (`kinetree.simulation.contact`) as sequences of recursions.

They take the mobility Λ⁻¹ of all bodies that may touch something, in world axes, the arms, velocities, normals and
heights of the contacts, the time step and the impulses to start from. They return impulses in world axes, violations of
the laws of contact, and impulses in contact axes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from kinetree.algorithms.contact_admm import admm_adapt, admm_round, admm_weights, contact_velocities
from kinetree.algorithms.contact_problem import contact_forces, contact_problem
from kinetree.algorithms.contact_sweep import SEVERAL, contact_sweep, contact_sweeps
from kinetree.algorithms.joint_rows import joint_contact_start, joint_contact_sweep, joint_start, response_to_contacts
from kinetree.engines.kernel_function import compiled
from kinetree.engines.native.compiled import Compiled
from kinetree.engines.native.kernels import bind
from kinetree.engines.native.operands import Operand
from kinetree.engines.native.sequence import Sequence
from kinetree.kernels.eigen import diagonalize
from kinetree.model.model import Model
from kinetree.simulation.joint_rows import JointRows
from kinetree.simulation.shapes import contact_sites, touching_bodies
from kinetree.spatial.value import Array

#: Rounds of ADMM after which ρ is adapted.
_ADAPTED = 5


def _problem(bodies: tuple[int, ...]) -> tuple[Compiled, list[Operand]]:
    """The recursion that states the problem of contacts of these bodies, and its inputs."""
    moving, r = 6 * (max(bodies) + 1), 3 * len(bodies)
    inputs = [Operand("mobility", (moving, moving))]
    inputs += [Operand(name, (r,)) for name in ("arm", "velocity", "normal", "height")]
    inputs += [Operand("dt", ()), Operand("start", (r,))]
    return bind(contact_problem, *touching_bodies(bodies), contact_problem.name), inputs


@lru_cache(maxsize=32)
def sweeps_solver(bodies: tuple[int, ...], sweeps: int, frictions: bytes) -> Compiled:
    """Impulses in world axes, their violations of the laws of contact and λ; all robots share it."""
    mechanism, sites = contact_sites(len(bodies))
    finish = bind(contact_forces, mechanism, sites, contact_forces.name)
    prepare, inputs = _problem(bodies)
    r, friction = 3 * len(bodies), np.frombuffer(frictions)
    sequence = Sequence("contacts", inputs, [Operand(name, (r,)) for name in ("forces", "errors", "impulses")])
    swept, once = sequence.share(*(bind(one, mechanism, sites, one.name) for one in (contact_sweeps, contact_sweep)))
    G, weight, mu, u, impulse = swept.inputs
    *_, axes = sequence.call(prepare, *sequence.inputs, into=(G, weight, u, None))
    sequence.copy(sequence.constant(friction), mu)
    sequence.copy(sequence.inputs[-1], impulse)
    # several sweeps at a time, and what is left over
    for some, rounds in ((swept, sweeps // SEVERAL), (once, sweeps % SEVERAL)):
        if rounds:
            with sequence.loop(rounds):
                for result, place in zip(some.run(*(None,) * 5), (u, impulse), strict=True):
                    sequence.copy(result, place)
    forces, errors, impulses = sequence.outputs
    sequence.call(finish, axes, impulse, u, friction, weight, into=[forces, errors])
    sequence.copy(impulse, impulses)
    return sequence.finish()


@lru_cache(maxsize=32)
def admm_solver(bodies: tuple[int, ...], rounds: int, frictions: bytes) -> Compiled:
    """The same as `sweeps_solver`, by rounds of ADMM."""
    mechanism, sites = contact_sites(len(bodies))
    weigh, one_round, adapt, velocities, finish = (
        bind(one, mechanism, sites, one.name)
        for one in (admm_weights, admm_round, admm_adapt, contact_velocities, contact_forces)
    )
    prepare, inputs = _problem(bodies)
    r, friction = 3 * len(bodies), np.frombuffer(frictions)
    sequence = Sequence("contacts", inputs, [Operand(name, (r,)) for name in ("forces", "errors", "impulses")])
    *problem, start = sequence.inputs
    G, weight, free, axes = sequence.call(prepare, *problem, np.zeros(r))
    values, vectors = sequence.call(compiled(diagonalize, n=r), G)
    rho, gain = sequence.call(weigh, values)
    mu, still = sequence.constant(friction), sequence.constant(np.zeros(r))
    rounded = sequence.prepare(one_round)
    given = (G, vectors, gain, rho, mu, free, start, still)
    for source, place in zip(given, rounded.inputs, strict=True):
        sequence.copy(source, place)
    with sequence.loop(-(-rounds // _ADAPTED)):
        with sequence.loop(_ADAPTED):
            impulse, dual, off, step = rounded.run(*(None,) * len(given))
            sequence.copy(impulse, rounded.inputs[6])
            sequence.copy(dual, rounded.inputs[7])
        follow, gain = sequence.call(adapt, values, G, rho, rounded.inputs[3], off, step)
        sequence.copy(gain, rounded.inputs[2])
        sequence.copy(follow, rounded.inputs[3])
    u = sequence.call(velocities, G, impulse, free)
    forces, errors, impulses = sequence.outputs
    sequence.call(finish, axes, impulse, u, friction, weight, into=[forces, errors])
    sequence.copy(impulse, impulses)
    return sequence.finish()


def joint_solver(
    robot: Model, sites: Any, bodies: tuple[int, ...], sweeps: int, mu: Array, joints: JointRows
) -> Compiled:
    """Joint velocities, impulses in world axes, violations of the laws of contact, λ, and impulses of joints."""
    finish = bind(contact_forces, *contact_sites(len(sites)), contact_forces.name)
    prepare, inputs = _problem(bodies)
    turn, begin, sweep = (
        bind(one, robot.mechanism, sites, "contacts")
        for one in (response_to_contacts, joint_contact_start, joint_contact_sweep)
    )
    r, nv = 3 * len(sites), robot.nv
    inputs += [Operand("joints", (2 * nv,)), Operand("Minv", (nv, nv))]
    inputs += [Operand("response", (nv, r)), *(Operand(name, (nv,)) for name in ("v", "slowest", "fastest"))]
    outputs = [Operand("v", (nv,)), *(Operand(name, (r,)) for name in ("forces", "errors", "impulses"))]
    sequence = Sequence("contacts", inputs, [*outputs, Operand("joints", (2 * nv,))])
    *problem, start, own, Minv, response, v, slowest, fastest = sequence.inputs
    G, weight, u, axes = sequence.call(prepare, *problem, start)
    response = sequence.call(turn, response, axes)
    friction, stop = own.part(0, nv), own.part(nv, nv)
    w = sequence.call(joints.recursion(joint_start), Minv, v, friction, stop)
    w, u = sequence.call(begin, response, w, u, start, friction, stop)
    swept = sequence.prepare(sweep)
    constants = sequence.constant(mu), sequence.constant(joints.dry)
    given = (G, weight, constants[0], Minv, response, slowest, fastest, constants[1], u, w, start, friction, stop)
    for source, place in zip(given, swept.inputs, strict=True):
        sequence.copy(source, place)
    with sequence.loop(sweeps):
        results = swept.run(*(None,) * len(given))
        for result, place in zip(results, swept.inputs[8:], strict=True):
            sequence.copy(result, place)
    u, w, impulse, friction, stop = results
    after, forces, errors, impulses, others = sequence.outputs
    sequence.call(finish, axes, impulse, u, mu, weight, into=[forces, errors])
    for source, place in ((w, after), (impulse, impulses), (friction, others.part(0, nv)), (stop, others.part(nv, nv))):
        sequence.copy(source, place)
    return sequence.finish()
