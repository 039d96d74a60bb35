"""One rule for inputs and for `out=`, on every engine and for every kind of function."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree.errors import InputError, UnknownNameError
from kinetree.runtime import arguments

ENGINES = ["native", "reference"]


@pytest.fixture(scope="module")
def robot() -> kt.Model:
    return kt.zoo.double_pendulum()


def functions(robot: kt.Model) -> dict[str, tuple[Any, tuple[int, ...], Any]]:
    """Functions, the shape of a result, and arguments behind q."""
    n, zero = robot.nv, np.zeros(robot.nv)
    return {
        "mass_matrix": (robot.mass_matrix, (n, n), ()),
        "mass_matrix_determinant": (robot.mass_matrix_determinant, (), ()),
        "mass_matrix_log_determinant": (robot.mass_matrix_log_determinant, (), ()),
        "jacobian": (robot.jacobian, (6, n), ("tip",)),
        "inverse_dynamics": (robot.inverse_dynamics, (n,), (zero, zero)),
    }


NAMES = ["mass_matrix", "mass_matrix_determinant", "mass_matrix_log_determinant", "jacobian", "inverse_dynamics"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_out_takes_the_result_or_is_refused(robot: kt.Model, name: str, engine: str, batch: tuple[int, ...]) -> None:
    function, core, rest = functions(robot)[name]
    function = function.engine(engine)
    q = robot.random_configuration(0, batch)
    expected = function(q, *rest)
    out = np.empty(batch + core)
    assert function(q, *rest, out=out) is out
    np.testing.assert_array_equal(out, expected)

    frozen = np.empty(batch + core)
    frozen.flags.writeable = False
    for wrong, message in {
        "shape": (np.empty((2, 2, *batch, *core)), rf"{name}: out has shape \(2, 2.*expected \("),
        "type": (np.zeros(batch + core, dtype=np.int64), f"{name}: out must be a float64 array, got dtype int64"),
        "single": (np.zeros(batch + core, dtype=np.float32), f"{name}: out must be a float64 array, got dtype float32"),
        "list": ([0.0], f"{name}: out must be a float64 array, got list"),
        "masked": (np.ma.zeros(batch + core), f"{name}: out must be a float64 array, got MaskedArray"),
        "read-only": (frozen, f"{name}: out is read-only"),
        "two": ((np.empty(batch + core), np.empty(batch + core)), f"{name}: out has 2 arrays, expected 1"),
    }.values():
        with pytest.raises(InputError, match=message):
            function(q, *rest, out=wrong)


class Lazy:
    """What makes a Dask collection one."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dask_graph__(self) -> dict[str, Any]:
        return {"a": 1}

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise AssertionError("loaded")


class Eager(Lazy):
    """What an xarray.DataArray is without Dask."""

    def __dask_graph__(self) -> None:
        return None

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        return self.array


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_that_would_lose_something_are_refused(robot: kt.Model, engine: str) -> None:
    q = np.zeros(2)
    function, forced = robot.mass_matrix.engine(engine), robot.inverse_dynamics.engine(engine)
    with pytest.raises(InputError, match=r"mass_matrix: q is a masked array, and its mask would be lost; fill it"):
        function(np.ma.masked_array(q, mask=[True, False]))
    with pytest.raises(InputError, match=r"mass_matrix: q is (a Lazy, which is lazy but not|lazy, which needs)"):
        function(Lazy(q))
    with pytest.raises(InputError, match=r"mass_matrix: q is a sequence of Dask arrays, which would be loaded"):
        function([Lazy(q), Lazy(q)])
    with pytest.raises(InputError, match=r"inverse_dynamics: the wrench on 'tip' is a masked array"):
        forced(q, q, q, f_ext={"tip": np.ma.zeros(6)})
    np.testing.assert_array_equal(function(Eager(q)), function(q))


