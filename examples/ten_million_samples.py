"""Inertial parameters and friction of an arm from ten million samples, on a cluster of two processes.

Writes noisy measurements to a Zarr group (1.6 GB for ten million samples), identifies the robot from it, and shows the
time that it takes and the memory of the workers. Run it with `python examples/ten_million_samples.py 10_000_000`; it
needs `pip install "kinetree[dask,identification]"`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import dask.array as da
import distributed
import numpy as np

import kinetree as kt
from kinetree.identification import fit_inertial_parameters

CHUNK = 50_000
NOISE = 0.5  # of torques [N m]


def peak() -> float:
    """Largest memory of this process since it started [MB]."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM"))


def write_measurements(arm: kt.Model, samples: int, folder: str) -> None:
    """What sensors of an arm would record: states, accelerations, and torques with friction and noise."""
    random = da.random.default_rng(0)
    shape, chunks = (samples, arm.nv), (min(CHUNK, samples), arm.nv)
    q, v, a = (random.uniform(-limit, limit, shape, chunks=chunks) for limit in (2.0, 3.0, 10.0))
    noise = random.normal(0.0, NOISE, shape, chunks=chunks)
    tau = arm.inverse_dynamics(q, v, a) + 0.4 * v + 0.8 * da.sign(v) + noise  # lazy, like all of these
    arrays = {"q": q, "v": v, "a": a, "tau": tau}
    da.compute(*(x.to_zarr(f"{folder}/{name}", compute=False) for name, x in arrays.items()))


def identify(samples: int) -> float:
    """Identify an arm; returns the largest error of its torques, relative to the largest torque."""
    arm = kt.zoo.humanoid24().subtree("left_shoulder_pitch_link")
    guess = arm
    for body in arm.bodies:
        guess = guess.with_inertia(body.name, mass=1.4 * body.mass, com=body.com + 0.02)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        write_measurements(arm, samples, folder)
        written = time.perf_counter()
        data = (da.from_zarr(f"{folder}/{name}") for name in ("q", "v", "a", "tau"))
        fit = fit_inertial_parameters(guess, *data, friction=["viscous", "coulomb"], noise=NOISE)
        done = time.perf_counter()
    print(f"{samples:,} samples written in {written - start:.1f} s, identified in {done - written:.1f} s")
    print(f"{len(fit.base.names)} of {fit.base.matrix.shape[1]} combinations are identifiable, as {fit.base.names[5]}")
    print(f"residual {fit.residual:.4f} of the noise; viscous friction {fit.friction['viscous'].round(4)}")

    rng = np.random.default_rng(1)
    q, v, a = rng.uniform(-2.0, 2.0, (3, 1000, arm.nv))
    expected, found = arm.inverse_dynamics(q, v, a), fit.model.inverse_dynamics(q, v, a)
    error = float(np.abs(found - expected).max() / np.abs(expected).max())
    print(f"torques of the identified model differ by at most {error:.1e} of the largest")
    return error


def main() -> float:
    """Few samples, in this process."""
    return identify(20_000)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="600MB", dashboard_address="127.0.0.1:0"
        )
        with cluster, distributed.Client(cluster) as client:  # Dask arrays are computed there from now on
            identify(int(sys.argv[1]))
            print(
                f"largest memory of a worker {max(client.run(peak).values()):.0f} MB, of this process {peak():.0f} MB"
            )
