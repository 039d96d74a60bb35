"""The dynamics of a model, one function per quantity.

All take leading batch axes, which broadcast, and `out=`. They run on the native engine unless another one is chosen
with `.engine(name)`.

Kinematics of a model's frames.

`frames` is the name of one frame, or a sequence of names, for which the result has an axis: `pose(q, "hand")` is
(…, 4, 4), `pose(q, ["hand", "foot"])` is (…, 2, 4, 4). `reference` selects the reference point and axes of a motion:

    "local"                  the frame's origin, in the frame's axes
    "local_world_aligned"    the frame's origin, in the world's axes
    "world"                  the point of the body at the world's origin, in the world's axes

Motions are twists, angular part first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import ArrayLike

from kinetree.algorithms.derivatives.jvp import forward_dynamics_jvp, inverse_dynamics_jvp
from kinetree.algorithms.derivatives.vjp import (
    forward_dynamics_hvp,
    forward_dynamics_vjp,
    inverse_dynamics_hvp,
    inverse_dynamics_vjp,
)
from kinetree.algorithms.dynamics.centroid import center_of_mass, center_of_mass_jacobian, centroidal_momentum_matrix
from kinetree.algorithms.dynamics.coriolis_matrix import coriolis_matrix
from kinetree.algorithms.dynamics.energy import energy
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.innovations import (
    innovation_forces,
    innovations,
    innovations_to_velocities,
    log_determinant_gradient,
)
from kinetree.algorithms.dynamics.inverse_dynamics import bias_forces, gravity_forces, inverse_dynamics
from kinetree.algorithms.dynamics.mass_matrix import (
    mass_matrix,
    mass_matrix_determinant,
    mass_matrix_inverse,
    mass_matrix_log_determinant,
    mass_matrix_solve,
)
from kinetree.algorithms.kinematics.acceleration_derivatives import (
    ACCELERATION_DERIVATIVES,
    CLASSICAL_ACCELERATION_DERIVATIVES,
)
from kinetree.algorithms.kinematics.frame_kinematics import (
    ACCELERATIONS,
    CLASSICAL_ACCELERATIONS,
    JACOBIAN_RATES,
    JACOBIANS,
    JACOBIANS_DOT_V,
    VELOCITIES,
    VELOCITY_DERIVATIVES,
    poses,
)
from kinetree.algorithms.methods import ALGORITHMS, inverse_inertia
from kinetree.algorithms.methods.choice import view_of
from kinetree.compiler.count import Count, count
from kinetree.errors import InputError, UnknownNameError, UnsupportedError
from kinetree.language.common_frame import View, in_view, prefers_common_frame
from kinetree.model.base import ModelBase
from kinetree.model.compilation import Progress, compile_functions
from kinetree.model.configurations import Configurations
from kinetree.model.derivatives import Derivatives
from kinetree.model.export import export_c
from kinetree.model.hybrid import Hybrid
from kinetree.model.reactions import Reactions
from kinetree.model.results import Energy, ForwardGradients, InverseGradients, LinearizedAcceleration
from kinetree.model.singularity import require_invertible, require_mass
from kinetree.runtime.arguments import frame_names
from kinetree.runtime.function import FrameFunction
from kinetree.runtime.quantity import Quantity, differentiable_quantity, frame_quantity, quantity
from kinetree.spatial.value import Array

if TYPE_CHECKING:
    from typing_extensions import Self


Frames = str | Sequence[str]
Reference = Literal["local", "local_world_aligned", "world"]

#: Where single motions take the fewest operations: those in the frame's own axes need no pose.
_OF_MOTIONS: dict[str, View] = {"local": "own", "local_world_aligned": "common", "world": "common"}


class Kinematics(ModelBase):
    """The kinematics of a model's frames."""

    @frame_quantity(poses)
    def pose(self, q: ArrayLike, frames: Frames | None = None, *, out: Array | None = None) -> Array:
        """Homogeneous transforms from frames to the world, (…, 4, 4) [m].

        Args:
            q: Configuration, (…, nq).
            frames: One name, or a sequence of m names: (…, m, 4, 4). All of `robot.frames` by default.
            out: Array for the result.
        """

    @frame_quantity(VELOCITIES, view=_OF_MOTIONS)
    def velocity(
        self,
        q: ArrayLike,
        v: ArrayLike,
        frames: Frames | None = None,
        reference: Reference = "local",
        *,
        out: Array | None = None,
    ) -> Array:
        """Twists of frames, angular part first, (…, 6) [rad/s, m/s].

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            frames: One name, or a sequence of m names: (…, m, 6). All of `robot.frames` by default.
            reference: "local" (the frame's axes and origin), "local_world_aligned" (its origin, the world's axes) or
                "world" (the world's axes and origin).
            out: Array for the result.
        """

    @frame_quantity(ACCELERATIONS, classical=CLASSICAL_ACCELERATIONS, view=_OF_MOTIONS)
    def acceleration(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        frames: Frames | None = None,
        reference: Reference = "local",
        classical: bool = False,
        *,
        out: Array | None = None,
    ) -> Array:
        """Rates of change of frames' twists, J a + J̇v, (…, 6) [rad/s², m/s²].

        This is the time derivative of the components that `velocity` returns for the same reference. In axes that
        turn with the frame, it is not what moves a mass: with `classical=True`, the linear part is the acceleration of
        the point itself, v̇ + ω × v. An accelerometer at a frame measures this, less free fall, in its own axes:

            R = robot.pose(q, "imu")[:3, :3]
            measured = robot.acceleration(q, v, a, "imu", classical=True)[3:] - R.T @ robot.gravity

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            a: Joint accelerations, (…, nv).
            frames: One name, or a sequence of m names: (…, m, 6). All of `robot.frames` by default.
            reference: As for `velocity`.
            classical: Whether to return the angular acceleration of the body and the acceleration of the point that
                `reference` names, in its axes. For "local_world_aligned", this is the same.
            out: Array for the result.
        """

    @frame_quantity(JACOBIANS, view="common")
    def jacobian(
        self, q: ArrayLike, frames: Frames, reference: Reference = "local", *, out: Array | None = None
    ) -> Array:
        """Jacobians of frames, which map v to twists, angular part first, (…, 6, nv).

        Args:
            q: Configuration, (…, nq).
            frames: One name, or a sequence of m names: (…, m, 6, nv).
            reference: "local" (the frame's axes and origin), "local_world_aligned" (its origin, the world's axes) or
                "world" (the world's axes and origin).
            out: Array for the result.
        """

    @frame_quantity(JACOBIANS_DOT_V, view=_OF_MOTIONS)
    def jacobian_dot_v(
        self, q: ArrayLike, v: ArrayLike, frames: Frames, reference: Reference = "local", *, out: Array | None = None
    ) -> Array:
        """J̇v, the rates of change of frames' twists at zero joint accelerations, (…, 6) [rad/s², m/s²].

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            frames: One name, or a sequence of m names: (…, m, 6).
            reference: As for `jacobian`.
            out: Array for the result.
        """

    @frame_quantity(JACOBIAN_RATES, view="common")
    def jacobian_rate(
        self, q: ArrayLike, v: ArrayLike, frames: Frames, reference: Reference = "local", *, out: Array | None = None
    ) -> Array:
        """Time derivative J̇ of frames' Jacobians as q moves with v, (…, 6, nv).

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            frames: One name, or a sequence of m names: (…, m, 6, nv).
            reference: As for `jacobian`.
            out: Array for the result.
        """

    @frame_quantity(VELOCITY_DERIVATIVES, view="common")
    def velocity_derivative(
        self, q: ArrayLike, v: ArrayLike, frames: Frames, reference: Reference = "local", *, out: Array | None = None
    ) -> Array:
        """∂(J v)/∂q of frames' twists, along the tangent, (…, 6, nv).

        The derivative of the twist with respect to v is J, and so is that of the pose with respect to q, since the
        tangent of a pose is a twist.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            frames: One name, or a sequence of m names: (…, m, 6, nv).
            reference: As for `jacobian`.
            out: Array for the result.
        """

    @frame_quantity(
        ACCELERATION_DERIVATIVES,
        classical=CLASSICAL_ACCELERATION_DERIVATIVES,
        bundle=LinearizedAcceleration,
        view="common",
    )
    def acceleration_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        frames: Frames,
        reference: Reference = "local",
        classical: bool = False,
        *,
        out: tuple[Array, Array, Array] | None = None,
    ) -> LinearizedAcceleration:
        """Derivatives of frames' accelerations with respect to q (along the tangent), v and a, (…, 6, nv) each.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            a: Joint accelerations, (…, nv).
            frames: One name, or a sequence of m names: (…, m, 6, nv).
            reference: As for `acceleration`.
            classical: As for `acceleration`.
            out: Three arrays for the results.
        """


