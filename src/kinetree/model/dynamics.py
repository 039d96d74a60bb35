"""The dynamics of a model: one function per quantity, each made when first asked for.

All take leading batch axes and `out=`; all run on the native engine unless another is asked for with `.engine(name)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from kinetree.algorithms.center_of_mass import center_of_mass, center_of_mass_jacobian, centroidal_momentum_matrix
from kinetree.algorithms.coriolis_matrix import coriolis_matrix
from kinetree.algorithms.energy import energy
from kinetree.algorithms.forward_dynamics import forward_dynamics
from kinetree.algorithms.inverse_dynamics import bias_forces, gravity_forces, inverse_dynamics
from kinetree.algorithms.kinematics import JACOBIANS, JACOBIANS_DOT_V, VELOCITIES, poses
from kinetree.algorithms.linearized.forward_dynamics_jvp import forward_dynamics_jvp
from kinetree.algorithms.linearized.forward_dynamics_vjp import forward_dynamics_vjp
from kinetree.algorithms.linearized.hvp import forward_dynamics_hvp, inverse_dynamics_hvp
from kinetree.algorithms.linearized.inverse_dynamics_jvp import inverse_dynamics_jvp
from kinetree.algorithms.linearized.inverse_dynamics_vjp import inverse_dynamics_vjp
from kinetree.algorithms.mass_matrix import mass_matrix
from kinetree.algorithms.mass_matrix_inverse import mass_matrix_inverse
from kinetree.algorithms.mass_matrix_solve import mass_matrix_pivots, mass_matrix_solve
from kinetree.algorithms.operational_space import METHODS, inverse_inertia
from kinetree.engines.count import Count, count
from kinetree.engines.function import ForcedFunction, FrameFunction, Function, OneFrameFunction, quantity
from kinetree.errors import UnknownNameError
from kinetree.model.derivatives import Derivatives
from kinetree.model.singularity import require_invertible, require_mass
from kinetree.recursion.mechanism import Mechanism, Site


class Dynamics(Derivatives):
    """What can be computed of a mechanism."""

    if TYPE_CHECKING:
        mechanism: Mechanism

        @property
        def frames(self) -> tuple[str, ...]: ...

        def site(self, frame: str) -> Site: ...

    # Kinematics

    @quantity
    def poses(self) -> FrameFunction:
        """`poses(q, frames=None)`: homogeneous transforms from frames to the world, (…, m, 4, 4) [m].

        Without `frames`, of all frames, in the order of `robot.frames`.
        """
        return FrameFunction("poses", self.mechanism, {"local": poses}, site=self.site, frames=self.frames)

    @quantity
    def velocities(self) -> FrameFunction:
        """`velocities(q, v, frames=None, reference="local")`: twists, angular first, (…, m, 6) [rad/s, m/s]."""
        return FrameFunction("velocities", self.mechanism, VELOCITIES, site=self.site, frames=self.frames)

    @quantity
    def jacobian(self) -> OneFrameFunction:
        """`jacobian(q, frame, reference="local")`: takes v to the frame's twist, angular first, (…, 6, nv).

        References: "local" (the frame's axes and origin), "local_world_aligned" (its origin, the world's axes),
        "world" (the world's axes and origin).
        """
        return OneFrameFunction("jacobian", self.mechanism, JACOBIANS, site=self.site, frames=self.frames)

    @quantity
    def jacobian_dot_v(self) -> OneFrameFunction:
        """`jacobian_dot_v(q, v, frame, reference="local")`: J̇v, (…, 6) [rad/s², m/s²].

        The rate of change of the frame's twist, as `reference` shows it, when all joint accelerations are zero.
        """
        return OneFrameFunction("jacobian_dot_v", self.mechanism, JACOBIANS_DOT_V, site=self.site, frames=self.frames)

    # Dynamics

    @quantity
    def inverse_dynamics(self) -> ForcedFunction:
        """`inverse_dynamics(q, v, a, f_ext=None)`: joint forces for given accelerations, (…, nv) [N m or N].

        `f_ext` maps frames to wrenches [moment; force] on their bodies, (…, 6) [N m, N], in the frame's coordinates.

        `inverse_dynamics.jvp(q, v, a, dq, dv, da)` is its change along a direction, (…, nv),
        `inverse_dynamics.vjp(q, v, a, w)` the gradients of wᵀτ with respect to q, v and a, three arrays (…, nv), and
        `inverse_dynamics.hvp(q, v, a, w, dq, dv, da)` the change of those gradients along a direction: the Hessian of
        wᵀτ times that direction. All take O(n). Configurations change along the tangent: dq is the increment of
        `integrate(q, dq)`. Wrenches of `f_ext` stay constant in their frames' coordinates.
        """
        return ForcedFunction(
            "inverse_dynamics",
            self.mechanism,
            inverse_dynamics,
            site=self.site,
            derivatives={"jvp": inverse_dynamics_jvp, "vjp": inverse_dynamics_vjp, "hvp": inverse_dynamics_hvp},
        )

    @quantity
    def forward_dynamics(self) -> ForcedFunction:
        """`forward_dynamics(q, v, tau, f_ext=None)`: joint accelerations, (…, nv) [rad/s² or m/s²].

        `f_ext` as for `inverse_dynamics`, and so are the derivatives `forward_dynamics.jvp(q, v, tau, dq, dv, dtau)`,
        `forward_dynamics.vjp(q, v, tau, w)` and `forward_dynamics.hvp(q, v, tau, w, dq, dv, dtau)`.
        """
        return ForcedFunction(
            "forward_dynamics",
            self.mechanism,
            forward_dynamics,
            site=self.site,
            guard=require_invertible,
            derivatives={"jvp": forward_dynamics_jvp, "vjp": forward_dynamics_vjp, "hvp": forward_dynamics_hvp},
        )

    @quantity
    def mass_matrix(self) -> Function:
        """`mass_matrix(q)`: joint-space inertia, full and symmetric, (…, nv, nv) [kg m², kg m or kg]."""
        return Function("mass_matrix", self.mechanism, mass_matrix)

    @quantity
    def mass_matrix_inverse(self) -> Function:
        """`mass_matrix_inverse(q)`: inverse of the mass matrix, full and symmetric, (…, nv, nv)."""
        return Function("mass_matrix_inverse", self.mechanism, mass_matrix_inverse, guard=require_invertible)

    @quantity
    def mass_matrix_solve(self) -> Function:
        """`mass_matrix_solve(q, x)`: M⁻¹ x in O(n), without forming M⁻¹, (…, nv)."""
        return Function("mass_matrix_solve", self.mechanism, mass_matrix_solve, guard=require_invertible)

    @quantity
    def mass_matrix_log_determinant(self) -> Function:
        """`mass_matrix_log_determinant(q)`: ln det M in O(n), (…); det M is positive."""
        return Function(
            "mass_matrix_log_determinant",
            self.mechanism,
            mass_matrix_pivots,
            guard=require_invertible,
            finish=lambda reciprocals: -np.log(reciprocals).sum(axis=-1),
        )

    @quantity
    def mass_matrix_determinant(self) -> Function:
        """`mass_matrix_determinant(q)`: det M in O(n), (…); may overflow where its logarithm does not."""
        return Function(
            "mass_matrix_determinant",
            self.mechanism,
            mass_matrix_pivots,
            guard=require_invertible,
            finish=lambda reciprocals: (1.0 / reciprocals).prod(axis=-1),
        )

    @quantity
    def bias_forces(self) -> Function:
        """`bias_forces(q, v)`: joint forces at zero acceleration, Coriolis and gravity, (…, nv) [N m or N]."""
        return Function("bias_forces", self.mechanism, bias_forces)

    @quantity
    def gravity_forces(self) -> Function:
        """`gravity_forces(q)`: joint forces that hold the robot still, (…, nv) [N m or N]."""
        return Function("gravity_forces", self.mechanism, gravity_forces)

    @quantity
    def coriolis_matrix(self) -> Function:
        """`coriolis_matrix(q, v)`: C with C v = bias − gravity forces and Ṁ − 2C skew, (…, nv, nv)."""
        return Function("coriolis_matrix", self.mechanism, coriolis_matrix)

    @quantity
    def energy(self) -> Function:
        """`energy(q, v)`: kinetic and potential energy, two arrays (…) [J]; no potential at the world's origin."""
        return Function("energy", self.mechanism, energy)

    # The robot as a whole

    @quantity
    def center_of_mass(self) -> Function:
        """`center_of_mass(q)`: of all moving bodies, in the world frame, (…, 3) [m]."""
        return Function("center_of_mass", self.mechanism, center_of_mass, guard=require_mass)

    @quantity
    def center_of_mass_jacobian(self) -> Function:
        """`center_of_mass_jacobian(q)`: takes v to the velocity of the centre of mass, (…, 3, nv)."""
        return Function("center_of_mass_jacobian", self.mechanism, center_of_mass_jacobian, guard=require_mass)

    @quantity
    def centroidal_momentum_matrix(self) -> Function:
        """`centroidal_momentum_matrix(q)`: takes v to momentum about the centre of mass, (…, 6, nv) [kg m²/s, kg m/s].

        Angular part first, in world axes.
        """
        return Function("centroidal_momentum_matrix", self.mechanism, centroidal_momentum_matrix, guard=require_mass)

    # All of them

    def compile(self, functions: Iterable[str] | None = None) -> None:
        """Compile functions now, so that no call has to: for control loops.

        Args:
            functions: Names of functions, and of derivatives as "forward_dynamics.vjp"; all of them by default.
        """
        names = (*FUNCTIONS, *DERIVATIVES) if functions is None else tuple(functions)
        chosen = [self._function(name) for name in names]
        with ThreadPoolExecutor(2) as pool:
            for _ in pool.map(lambda function: function.compile(), chosen):
                pass

    def count(self, function: str, frames: Iterable[str] | None = None) -> Count:
        """Operations that one evaluation of a function takes.

        Args:
            function: Its name, that of a derivative as "forward_dynamics.vjp", or that of a method for Λ⁻¹, one of
                `kinetree.operational_space.METHODS`.
            frames: For functions of frames and methods for Λ⁻¹, which ones; all by default.
        """
        if function in METHODS:
            sites = [self.site(name) for name in (self.frames if frames is None else frames)]
            return count(inverse_inertia(function, "local"), self.mechanism, sites)
        chosen = self._function(function)
        return chosen.count(frames) if isinstance(chosen, FrameFunction) else chosen.count()

    def _function(self, name: str) -> Any:
        if "." in name and name not in DERIVATIVES:
            raise UnknownNameError("derivative", name, DERIVATIVES)
        if name not in FUNCTIONS and name not in DERIVATIVES:
            raise UnknownNameError("function", name, (*FUNCTIONS, *METHODS))
        return attrgetter(name)(self)


#: Names of all functions of a model, in teaching order.
FUNCTIONS = tuple(
    name for owner in (Dynamics, Derivatives) for name, member in vars(owner).items() if isinstance(member, quantity)
)

#: Names of the functions that are derivatives of others, as `compile` and `count` take them.
DERIVATIVES = tuple(
    f"{function}.{which}" for function in ("inverse_dynamics", "forward_dynamics") for which in ("jvp", "vjp", "hvp")
)
