"""Dask and xarray arrays in, lazy arrays out: shapes, chunks, values, and nothing loaded before compute()."""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import SingularTaskError, UnsupportedError
from kinetree.runtime import threads
from kinetree.runtime.function import Function
from kinetree.runtime.gradients import Gradient
from kinetree.viewer.film import _motion
from tests.bridges.cases import robot, sample
from tests.oracle import oracle
from tests.tolerance import refused

dask = oracle("dask")
da = oracle("dask.array")
xr = oracle("xarray")

SAMPLES = 10
FRAME = "link3"


def unreadable(*core: int, samples: int = SAMPLES, dtype: type = float) -> Any:
    """An array that cannot be computed."""

    def fail() -> None:
        raise AssertionError("loaded")

    return da.from_delayed(dask.delayed(fail)(), (samples, *core), dtype=dtype)


def state(model: kt.Model, samples: int = SAMPLES) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    v, a, tau = rng.standard_normal((3, samples, model.nv))
    return {"q": model.random_configuration(rng, (samples,)), "v": v, "a": a, "tau": tau, "dt": rng.random(samples)}


def lazy(arrays: dict[str, Any], chunk: int = 4) -> dict[str, Any]:
    """The same as Dask arrays; what belongs to one sample is in several chunks."""
    return {name: da.from_array(x, chunks=(chunk, *(3 for _ in x.shape[1:]))) for name, x in arrays.items()}


CALLS = {
    "forward_dynamics": (("q", "v", "tau"), {}),
    "inverse_dynamics.vjp": (("q", "v", "a", "tau"), {}),
    "energy": (("q", "v"), {}),
    "mass_matrix_log_determinant": (("q",), {}),
    "integrate": (("q", "v", "dt"), {}),
    "step": (("q", "v", "tau", "dt"), {"method": "rk4"}),
    "pose": (("q", FRAME), {}),
    "jacobian": (("q", [FRAME, "link1"]), {"reference": "world"}),
    "regressor": (("q", "v", "a"), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_lazy_results_have_the_bits_of_eager_ones(name: str) -> None:
    model = robot()
    eager = state(model)
    deferred = lazy(eager)
    positions, options = CALLS[name]

    def call(arrays: dict[str, Any]) -> Any:
        function: Any = model
        for part in name.split("."):
            function = getattr(function, part)
        given = {key: arrays.get(value, value) for key, value in options.items()}
        return function(*(arrays[x] if isinstance(x, str) and x in arrays else x for x in positions), **given)

    expected, got = call(eager), call(deferred)
    assert type(got) is (type(expected) if isinstance(expected, tuple) else da.Array)
    for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (got, expected)), strict=True):
        assert isinstance(one, da.Array)
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        assert one.chunks == ((4, 4, 2), *((n,) for n in other.shape[1:]))
        computed = one.compute(scheduler="threads")
        assert computed.tobytes() == np.ascontiguousarray(other).tobytes()


def derivatives(function: Function[..., Any]) -> list[Any]:
    found = []
    for which in ("jvp", "vjp", "hvp"):
        with suppress(AttributeError, UnsupportedError):
            found.append(getattr(function, which))
    return found


def test_every_function_stays_lazy() -> None:
    model = kt.zoo.humanoid24()
    sizes = {"q": (model.nq,), "q0": (model.nq,), "q1": (model.nq,), "dt": (), "ddt": ()}
    names = [name for name in dir(model) if isinstance(getattr(model, name), Function)]
    assert len(names) > 25
    for name in names:
        function = getattr(model, name)
        derived = derivatives(function)
        for each in (x for x in derived if isinstance(x, Gradient)):
            with pytest.raises(UnsupportedError, match="of lazy arrays: map it over blocks"):
                each(unreadable(model.nq), unreadable(model.nv))
        lazy = [x for x in derived if not isinstance(x, Gradient)]
        for each in (function, *lazy, function.engine("reference")):
            given: dict[str, Any] = {"frames": model.frames[-1]} if "frames" in each._names else {}
            given |= {x: unreadable(*sizes.get(x, (model.nv,))) for x in each._names if x in each.ranks}
            result = each(**given)
            for part in result if isinstance(result, tuple) else (result,):
                assert isinstance(part, da.Array), name
                assert part.shape[0] == SAMPLES, name
    linear = model.linearize(unreadable(24), unreadable(24), tau=unreadable(24))
    assert [part.shape for part in linear] == [(SAMPLES, 24, 24)] * 3


