"""Several hands on one object as one augmented object [KC86].

W maps the object's twist ν to those of the hands, ω_i = ω and v_i = v + ω × r_i. With Λ_e and bias_e of all hands
together, contacts included,

    Λ_⊕ = Λ_L + WᵀΛ_e W          bias_⊕ = b_L + Wᵀ(Λ_e Ẇν + bias_e)          Λ_⊕ ν̇ + bias_⊕ = Wᵀf_e

On a branching robot, the coupling between hands is in the off-diagonal blocks of Λ_e. `OperationalSpace` obtains the
same motion by eliminating the grasps; this is the textbook form.

[KC86] O. Khatib, "Augmented object and reduced effective inertia in robot systems", American Control Conference, 1988.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kinetree.engines.native.compiled import standard_arithmetic
from kinetree.errors import InputError
from kinetree.model.model import Model
from kinetree.operational_space.products import product, times
from kinetree.spatial.value import Array


class AugmentedObject(NamedTuple):
    """An object and the hands that hold it, as one body. Twists and wrenches are at its frame, in world axes.

    Attributes:
        inertia: Λ_⊕, (…, 6, 6).
        bias: bias_⊕, (…, 6).
        grasp_map: W, (…, 6 h, 6).
    """

    inertia: Array
    bias: Array
    grasp_map: Array


def augmented_object(
    robot: Model,
    q: Any,
    v: Any,
    hands: Sequence[str],
    *,
    pose: Any,
    mass: float,
    inertia: Any,
    contacts: Iterable[Any] = (),
) -> AugmentedObject:
    """Inertia and bias of an object held rigidly by several hands.

    Args:
        robot: The robot, without the object.
        q: Configuration, (…, nq).
        v: Joint velocities, consistent with the hands moving with the object, (…, nv).
        hands: Frames that hold the object.
        pose: Pose of the object, with its origin at its centre of mass, (…, 4, 4).
        mass: Mass of the object [kg].
        inertia: Inertia about its centre of mass, in its axes, (3, 3) [kg m²].
        contacts: Further contacts of the robot, as for `robot.tasks`.
    """
    if isinstance(hands, str) or len(hands) < 1:
        raise InputError(f"hands is a sequence of names of frames, got {hands!r}")
    tasks = robot.tasks(list(hands), reference="local_world_aligned", contacts=contacts)
    state = tasks.at(q, v)
    T = np.asarray(pose, dtype=float)
    places = robot.pose(q, list(hands))
    with standard_arithmetic():
        # the hands are fixed to the object, so each has its angular velocity
        omega = robot.velocity(q, v, hands[0], "local_world_aligned")[..., :3]
        R, p = T[..., :3, :3], T[..., :3, 3]
        turned = product(product(R, np.asarray(inertia, dtype=float)), np.swapaxes(R, -1, -2))
        batch = np.broadcast_shapes(omega.shape[:-1], p.shape[:-1])
        W, W_rate_twist = np.zeros((*batch, 6 * len(hands), 6)), np.zeros((*batch, 6 * len(hands)))
        for i in range(len(hands)):
            r = places[..., i, :3, 3] - p
            W[..., 6 * i : 6 * i + 6, :] = np.eye(6)
            W[..., 6 * i + 3 : 6 * i + 6, :3] = -_hat(r)
            W_rate_twist[..., 6 * i + 3 : 6 * i + 6] = _cross(omega, _cross(omega, r))
        own, own_bias = np.zeros((*batch, 6, 6)), np.zeros((*batch, 6))
        own[..., :3, :3], own[..., 3:, 3:] = turned, mass * np.eye(3)
        own_bias[..., :3] = _cross(omega, times(turned, omega))
        own_bias[..., 3:] = -mass * robot.gravity
        back = np.swapaxes(W, -1, -2)
        felt = own + product(back, product(state.inertia, W))
        bias = own_bias + times(back, times(state.inertia, W_rate_twist) + state.bias)
    return AugmentedObject(felt, bias, W)


def _hat(r: Array) -> Array:
    result = np.zeros((*r.shape[:-1], 3, 3))
    result[..., 0, 1], result[..., 0, 2], result[..., 1, 2] = -r[..., 2], r[..., 1], -r[..., 0]
    return result - np.swapaxes(result, -1, -2)


def _cross(a: Array, b: Array) -> Array:
    return times(_hat(a), b)