_INVERSE_DERIVATIVES = {"jvp": inverse_dynamics_jvp, "vjp": inverse_dynamics_vjp, "hvp": inverse_dynamics_hvp}
_FORWARD_DERIVATIVES = {"jvp": forward_dynamics_jvp, "vjp": forward_dynamics_vjp, "hvp": forward_dynamics_hvp}


class Dynamics(Configurations, Kinematics, Hybrid, Reactions, Derivatives):
    """The dynamics of a model."""

    @differentiable_quantity(inverse_dynamics, _INVERSE_DERIVATIVES, InverseGradients)
    def inverse_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        f_ext: Mapping[str, ArrayLike] | None = None,
        *,
        out: Array | None = None,
    ) -> Array:
        """Joint forces required for given accelerations, (…, nv) [N m or N].

        `inverse_dynamics.jvp(q, v, a, dq, dv, da)` is its directional derivative, (…, nv),
        `inverse_dynamics.vjp(q, v, a, w)` are the gradients of wᵀτ with respect to q, v and a, and
        `inverse_dynamics.hvp(q, v, a, w, dq, dv, da)` are the directional derivatives of these gradients: the Hessian
        of wᵀτ times the direction. All take O(n). Configurations change along the tangent: dq is the increment of
        `integrate(q, dq)`. The wrenches in `f_ext` are constant in their frames' coordinates.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            a: Joint accelerations, (…, nv).
            f_ext: Wrenches [moment; force] acting on bodies, by frame, (…, 6) [N m, N], in the frame's coordinates.
            out: Array for the result.
        """

    @differentiable_quantity(forward_dynamics, _FORWARD_DERIVATIVES, ForwardGradients, guard=require_invertible)
    def forward_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        f_ext: Mapping[str, ArrayLike] | None = None,
        *,
        out: Array | None = None,
    ) -> Array:
        """Joint accelerations under given joint forces, (…, nv) [rad/s² or m/s²].

        Derivatives are as for `inverse_dynamics`: `forward_dynamics.jvp(q, v, tau, dq, dv, dtau)`,
        `forward_dynamics.vjp(q, v, tau, w)` and `forward_dynamics.hvp(q, v, tau, w, dq, dv, dtau)`.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            tau: Joint forces, (…, nv) [N m or N].
            f_ext: Wrenches [moment; force] acting on bodies, by frame, (…, 6) [N m, N], in the frame's coordinates.
            out: Array for the result.
        """

    @quantity(mass_matrix, view=prefers_common_frame)
    def mass_matrix(self, q: ArrayLike, *, out: Array | None = None) -> Array:
        """Joint-space inertia matrix M, full and symmetric, (…, nv, nv) [kg m², kg m or kg].

        Args:
            q: Configuration, (…, nq).
            out: Array for the result.
        """

    @quantity(mass_matrix_inverse, guard=require_invertible)
    def mass_matrix_inverse(self, q: ArrayLike, *, out: Array | None = None) -> Array:
        """Inverse of the mass matrix, full and symmetric, (…, nv, nv).

        Args:
            q: Configuration, (…, nq).
            out: Array for the result.
        """

    @quantity(mass_matrix_solve, guard=require_invertible)
    def mass_matrix_solve(self, q: ArrayLike, x: ArrayLike, *, out: Array | None = None) -> Array:
        """M⁻¹ x in O(n), without forming M⁻¹, (…, nv).

        Args:
            q: Configuration, (…, nq).
            x: Vectors, (…, nv).
            out: Array for the result.
        """

    @quantity(mass_matrix_log_determinant, guard=require_invertible)
    def mass_matrix_log_determinant(self, q: ArrayLike, *, out: Array | None = None) -> Array:
        """ln det M in O(n), (…); det M is positive.

        Args:
            q: Configuration, (…, nq).
            out: Array for the result.
        """

    @quantity(mass_matrix_determinant, guard=require_invertible)
    def mass_matrix_determinant(self, q: ArrayLike, *, out: Array | None = None) -> Array:
        """det M in O(n), (…); may overflow when its logarithm does not.

        Args:
            q: Configuration, (…, nq).
            out: Array for the result.
        """

    @quantity(log_determinant_gradient, guard=require_invertible)
    def mass_matrix_log_determinant_gradient(self, q: ArrayLike, *, out: Array | None = None) -> Array:
        """Gradient of ln det M along the tangent in O(n), (…, nv): twice that of Fixman's potential.

        Args:
            q: Configuration, (…, nq).
            out: Array for the result.
        """

    @quantity(innovations, guard=require_invertible)
    def innovations(self, q: ArrayLike, v: ArrayLike, *, out: Array | None = None) -> Array:
        """Velocities ν = mᵀ v in which M = m mᵀ is the identity, in O(n), (…, nv).

        The kinetic energy is ½ νᵀν. As τ acts, ν̇ = `innovations.jvp(q, v, v, a)` is m⁻¹ τ less Coriolis forces and
        gravity.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            out: Array for the result.
        """

    @quantity(innovations_to_velocities, guard=require_invertible)
    def innovations_to_velocities(self, q: ArrayLike, nu: ArrayLike, *, out: Array | None = None) -> Array:
        """Joint velocities v = m⁻ᵀ ν in O(n), (…, nv): of covariance M⁻¹ for independent ν of variance 1.

        Args:
            q: Configuration, (…, nq).
            nu: Innovations, (…, nv).
            out: Array for the result.
        """

    @quantity(innovation_forces, guard=require_invertible)
    def innovation_forces(self, q: ArrayLike, tau: ArrayLike, *, out: Array | None = None) -> Array:
        """Forces m⁻¹ τ that change the innovations, in O(n), (…, nv).

        Args:
            q: Configuration, (…, nq).
            tau: Joint forces, (…, nv).
            out: Array for the result.
        """

    @quantity(bias_forces)
    def bias_forces(self, q: ArrayLike, v: ArrayLike, *, out: Array | None = None) -> Array:
        """Joint forces at zero acceleration: Coriolis, centrifugal and gravity, (…, nv) [N m or N].

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            out: Array for the result.
        """

    @quantity(gravity_forces)
    def gravity_forces(self, q: ArrayLike, *, out: Array | None = None) -> Array:
        """Joint forces that hold the robot still against gravity, (…, nv) [N m or N].

        Args:
            q: Configuration, (…, nq).
            out: Array for the result.
        """

    @quantity(coriolis_matrix, view=prefers_common_frame)
    def coriolis_matrix(self, q: ArrayLike, v: ArrayLike, *, out: Array | None = None) -> Array:
        """C with C v = bias − gravity forces and Ṁ − 2C skew, (…, nv, nv).

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            out: Array for the result.
        """

    @quantity(energy, bundle=Energy)
    def energy(self, q: ArrayLike, v: ArrayLike, *, out: tuple[Array, Array] | None = None) -> Energy:
        """Kinetic and potential energy, (…) each [J].

        The potential energy is zero with all mass at the world's origin.

        Args:
            q: Configuration, (…, nq).
            v: Joint velocities, (…, nv).
            out: Two arrays for the results.
        """

    # The robot as a whole

    @quantity(center_of_mass, guard=require_mass)
    def center_of_mass(self, q: ArrayLike, *, out: Array | None = None) -> Array:
        """Centre of mass of all moving bodies, in the world frame, (…, 3) [m].

        Args:
            q: Configuration, (…, nq).
            out: Array for the result.
        """

    @quantity(center_of_mass_jacobian, guard=require_mass)
    def center_of_mass_jacobian(self, q: ArrayLike, *, out: Array | None = None) -> Array:
        """Jacobian of the centre of mass, which maps v to its velocity, (…, 3, nv).

        Args:
            q: Configuration, (…, nq).
            out: Array for the result.
        """

    @quantity(centroidal_momentum_matrix, guard=require_mass)
    def centroidal_momentum_matrix(self, q: ArrayLike, *, out: Array | None = None) -> Array:
        """Centroidal momentum matrix, which maps v to momentum about the centre of mass, (…, 6, nv).

        Angular momentum first [kg m²/s], then linear [kg m/s], in world axes.

        Args:
            q: Configuration, (…, nq).
            out: Array for the result.
        """

    # All of them

    def compile(
        self,
        functions: Iterable[str] | None = None,
        progress: Progress | None = None,
        *,
        specialize: bool | str = False,
    ) -> Self:
        """Compile functions now, so that no call has to or runs on code that is not optimised yet: for control loops.

        If this takes long, processes on the other cores help by filling the cache of compiled code.

        With `specialize`, the result is another model of the same robot, all of whose functions run on straight-line
        code for this robot alone, wherever that is expected to be faster: often 1.5 to 3 times as fast. It is not
        shared between robots and takes longer to compile, from tenths of a second to a few seconds for each function,
        or for each choice of frames. `function.specialization()` tells what was chosen and why. Results agree with
        those of this model up to rounding; this model does not change.

        On trees with several limbs, straight-line code is faster in batches, but slower for single samples, for which
        shared code computes several limbs at once. Then it matters what `specialize` asks for.

        Args:
            functions: Names of functions, and of derivatives as "forward_dynamics.vjp"; by default all that the robot
                has; () for none, which are then compiled when they are called.
            progress: Called with the name of the function that is next, the number of those done, and of all; also at
                the end, with an empty name. By default, a line of text shows progress if standard error is a terminal.
            specialize: Whether the result runs on code for this robot alone: True where it is faster on average of
                single samples and batches, "single" or "batch" where it is faster for these.

        Returns:
            This model, or the specialized one.

        Raises:
            UnsupportedError: If `specialize` is given and a function in `functions` executes too many operations to be
                unrolled.
        """
        if isinstance(functions, str) or not isinstance(functions, Iterable | None):
            raise InputError(f"compile() takes a list of names of functions, or None for all; got {functions!r}")
        if not isinstance(specialize, bool) and specialize not in ("single", "batch"):
            raise InputError(f"compile(): specialize is True, False, 'single' or 'batch'; got {specialize!r}")
        names = self._exist() if functions is None else tuple(functions)
        robot = self._with_own_code("both" if specialize is True else str(specialize)) if specialize else self
        chosen = [robot._function(name) for name in names]
        if functions is not None and specialize:
            for name, function in zip(names, chosen, strict=True):
                if function.specialization().operations is None:
                    raise UnsupportedError(
                        f"compile(): {name} of this robot cannot be specialized: {function.specialization().reason}. "
                        "Leave it out of `functions`: it then runs on code whose length does not grow with the robot"
                    )
        compile_functions(robot, names, progress)
        return robot

    def _exist(self) -> tuple[str, ...]:
        """Names of functions and derivatives that this robot has; some are for trees of rigid bodies only."""
        every = (*FUNCTIONS, *DERIVATIVES)
        if self.mechanism.first_general is None:
            return every
        return tuple(name for name in every if not self._function(name).algorithm.rigid)

    def count(self, function: str, frames: str | Iterable[str] | None = None) -> Count:
        """Number of operations in one evaluation of a function.

        Args:
            function: Name of a function, of a derivative such as "forward_dynamics.vjp", or of a method for Λ⁻¹, one
                of `kinetree.tasks.METHODS`.
            frames: The frames, for functions of frames and methods for Λ⁻¹; by default all.
        """
        if isinstance(function, str) and function in ALGORITHMS:
            sites = [self.site(name) for name in frame_names(function, self.frames if frames is None else frames)]
            view = view_of(sites, function)
            return count(in_view(inverse_inertia(function, "local"), self.mechanism, view), self.mechanism, sites)
        chosen = self._function(function)
        return chosen.count(frames) if isinstance(chosen, FrameFunction) else chosen.count()

    def export_c(
        self,
        functions: Iterable[str],
        directory: Any,
        *,
        frames: Any = None,
        pairs: Any = None,
        scalar: str | None = None,
    ) -> tuple[Path, Path]:
        """Write functions of this robot as C99: a header and a source file, without allocation, for one sample.

        Compiled with `-ffp-contract=off` or `-std=c99`, they give the same bits as the native engine. The source file
        contains a `main`, enabled by a macro, that checks them against numbers computed by the library.

        Args:
            functions: Names of functions, of derivatives such as "forward_dynamics.vjp", "inverse_inertia" and
                "inertia" of tasks, or "distances" of shapes.
            directory: The directory to write to, created if necessary. The files are named after the robot.
            frames: Names of the frames, for functions of frames, which use the frames' own coordinates. For
                "inverse_inertia" and "inertia" also `Task`, `RelativeTask` and `CenterOfMassTask`, as in `tasks`.
            pairs: For "distances", from `collision_pairs`, which is called without arguments by default. Pairs come
                last in memory there: normals are (3, p), points (2, 3, p).
            scalar: "double" or "float"; by default the type of this robot, see `astype`.

        Returns:
            The paths of the header and the source file.
        """
        from importlib.metadata import version  # here, because importing it takes 20 ms

        exported = (*FUNCTIONS, *DERIVATIVES)
        return export_c(self, functions, exported, directory, frames, pairs, scalar, version("kinetree"))

    def _function(self, name: str) -> Any:
        if not isinstance(name, str):
            raise UnknownNameError("function", name, (*FUNCTIONS, *ALGORITHMS))
        if "." in name and name not in DERIVATIVES:
            raise UnknownNameError("derivative", name, DERIVATIVES)
        if name not in FUNCTIONS and name not in DERIVATIVES:
            raise UnknownNameError("function", name, (*FUNCTIONS, *ALGORITHMS))
        return attrgetter(name)(self)


#: Names of all functions of a model, in teaching order.
FUNCTIONS = tuple(
    name
    for owner in (Configurations, Kinematics, Dynamics, Reactions, Derivatives)
    for name, member in vars(owner).items()
    if isinstance(member, Quantity)
)

#: Names of derivatives of functions, as accepted by `compile` and `count`.
DERIVATIVES = tuple(
    f"{function}.{which}" for function in ("inverse_dynamics", "forward_dynamics") for which in ("jvp", "vjp", "hvp")
)