@pytest.mark.parametrize("contacts", [(), ("left_foot",)])
def test_tasks_stay_lazy(contacts: tuple[str, ...]) -> None:
    model = kt.zoo.humanoid24()
    tasks = model.tasks([model.frames[-1]], contacts=contacts)
    eager = state(model)
    got, expected = tasks.dynamics(lazy(eager)["q"]), tasks.dynamics(eager["q"])
    assert type(got) is type(expected)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    q, v = unreadable(model.nq), unreadable(model.nv)
    for name in ("inertia", "inverse_inertia", "jacobian", "rank", "dynamics"):
        getattr(tasks, name)(q)
    for name in ("bias", "jacobian_dot_v"):
        assert getattr(tasks, name)(q, v).shape == (SAMPLES, tasks.rows)
    if not contacts:
        assert tasks.inverse_inertia_derivative(q, v).shape == (SAMPLES, 6, 6)


def test_a_singular_sample_is_reported_when_its_block_is_computed() -> None:
    model = kt.zoo.double_pendulum()
    tasks = model.tasks(["tip"], singular="raise")
    result = tasks.inertia(da.zeros((6, 2), chunks=(3, 2)))
    with pytest.raises(SingularTaskError):
        result.compute(scheduler="synchronous")


def test_constrained_dynamics_stays_lazy() -> None:
    model = kt.zoo.double_pendulum()
    eager = state(model)
    expected = model.constrained_dynamics(eager["q"], eager["v"], eager["tau"], [kt.Task("tip", (3,))])
    got = model.constrained_dynamics(*(lazy(eager)[name] for name in ("q", "v", "tau")), [kt.Task("tip", (3,))])
    assert type(got) is type(expected)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one.compute(scheduler="threads"), other)


def test_batch_axes_broadcast_and_chunks_are_matched() -> None:
    s, model = sample(robot()), robot()
    expected = model.forward_dynamics(s.q, s.v, s.x, f_ext=s.f_ext)
    first = next(iter(s.f_ext))
    f_ext = {**s.f_ext, first: da.from_array(s.f_ext[first], chunks=2)}
    got = model.forward_dynamics(da.from_array(s.q, chunks=(1, -1)), s.v, da.from_array(s.x, chunks=(2, 1, -1)), f_ext)
    assert got.chunks == ((2, 1), (1, 1), (model.nv,))
    np.testing.assert_array_equal(got.compute(scheduler="threads"), expected)
    eager = state(model)
    tau = da.from_array(eager["tau"], chunks=(3, -1))
    mixed = model.forward_dynamics(lazy(eager, 5)["q"], eager["v"], tau)
    assert mixed.chunks[0] == (3, 2, 1, 3, 1)
    single = model.mass_matrix(da.from_array(eager["q"][0], chunks=2))
    np.testing.assert_array_equal(single.compute(scheduler="threads"), model.mass_matrix(eager["q"][0]))


def test_dasks_own_functions_take_ours() -> None:
    model = robot()
    eager = state(model)
    deferred = {name: x.rechunk((4, *x.shape[1:])) for name, x in lazy(eager).items()}
    q, v, tau = (deferred[name] for name in ("q", "v", "tau"))
    expected = model.forward_dynamics(eager["q"], eager["v"], eager["tau"])
    gufunc = da.apply_gufunc(
        model.forward_dynamics, "(q),(v),(v)->(v)", q, v, tau, output_dtypes=float, allow_rechunk=True
    )
    blocks = da.map_blocks(model.forward_dynamics, q, v, tau, dtype=float, chunks=((4, 4, 2), (model.nv,)))
    for result in (gufunc, blocks):
        np.testing.assert_array_equal(result.compute(scheduler="threads"), expected)


def test_lazy_results_can_be_pickled_and_named() -> None:
    model = robot()
    eager = state(model)
    one, other = (model.mass_matrix(lazy(eager)["q"]) for _ in range(2))
    assert one.name == other.name  # Dask recognises equal computations
    heavier = model.with_inertia(model.bodies[-1].name, mass=9.0).mass_matrix(lazy(eager)["q"])
    assert heavier.name != one.name
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(again.compute(scheduler="threads"), model.mass_matrix(eager["q"]))


def test_blocks_run_in_one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    spread: list[int] = []
    real = threads.run
    monkeypatch.setattr(threads, "run", lambda tasks: spread.append(len(tasks)) or real(tasks))
    monkeypatch.setattr(threads, "_count", 2)
    model, samples = kt.zoo.double_pendulum(), threads.NUMBERS_PER_THREAD
    model.mass_matrix(da.zeros((2 * samples, 2), chunks=samples)).compute(scheduler="threads")
    assert spread == []
    model.mass_matrix(np.zeros((samples, 2)))  # as large as one of these blocks
    assert spread == [2]


