"""Products y = A x of matrices with vectors, as recursions: what gradients of matrices are computed from.

Entries of a matrix A with weights W add up to Σ eᵢᵀ A wᵢ, where wᵢ is row i of W. So the gradient of this sum takes as
many runs of the product backwards as A has rows: O(n) each, also where A is a Jacobian with n columns.

    matrix                                    product                                      rows
    J of frames                               their velocities                             6 per frame
    J̇; ∂(J v)/∂q                              changes of these, as q moves with v; with x   6 per frame
    derivatives of accelerations              changes of accelerations                     6 per frame
    J of the centre of mass                   its change                                   3
    centroidal momentum matrix                momentum                                     6
    gradient of ln det M                      change of ln det M                           1
    M; M⁻¹                                    inverse; forward dynamics at rest            n
    linearised inverse; forward dynamics      their changes                                n
    regressors                                joint forces of inertial parameters x        n
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kinetree.algorithms.derivatives.forward_dynamics_derivatives import forward_dynamics_derivatives
from kinetree.algorithms.derivatives.inverse_dynamics_derivatives import inverse_dynamics_derivatives
from kinetree.algorithms.dynamics import centroid, inertias, regressor
from kinetree.algorithms.dynamics import mass_matrix as mass
from kinetree.algorithms.dynamics.forward_dynamics import forward_dynamics
from kinetree.algorithms.dynamics.innovations import log_determinant_gradient
from kinetree.algorithms.dynamics.inverse_dynamics import inverse_dynamics
from kinetree.algorithms.kinematics import acceleration_derivatives as accelerations
from kinetree.algorithms.kinematics import frame_kinematics as frames
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.forward_mode import directional_derivative
from kinetree.language.tree import Indexed, Tree
from kinetree.spatial.dual import IN_REVERSE
from kinetree.spatial.inertia import CoriolisInertia, RigidInertia
from kinetree.spatial.motion import Force, Motion
from kinetree.spatial.rotation import cross, stack


def _change(text: Algorithm, of: Algorithm, tangent: str, directions: Mapping[str, str] | None = None) -> Algorithm:
    """The product of `text`: the change of a function's results along directions, by name."""
    name = f"product_of_{text.name}"
    return directional_derivative(of, name, tangent, directions or {}, ("y",), level=IN_REVERSE)


def _of(text: Algorithm, **names: str) -> Algorithm:
    """A recursion with other names of its inputs."""
    return replace(text, inputs=tuple(replace(a, name=names.get(a.name, a.name)) for a in text.inputs))


@algorithm(q=("q",), x=("v",), y=(6,), outputs=("y",))
def centroidal_momentum(tree: Tree, q: Indexed, x: Indexed, y: Indexed) -> None:
    """Momentum about the centre of mass, of velocities x."""
    inertias.start_composite(tree)
    tree.world.V, tree.world.h = Motion.zero(), Force.zero()

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        k.R = inertias.own(tree, k)
        k.V = k.X @ parent.V + k.H @ x[k]
        k.h = k.M @ k.V

    for k, parent in tree.gather():
        parent.R += k.X.congruence(k.R)
        parent.h += k.X.T @ k.h

    total, h = inertias.total(tree), tree.world.h
    y[...] = stack(h.angular - cross(total.first_moment / total.mass, h.linear), h.linear)


@algorithm(q=("q",), v=("v",), a=("v",), x=("frames", 10), y=("v",), outputs=("y",))
def forces_of_parameters(tree: Tree, q: Indexed, v: Indexed, a: Indexed, x: Indexed, y: Indexed) -> None:
    """Joint forces that move bodies at frames with inertial parameters x."""
    tree.world.V, tree.world.alpha, tree.world.f = Motion.zero(), -tree.gravity, Force.zero()

    for k, parent in tree.scatter():
        k.X, V_p = k.weight(q[k]), parent.V
        k.V = k.X @ V_p + k.H @ v[k]
        k.alpha = k.X @ parent.alpha + k.H @ a[k] + k.coriolis(k.V, v[k], V_p)
        k.f = k.M @ (k.H @ (0.0 * v[k]))  # the type of forces

    for frame, carrier in tree.frames():
        body, V = RigidInertia(x[frame]), frame.X @ carrier.V
        carrier.f += frame.X.T @ (body @ (frame.X @ carrier.alpha) + V.cross(body @ V))

    _to_joints(tree, y)


