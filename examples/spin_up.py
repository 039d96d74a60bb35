"""A flexible boom is spun up: the benchmark of Kane, Ryan and Banerjee, and the frequencies of rotating beams.

A boom of 10 m on a hub reaches 6 rad/s in 15 s. It lags behind, by half a metre at most, and then springs back: bending
shortens a beam, so that centrifugal forces stiffen it. A model that leaves this out predicts that the boom breaks off.

The frequencies of a beam that rotates at constant speed are published [W82]. Here they follow from the derivative of
inverse dynamics by complex steps, on the reference engine.

[KRB87] T. Kane, R. Ryan, A. Banerjee, "Dynamics of a cantilever beam attached to a moving base", Journal of Guidance,
        Control, and Dynamics 10, 1987.
[W82]   A. Wright, C. Smith, R. Thresher, J. Wang, "Vibration modes of centrifugally stiffened beams", Journal of
        Applied Mechanics 49, 1982.

Run it with `python examples/spin_up.py`, or `python examples/spin_up.py spin_up.png` for a picture.
"""

from __future__ import annotations

import sys

import numpy as np

import kinetree as kt

LENGTH, EI, RHO_A = 10.0, 1.4e4, 1.2  # [m], [N m²], [kg/m]
SPEED, RISE = 6.0, 15.0  # of the hub [rad/s], and when it is reached [s]
SECONDS, STEP = 25.0, 0.02  # [s]
UNIT = np.sqrt(EI / (RHO_A * LENGTH**4))  # of frequencies [rad/s]

#: Speeds, and the two lowest frequencies out of the plane of rotation, in units of √(EI / ρA L⁴). [W82]
PUBLISHED = {0: (3.5160, 22.0345), 2: (4.1373, 22.6149), 6: (7.3604, 26.8091), 12: (13.1702, 37.6031)}


def boom(planes: str, modes: int, *, foreshortening: bool = True) -> kt.Model:
    """A beam on a hub that turns about the vertical."""
    beam = kt.Beam(LENGTH, EI, RHO_A, modes=modes, planes=planes, foreshortening=foreshortening)
    return kt.Builder("boom", gravity=(0, 0, 0)).add_flexible("boom", beam, joint="revolute", axis=(0, 0, 1)).build()


def hub(t: float) -> tuple[float, float, float]:
    """Angle, speed and acceleration of the hub."""
    w = 2.0 * np.pi / RISE
    if t >= RISE:
        return SPEED * (t - RISE / 2.0), SPEED, 0.0
    return (
        SPEED / RISE * (t**2 / 2.0 + (np.cos(w * t) - 1.0) / w**2),
        SPEED / RISE * (t - np.sin(w * t) / w),
        SPEED / RISE * (1.0 - np.cos(w * t)),
    )


def spin_up(robot: kt.Model) -> np.ndarray:
    """Sideways deflection of the tip [m], while the hub moves as prescribed; by the method of Runge and Kutta."""

    def rate(t: float, state: np.ndarray) -> np.ndarray:
        amplitudes, rates = state
        angle, speed, acceleration = hub(t)
        q, v, a = np.array([angle, *amplitudes]), np.array([speed, *rates]), np.zeros(robot.nv)
        a[0] = acceleration
        missing = -robot.inverse_dynamics(q, v, a)[1:]  # nothing drives the modes
        return np.array([rates, np.linalg.solve(robot.mass_matrix(q)[1:, 1:], missing)])

    state, film = np.zeros((2, robot.nv - 1)), []
    for i in range(round(SECONDS / STEP) + 1):
        t = i * STEP
        film.append(robot.pose(np.array([0.0, *state[0]]), "boom/tip")[1, 3])
        if abs(film[-1]) > LENGTH:
            break  # it has bent by more than its length
        k1 = rate(t, state)
        k2 = rate(t + STEP / 2.0, state + STEP / 2.0 * k1)
        k3 = rate(t + STEP / 2.0, state + STEP / 2.0 * k2)
        k4 = rate(t + STEP, state + STEP * k3)
        state = state + STEP / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return np.array(film)


def frequencies(robot: kt.Model, speed: float) -> np.ndarray:
    """Of the straight boom while it rotates; both speed and result in units of √(EI / ρA L⁴)."""
    zero, v, h = np.zeros(robot.nv), np.zeros(robot.nv), 1e-30
    v[0] = speed * UNIT
    tau = robot.inverse_dynamics.engine("reference")
    K = np.stack([tau(1j * h * e, v, zero).imag / h for e in np.eye(robot.nv)], axis=-1)
    M = robot.mass_matrix.engine("reference")(zero)
    squares = np.linalg.eigvals(np.linalg.solve(M[1:, 1:], K[1:, 1:])).real
    return np.sqrt(np.sort(squares)) / UNIT


def main(picture: str | None = None) -> float:
    """Spin up; returns the largest relative difference from the published frequencies."""
    stiffened, plain = spin_up(boom("y", 3)), spin_up(boom("y", 3, foreshortening=False))
    lag, after = stiffened.min(), np.abs(stiffened[round(RISE / STEP) :]).max()
    print(f"spun up to {SPEED:g} rad/s in {RISE:g} s")
    print(f"  the tip lags by {-lag:.3f} m, then swings by {1e3 * after:.1f} mm")
    print(f"  without foreshortening it is {LENGTH:g} m off after {len(plain) * STEP:.1f} s")
    out, within = boom("z", 6), boom("y", 6)
    worst = 0.0
    print("  frequencies, out of plane and in plane, in units of √(EI / ρA L⁴)")
    for speed, published in PUBLISHED.items():
        # in the plane of rotation, centrifugal forces follow the beam
        expected = np.array(published), np.sqrt(np.array(published) ** 2 - speed**2)
        found = frequencies(out, speed)[:2], frequencies(within, speed)[:2]
        worst = max(worst, *(float(np.max(np.abs(f / e - 1.0))) for f, e in zip(found, expected, strict=True)))
        print(f"    Ω = {speed:2d}: {found[0][0]:.4f} and {found[1][0]:.4f}; {published[0]:.4f} out of plane published")
    if picture:
        draw(picture, stiffened, plain, out, within)
    return worst


def draw(file: str, stiffened: np.ndarray, plain: np.ndarray, out: kt.Model, within: kt.Model) -> None:
    """The tip during spin-up, and frequencies over speed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    tip, beside = figure.subplots(1, 2)
    for film, style, label in ((stiffened, "C0", "with foreshortening"), (plain, "C3--", "without")):
        tip.plot(np.arange(len(film)) * STEP, film, style, label=label)
    tip.set(xlabel="time [s]", ylabel="deflection of the tip [m]", ylim=(-1.0, 0.3), title="spin-up to 6 rad/s in 15 s")
    tip.axvline(RISE, color="0.8", zorder=0)
    tip.legend(loc="lower right", fontsize=8)
    speeds = np.linspace(0.0, 12.0, 7)
    for robot, colour, label in ((out, "C0", "out of plane"), (within, "C1", "in plane")):
        found = np.array([frequencies(robot, speed)[:2] for speed in speeds])
        beside.plot(speeds, found[:, 0], colour, label=label)
        beside.plot(speeds, found[:, 1], colour)
    for speed, published in PUBLISHED.items():
        in_plane = np.sqrt(np.array(published) ** 2 - speed**2)
        beside.plot([speed] * 4, [*published, *in_plane], "k.", label="Wright et al. 1982" if speed == 0 else None)
    beside.set(xlabel="speed / √(EI / ρA L⁴)", ylabel="frequency / √(EI / ρA L⁴)", title="rotating beam")
    beside.legend(fontsize=8)
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:2])