def test_data_arrays_are_matched_by_name() -> None:
    model = robot()
    eager = state(model, 6)
    q = eager["q"].reshape(2, 3, model.nq)
    v = np.ascontiguousarray(np.swapaxes(eager["v"].reshape(2, 3, model.nv), 0, 1))
    for chunk in (None, {"trial": 1}):
        Q = xr.DataArray(q, dims=("trial", "time", "coordinate"), coords={"time": [0.0, 0.1, 0.2]})
        V = xr.DataArray(v, dims=("time", "trial", "joint"))
        data = xr.Dataset({"q": Q, "v": V})
        data = data if chunk is None else data.chunk(chunk)
        got = model.energy(data.q, data.v)
        assert type(got).__name__ == "Energy"
        assert got.kinetic.dims == ("trial", "time")
        assert list(got.kinetic.time) == [0.0, 0.1, 0.2]
        assert isinstance(got.kinetic.data, da.Array) == (chunk is not None)
        expected = model.energy(q, eager["v"].reshape(2, 3, model.nv))
        np.testing.assert_array_equal(got.kinetic.values, expected.kinetic)
        forces = model.gravity_forces(data.q)
        assert forces.dims == ("trial", "time", "gravity_forces_0")
        # one sample needs no names
        still = model.energy(data.q, np.zeros(model.nv)).kinetic
        assert not still.any()


def test_what_cannot_be_lazy_is_refused() -> None:
    model = robot()
    q, v = unreadable(model.nq), unreadable(model.nv)
    refused(r"mass_matrix: a lazy result cannot be written to out=; store it", model.mass_matrix, q, out=np.empty(3))
    refused(r"mass_matrix: q has shape \(10, 3\), expected \(\.\.\., ", model.mass_matrix, unreadable(3))
    refused(r"mass_matrix: q has shape \(10,\), expected", model.mass_matrix, unreadable())
    refused("mass_matrix: q has dtype bool", model.mass_matrix, unreadable(model.nq, dtype=bool))
    refused("mass_matrix: q has dtype complex", model.mass_matrix, unreadable(model.nq, dtype=complex))
    refused(
        r"energy: batch shapes do not broadcast: q \(10,\), v \(7,\)", model.energy, q, unreadable(model.nv, samples=7)
    )
    refused("energy takes no 'w'", model.energy, q, w=v)
    refused("no frame is called 'nose'", model.pose, q, "nose")
    refused(
        "mass_matrix: q is a Delayed, which is lazy but not an array; make it a dask.array.Array",
        model.mass_matrix, dask.delayed(np.zeros)(3),
    )  # fmt: skip
    unknown = q[unreadable() > 0.0]
    refused(r"mass_matrix: q has chunks of unknown size.*compute_chunk_sizes\(\)", model.mass_matrix, unknown)
    whole = "which would be loaded as a whole. Functions of a robot and of its tasks take Dask arrays"
    refused(f"mass_matrix: q is a sequence of Dask arrays, {whole}", model.mass_matrix, [q[0], q[1]])
    refused(f"q is a Dask array, {whole}", model.q_to_dict, q)
    refused(f"operators: q is a Dask array, {whole}", model.operators, q[0])
    refused(f"at: q is a Dask array, {whole}", model.tasks([FRAME]).at, q)
    held = model.constraints([FRAME], at=model.neutral())
    refused(f"constraints: forward_dynamics: v is a Dask array, {whole}", held.forward_dynamics, np.zeros(15), v, v)
    refused(f"constraints: error: q is a Dask array, {whole}", held.error, q)
    refused(f"constraints: project: q is a Dask array, {whole}", held.project, q, v)
    refused(f"constraints: project_velocity: v is a Dask array, {whole}", held.project_velocity, np.zeros(15), v)
    refused(f"that an operator multiplies is a Dask array, {whole}", model.operators(model.neutral()).H.T.__matmul__, v)
    refused(f"q is a Dask array, {whole}", _motion, model, q)
    refused(f"is a Dask array, {whole}", kt.control.pose_error, unreadable(4, 4), np.eye(4))


def test_data_arrays_that_do_not_match_are_refused() -> None:
    model = robot()
    q = xr.DataArray(unreadable(model.nq), dims=("time", "coordinate"))
    v = xr.DataArray(unreadable(model.nv), dims=("time", "joint"))
    late = v.assign_coords(time=np.arange(SAMPLES) + 1)
    refused("energy: dimensions do not match: ", model.energy, q.assign_coords(time=np.arange(SAMPLES)), late)
    refused(r"energy: v has batch axes without names, shape \(10, ", model.energy, q, v.data)
    refused("energy: q is a Dataset; give a DataArray, such as one", model.energy, xr.Dataset({"q": q}), v)


def test_dask_is_imported_only_when_needed() -> None:
    program = (
        "import sys, numpy as np, kinetree as kt\n"
        "robot = kt.zoo.double_pendulum()\n"
        "robot.mass_matrix(np.zeros((3, 2))), robot.tasks(['tip']).inertia(np.zeros((3, 2)))\n"
        "print([name for name in ('dask', 'xarray', 'zarr', 'kinetree.runtime.dask') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_dask_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    q = unreadable(2)
    monkeypatch.setitem(sys.modules, "dask.array", None)
    refused(r"mass_matrix: q is lazy, which needs Dask .*'kinetree\[dask\]'", kt.zoo.double_pendulum().mass_matrix, q)
