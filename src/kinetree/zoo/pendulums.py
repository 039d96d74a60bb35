"""Small mechanisms whose equations of motion fit on a line."""

from __future__ import annotations

import numpy as np

from kinetree.model.builder import Builder
from kinetree.model.model import Model


def pendulum(length: float = 1.0, mass: float = 1.0) -> Model:
    """A point mass [kg] at the end of a massless rod [m], hanging down at q = 0 and rotating about y.

    With mass m, length l and g = 9.81 m/s², the mass matrix is m l² and the gravity torque m g l sin q, so that free
    motion obeys q̈ = −(g/l) sin q.
    """
    builder = Builder("pendulum")
    builder.add_body("bob", joint_name="pivot", axis=(0, 1, 0), mass=mass, com=(0, 0, -length))
    builder.add_frame("tip", body="bob", placement=(np.eye(3), (0, 0, -length)))
    return builder.build()


def double_pendulum(lengths: tuple[float, float] = (1.0, 1.0), masses: tuple[float, float] = (1.0, 1.0)) -> Model:
    """Two point masses on massless rods, hanging down at q = 0, both rotating about y; q₂ is relative to the first rod.

    With h = m₂ l₁ l₂, the mass matrix is
        M₁₁ = (m₁ + m₂) l₁² + m₂ l₂² + 2 h cos q₂,   M₁₂ = m₂ l₂² + h cos q₂,   M₂₂ = m₂ l₂²,
    the velocity torques are −h sin q₂ (2 v₁ v₂ + v₂²) and h sin q₂ v₁², and the gravity torques are
        (m₁ + m₂) g l₁ sin q₁ + m₂ g l₂ sin(q₁ + q₂)   and   m₂ g l₂ sin(q₁ + q₂).
    """
    builder = Builder("double_pendulum")
    builder.add_body("upper", joint_name="shoulder", axis=(0, 1, 0), mass=masses[0], com=(0, 0, -lengths[0]))
    builder.add_body(
        "lower",
        parent="upper",
        joint_name="elbow",
        placement=(np.eye(3), (0, 0, -lengths[0])),
        axis=(0, 1, 0),
        mass=masses[1],
        com=(0, 0, -lengths[1]),
    )
    builder.add_frame("tip", body="lower", placement=(np.eye(3), (0, 0, -lengths[1])))
    return builder.build()


def cart_pole(cart_mass: float = 1.0, pole_mass: float = 0.1, pole_length: float = 0.5) -> Model:
    """A cart that slides along x, with a point mass on a massless rod, upright at q = 0 and rotating about y.

    With q = (x, θ), the mass matrix is [[m_c + m_p, m_p l cos θ], [m_p l cos θ, m_p l²]], the velocity forces are
    (−m_p l sin θ θ̇², 0) and the gravity forces (0, −m_p g l sin θ).
    """
    builder = Builder("cart_pole")
    builder.add_body("cart", joint="prismatic", joint_name="rail", axis=(1, 0, 0), mass=cart_mass)
    builder.add_body("pole", parent="cart", joint_name="hinge", axis=(0, 1, 0), mass=pole_mass, com=(0, 0, pole_length))
    builder.add_frame("tip", body="pole", placement=(np.eye(3), (0, 0, pole_length)))
    return builder.build()