@algorithm(
    q=("q",), v=("v",), v_ref=("v",), a_ref=("v",), x=("frames", 10), y=("v",), outputs=("y",), rigid=True
)  # fmt: skip
def tracking_forces_of_parameters(
    tree: Tree, q: Indexed, v: Indexed, v_ref: Indexed, a_ref: Indexed, x: Indexed, y: Indexed
) -> None:
    """The same for the forces of `tracking_regressor`."""
    tree.world.V = tree.world.V_ref = Motion.zero()
    tree.world.alpha, tree.world.f = -tree.gravity, Force.zero()

    for k, parent in tree.scatter():
        k.X = k.weight(q[k])
        k.V = k.X @ parent.V + k.H @ v[k]
        k.V_ref = k.X @ parent.V_ref + k.H @ v_ref[k]
        k.alpha = k.X @ parent.alpha + k.H @ a_ref[k] + k.V.cross(k.H @ v_ref[k])
        k.f = Force.zero()

    for frame, carrier in tree.frames():
        body, V, V_ref = RigidInertia(x[frame]), frame.X @ carrier.V, frame.X @ carrier.V_ref
        carrier.f += frame.X.T @ (body @ (frame.X @ carrier.alpha) + CoriolisInertia.of(body, V) @ V_ref)

    _to_joints(tree, y)


def _to_joints(tree: Tree, y: Indexed) -> None:
    for k, parent in tree.gather():
        y[k] = k.H.T @ k.f
        parent.f += k.X.T @ k.f


_OF_ACCELERATIONS = (
    (accelerations.ACCELERATION_DERIVATIVES, frames.ACCELERATIONS),
    (accelerations.CLASSICAL_ACCELERATION_DERIVATIVES, frames.CLASSICAL_ACCELERATIONS),
)


def _products() -> dict[str, Algorithm]:
    found = {
        mass.mass_matrix: mass.mass_matrix_product,
        mass.mass_matrix_inverse: mass.mass_matrix_solve,
        centroid.centroidal_momentum_matrix: centroidal_momentum,
        centroid.center_of_mass_jacobian: _change(centroid.center_of_mass_jacobian, centroid.center_of_mass, "x"),
        log_determinant_gradient: _change(log_determinant_gradient, mass.mass_matrix_log_determinant, "x"),
        regressor.regressor: forces_of_parameters,
        regressor.tracking_regressor: tracking_forces_of_parameters,
    }
    for text, of, third in (
        (inverse_dynamics_derivatives, inverse_dynamics, "a"),
        (forward_dynamics_derivatives, forward_dynamics, "tau"),
        *((by[r], of[r], "a") for by, of in _OF_ACCELERATIONS for r in by),
    ):
        found[text] = _change(text, of, "xq", {"xv": "v", f"x{third}": third})
    for r, velocities in frames.VELOCITIES.items():
        of_x = _of(velocities, v="x")
        found[frames.JACOBIANS[r]] = of_x
        found[frames.JACOBIAN_RATES[r]] = _change(frames.JACOBIAN_RATES[r], of_x, "v")
        found[frames.VELOCITY_DERIVATIVES[r]] = _change(frames.VELOCITY_DERIVATIVES[r], velocities, "x")
    return {text.name: product for text, product in found.items()}


#: Products of matrices with x, or of several matrices with one x each, by the name of the text that has the matrices.
PRODUCTS: dict[str, Algorithm] = _products()

#: Changes of Jacobians along a direction dq, J̇ for velocities dq, by the name of the text that has the Jacobian.
RATES: dict[str, Algorithm] = {
    text.name: replace(_of(frames.JACOBIAN_RATES[r], v="dq"), name=f"{text.name}_jvp")
    for r, text in frames.JACOBIANS.items()
}
