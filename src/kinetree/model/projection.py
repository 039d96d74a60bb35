"""What functions of the spanning tree are for the independent velocities, given q̇ = G v of all joints."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetree.spatial.fixed import product
from kinetree.spatial.value import Array


def _coupling(robot: Any, engine: str, q: Any) -> Array:
    """G, with joints in the order of the tree."""
    G: Array = robot.coupling.engine(engine)(q)[..., robot.tree_order, :]
    return G


def coriolis_matrix(robot: Any, engine: str, q: Any, v: Any) -> Array:
    """Gᵀ (C G + M Ġ), for which Ṁ − 2C is skew-symmetric like that of the tree."""
    tree, order = robot.spanning_tree, robot.tree_order
    q_t, G = robot.to_tree(q), _coupling(robot, engine, q)
    rates = robot.joint_rates.engine(engine)(q, v)[..., order]
    G_rate = robot.coupling_rate.engine(engine)(q, v)[..., order, :]
    C = tree.coriolis_matrix.engine(engine)(q_t, rates)
    inner = product(C, G) + product(tree.mass_matrix.engine(engine)(q_t), G_rate)
    return product(np.swapaxes(G, -1, -2), inner)


def regressor(robot: Any, engine: str, q: Any, v: Any, a: Any, frames: Any = None) -> Array:
    """Gᵀ Y."""
    tree, order = robot.spanning_tree, robot.tree_order
    rates = robot.joint_rates.engine(engine)(q, v)[..., order]
    accelerations = robot.joint_accelerations.engine(engine)(q, v, a)[..., order]
    given = () if frames is None else (frames,)
    Y = tree.regressor.engine(engine)(robot.to_tree(q), rates, accelerations, *given)
    single = isinstance(frames, str)
    flat = Y if single else Y.reshape(*Y.shape[:-2], -1)
    turned = product(np.swapaxes(_coupling(robot, engine, q), -1, -2), flat)
    return turned if single else turned.reshape(*turned.shape[:-1], *Y.shape[-2:])