def test_a_tensor_that_records_gradients_is_refused(robot: kt.Model) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match="mass_matrix: q is not an array of numbers .*requires grad"):
        robot.mass_matrix(torch.zeros(2, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("engine", ENGINES)
def test_words_are_no_numbers(robot: kt.Model, engine: str) -> None:
    with pytest.raises(InputError, match="mass_matrix: q has dtype <U1, expected"):
        robot.mass_matrix.engine(engine)(["a", "b"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", NAMES)
def test_no_floating_point_errors(robot: kt.Model, name: str, engine: str) -> None:
    function, _, rest = functions(robot)[name]
    function = function.engine(engine)
    with np.errstate(all="raise"):
        for bad in (np.nan, np.inf, 1e308, -1e200):
            function(np.array([bad, 0.1]), *rest)
            function(np.array([[bad, 0.1], [0.1, 0.2]]), *rest)


def test_names_that_are_nearly_right() -> None:
    robot = kt.zoo.humanoid24()
    with pytest.raises(UnknownNameError) as caught:
        robot.jacobian(robot.neutral(), "hand")
    message = str(caught.value)
    assert message.startswith("no frame is called 'hand'; did you mean 'left_hand' or 'right_hand'? There are: ")
    own = [frame.name for frame in robot.extra_frames]
    assert caught.value.choices[: len(own)] == tuple(own)
    assert set(caught.value.choices) == set(robot.frames)
    for wrong, meant in [("lefthand", "left_hand"), ("Left_Hand", "left_hand"), ("rihgt_foot", "right_foot")]:
        with pytest.raises(UnknownNameError, match=f"did you mean '{meant}'") as caught:
            robot.jacobian(robot.neutral(), wrong)
        assert caught.value.nearest[0] == meant
    assert pickle.loads(pickle.dumps(caught.value)).nearest == caught.value.nearest


@pytest.mark.parametrize("name", ["qqqq", "", "x" * 10**6])
def test_names_like_nothing(robot: kt.Model, name: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        robot.jacobian(robot.neutral(), name)
    assert caught.value.nearest == ()
    assert "did you mean" not in str(caught.value)


def test_linearize_takes_out(robot: kt.Model) -> None:
    q = robot.random_configuration(0, 4)
    expected = robot.linearize(q, q, tau=q)
    out = type(expected)(*(np.empty((4, 2, 2)) for _ in range(3)))
    result = robot.linearize(q, q, tau=q, out=out)
    assert type(result) is type(expected)
    for one, given, right in zip(result, out, expected, strict=True):
        assert one is given
        np.testing.assert_array_equal(one, right)
    with pytest.raises(InputError, match="inverse_dynamics_derivatives: out has 1 arrays, expected 3"):
        robot.linearize(q, q, a=q, out=np.empty((4, 2, 2)))


def test_wrenches_on_frames_used_before() -> None:
    """The second call on the same frames takes a short cut; what it takes and returns is the same."""
    robot = kt.zoo.double_pendulum()
    q, first, second = np.array([0.3, -0.2]), np.arange(6.0), -(np.arange(6.0) ** 2)
    frames = robot.frames[-2:]
    alone = robot.forward_dynamics(q, q, q, dict(zip(frames, (first, second), strict=True)))
    for pair in ((first, second), (first.tolist(), second), (first[::1], np.repeat(second, 2)[::2])):
        np.testing.assert_array_equal(robot.forward_dynamics(q, q, q, dict(zip(frames, pair, strict=True))), alone)
    out = np.empty(2)
    assert robot.forward_dynamics(q, q, q, f_ext=dict(zip(frames, (first, second), strict=True)), out=out) is out
    np.testing.assert_array_equal(out, alone)
    swapped = robot.forward_dynamics(q, q, q, dict(zip(frames[::-1], (second, first), strict=True)))
    np.testing.assert_allclose(swapped, alone, rtol=1e-14)
    batch = robot.forward_dynamics(q, q, q, dict(zip(frames, (np.tile(first, (3, 1)), second), strict=True)))
    np.testing.assert_array_equal(batch, np.tile(alone, (3, 1)))
    with pytest.raises(InputError, match=rf"the wrench on {frames[0]!r} has shape \(3,\)"):
        robot.forward_dynamics(q, q, q, dict(zip(frames, (first[:3], np.arange(9.0)), strict=True)))


def strided(shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """A writeable array whose steps in memory are given in numbers."""
    room = np.empty(1 + sum(abs(s) * (n - 1) for s, n in zip(strides, shape, strict=True)))
    return np.lib.stride_tricks.as_strided(room, shape, tuple(8 * s for s in strides))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("strides", "loses"),
    [
        ((0, 2, 1), True),
        ((4, 0, 1), True),
        ((3, 2, 1), True),
        ((4, 2, 2), True),
        ((4, 2, 1), False),
        ((1, 3, 6), False),
        ((2, 1, 6), False),
        ((5, 7, 1), False),
        ((2, 1, 100), False),
    ],
)
def test_out_has_a_place_for_each_number(robot: kt.Model, engine: str, strides: tuple[int, ...], loses: bool) -> None:
    q, out = robot.random_configuration(0, (3,)), strided((3, 2, 2), strides)
    places = np.add.outer(np.add.outer(strides[0] * np.arange(3), strides[1] * np.arange(2)), strides[2] * np.arange(2))
    assert loses == (len(np.unique(places)) < places.size)
    function = robot.mass_matrix.engine(engine)
    if loses:
        with pytest.raises(InputError, match="several entries of out have the same place in memory"):
            function(q, out=out)
    else:
        np.testing.assert_array_equal(function(q, out=out), robot.mass_matrix.engine(engine)(q))


def test_entries_that_overlap_by_bytes_are_refused(robot: kt.Model) -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(20), (3, 2, 2), (32, 16, 4))
    with pytest.raises(InputError, match="same place in memory"):
        robot.mass_matrix(robot.random_configuration(0, (3,)), out=out)


def test_an_empty_out_may_have_any_strides(robot: kt.Model) -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(4), (0, 2, 2), (0, 0, 0))
    assert robot.mass_matrix(np.zeros((0, 2)), out=out) is out


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("batch", [(), (3,), (500,)])
def test_results_do_not_share_memory(robot: kt.Model, engine: str, batch: tuple[int, ...]) -> None:
    if engine == "reference" and batch == (500,):
        return
    q, x = robot.random_configuration(0, batch), np.zeros((*batch, 2))
    function = robot.forward_dynamics_derivatives.engine(engine)
    expected = function(q, x, x)
    same = np.empty((*batch, 2, 2))
    for out in (
        (same, same, same),
        (same, np.empty_like(same), same),
        (np.empty_like(same), same, same.swapaxes(-1, -2)),
    ):
        with pytest.raises(InputError, match="out for .* and for .* share memory, so results would be lost"):
            function(q, x, x, out=out)
    columns = np.empty((*batch, 2, 6))  # parts of one array that lie among each other
    out = columns[..., :2], columns[..., 2:4], columns[..., 4:]
    function(q, x, x, out=out)
    for part, right in zip(out, expected, strict=True):
        np.testing.assert_array_equal(part, right)


def test_every_way_to_several_results_refuses_shared_memory(robot: kt.Model) -> None:
    q, v = np.zeros(2), np.zeros(2)
    world, tasks = kt.simulation.Simulator(robot), robot.tasks(["tip"])
    state, square = np.empty((21, 2)), np.empty((6, 6))
    calls = {
        "rollout": lambda: world.rollout(q, v, steps=20, out=(state, state)),
        "step": lambda: robot.step(q, v, v, 0.1, out=(state[0], state[0])),
        "rk4": lambda: robot.step(q, v, v, 0.1, method="rk4", out=(state[0], state[0])),
        "discretize": lambda: robot.discretize(q, v, v, 0.1, out=(square[:4, :4], square[:4, 2:4])),
        "linearize": lambda: robot.linearize(q, v, tau=v, out=(square[:2, :2],) * 3),
        "energy": lambda: robot.energy(state, state, out=(np.ones(21),) * 2),
        "tasks": lambda: tasks.dynamics(q, out=(np.empty((6, 6)), square[:2], square[:2, :2])),
    }
    for call in calls.values():
        with pytest.raises(InputError, match="share memory"):
            call()


@pytest.mark.parametrize("batch", [(), (5,), (40,)])
def test_results_may_share_memory_with_inputs(robot: kt.Model, batch: tuple[int, ...]) -> None:
    """At any place: whatever is computed does not read what has been overwritten."""
    rng = np.random.default_rng(0)
    functions = {
        "derivatives": robot.forward_dynamics_derivatives,
        **{method: lambda *x, m=method, **o: robot.step(*x, 0.01, method=m, **o) for method in ("midpoint", "rk4")},
        "vjp": lambda q, v, tau, **o: robot.forward_dynamics.vjp(q, v, tau, q, **o),
        "rollout": lambda *x, **o: kt.simulation.Simulator(robot).rollout(*x, steps=3, **o)[1:3],
    }
    for function in functions.values():
        inputs = rng.normal(size=(3, *batch, 2))
        expected = [np.array(part) for part in function(*inputs)]
        room = np.empty(inputs.size + sum(part.size for part in expected) + 9)
        for start in range(9):
            given = room[4 : 4 + inputs.size].reshape(inputs.shape)
            given[...] = inputs
            ends = start + np.cumsum([0, *(part.size for part in expected)])
            out = tuple(room[a:b].reshape(part.shape) for a, b, part in zip(ends, ends[1:], expected, strict=False))
            function(*given, out=out)
            for part, right in zip(out, expected, strict=True):
                np.testing.assert_array_equal(part, right)


@pytest.mark.parametrize("given", [2, 2.0, np.int8(2), np.uint64(2), np.float32(2.0), np.longdouble(2.0), np.array(2)])
def test_a_number_is_a_float_whatever_it_was(given: Any) -> None:
    found = arguments.number("x", given)
    assert type(found) is float
    assert found == 2.0


@pytest.mark.parametrize(
    "given", [True, np.True_, "2", None, 2j, [2.0], np.array([2.0]), np.nan, np.inf, -np.inf, 10**400, -(10**400)]
)
def test_what_is_no_number_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match=r"^x=.* is not a finite number$"):
        arguments.number("x", given)


def test_bounds_of_numbers() -> None:
    assert arguments.number("x", 0, 0.0) == 0.0
    assert arguments.number("x", 0.5, above=0.0, below=1.0) == 0.5
    for given, bounds in ((-1, {"least": 0.0}), (0.0, {"above": 0.0}), (1, {"below": 1.0})):
        with pytest.raises(InputError, match=f"x={given} is not small"):
            arguments.number("x", given, what="small", **bounds)
