"""A sample's result has the same bits, however it is laid out and wherever it is computed."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import kinetree as kt
from kinetree.compiler.llvm import machine_code
from kinetree.runtime import threads
from tests.parity.functions import FEW, FUNCTIONS, Array, Function, assert_same_bits, robot, states

#: Every remainder of every lane width, in float32 too, and enough for several threads.
SIZES = (*range(1, 34), 47, 49, 1000)
in_both_formats = pytest.mark.parametrize("name", ["every kind", "float32"])


def one_by_one(function: Function, model: kt.Model, q: Array, v: Array, x: Array) -> tuple[Array, ...]:
    """The batch computed as single calls."""
    samples = [function(model, *sample) for sample in zip(q, v, x)]
    return tuple(np.stack(parts) for parts in zip(*samples))


@pytest.mark.parametrize("name", ["every kind", "humanoid", "float32"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_batches_of_every_size(function: Function, name: str) -> None:
    model = robot(name)
    q, v, x = states(model, (max(SIZES),))
    alone = one_by_one(function, model, q, v, x)
    for size in SIZES:
        assert_same_bits(function(model, q[:size], v[:size], x[:size]), tuple(part[:size] for part in alone))


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_batches_of_every_shape(function: Function) -> None:
    model = robot()
    q, v, x = states(model, (24,))
    flat = function(model, q, v, x)
    for shape in ((24, 1), (2, 12), (2, 3, 4), (1, 1, 24), (2, 1, 3, 1, 4)):
        shaped = function(model, *(array.reshape(*shape, -1) for array in (q, v, x)))
        assert_same_bits(shaped, tuple(part.reshape(*shape, *part.shape[1:]) for part in flat))


LAYOUTS = {
    "every second sample": lambda a: np.repeat(a, 2, axis=0)[::2],
    "every second number": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "numbers backwards": lambda a: a[..., ::-1].copy()[..., ::-1],
    "Fortran order": np.asfortranarray,
    "transposed": lambda a: a.T.copy().T,
    "off the vector alignment": lambda a: _shifted(a, 8),
    "off every alignment": lambda a: _shifted(a, 3),
    "read-only": lambda a: _frozen(a),
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
}


def _shifted(array: Array, offset: int) -> Array:
    """The same numbers at an address that many bytes further on."""
    raw = np.empty(array.nbytes + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64 + offset
    shifted = raw[start : start + array.nbytes].view(np.uint8)
    result = np.ndarray(array.shape, array.dtype, buffer=shifted.data)
    result[...] = array
    return result


def _frozen(array: Array) -> Array:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


@in_both_formats
@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_memory_layouts(function: Function, layout: str, name: str) -> None:
    model = robot(name)
    q, v, x = states(model, (49,))
    expected = function(model, q, v, x)
    laid = tuple(LAYOUTS[layout](array) for array in (q, v, x))
    before = tuple(array.copy() for array in laid)
    assert_same_bits(function(model, *laid), expected)
    assert_same_bits(laid, before)


@in_both_formats
@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_single_samples_of_every_layout(function: Function, name: str) -> None:
    model = robot(name)
    pairs = states(model, (2,))
    expected = function(model, *(array[0] for array in pairs))
    for change in LAYOUTS.values():
        assert_same_bits(function(model, *(change(array)[0] for array in pairs)), expected)
    for layout in ("every second number", "numbers backwards", "off the vector alignment", "off every alignment"):
        assert_same_bits(function(model, *(LAYOUTS[layout](array[0]) for array in pairs)), expected)


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if len(f.inputs) > 1], ids=str)
def test_broadcasting(function: Function) -> None:
    model = robot()
    q, v, x = states(model, (5, 4))
    q, v, x = q[:, :1], v[0], x[0, 0]
    full = [np.broadcast_to(a, (5, 4, a.shape[-1])).copy() for a in (q, v, x)]
    batch = np.broadcast_shapes(*(a.shape[:-1] for a in function.arrays(q, v, x)))
    expected = function(model, *full)
    if batch != (5, 4):
        expected = tuple(part[:, 0].reshape(*batch, *part.shape[2:]) for part in expected)
    assert_same_bits(function(model, q, v, x), expected)


HOMES = {
    "fresh": np.empty_like,
    "Fortran order": lambda a: np.empty_like(a, order="F"),
    "strided": lambda a: np.empty((2 * len(a), *a.shape[1:]), a.dtype)[::2],
    "every second number": lambda a: np.empty((*a.shape, 2), a.dtype)[..., 0],
    "backwards": lambda a: np.empty_like(a)[::-1],
    "unaligned": lambda a: _shifted(a, 8),
}


@in_both_formats
@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_out(function: Function, name: str) -> None:
    model = robot(name)
    arrays = states(model, (49,))
    expected = function(model, *arrays)
    for layout, make in HOMES.items():
        homes = tuple(make(part) for part in expected)
        for home in homes:
            home[...] = np.nan
        results = function(model, *arrays, out=homes if len(homes) > 1 else homes[0])
        assert all(result is home for result, home in zip(results, homes, strict=True)), layout
        assert_same_bits(homes, expected)


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics", "mass_matrix_solve"])
@pytest.mark.parametrize("shape", [(), (1,), (11,), (300,)])
def test_out_may_be_an_input(name: str, shape: tuple[int, ...]) -> None:
    model = robot()
    (function,) = (f for f in FUNCTIONS if f.name == name)
    q, v, x = states(model, shape)
    (expected,) = function(model, q, v, x)
    both = x.copy()
    assert function(model, q, v, both, out=both)[0] is both
    assert_same_bits((both,), (expected,))
    if "v" in function.inputs:
        both = v.copy()
        function(model, q, both, x, out=both)
        assert_same_bits((both,), (expected,))


def test_out_may_overlap_an_input() -> None:
    model = robot()
    q, v, x = states(model, (40,))
    expected = model.forward_dynamics(q, v, x)
    for shift in (1, -1, 2):
        room = np.zeros((44, model.nv))
        source, home = room[2:42], room[2 + shift : 42 + shift]
        source[...] = x
        model.forward_dynamics(q, v, source, out=home)
        assert_same_bits((home,), (expected,))


@pytest.mark.parametrize("width", machine_code.WIDTHS)
@pytest.mark.parametrize(
    ("function", "name"), [*((f, "every kind") for f in FUNCTIONS), *((f, "float32") for f in FEW)], ids=str
)
def test_lane_widths(function: Function, name: str, width: int) -> None:
    if width > machine_code.host().width:
        pytest.skip(f"this processor has {machine_code.host().width} lanes")
    model = robot(name)
    arrays = states(model, (37,))
    expected = function(model, *arrays)
    with machine_code.use(machine_code.host().with_width(width)):
        assert_same_bits(function(_fresh(model), *arrays), expected)


@pytest.mark.parametrize(
    ("function", "name"), [*((f, "every kind") for f in FUNCTIONS), *((f, "float32") for f in FEW)], ids=str
)
def test_unoptimised_code(function: Function, name: str) -> None:
    """What laws say of one tier holds for both."""
    model = robot(name)
    arrays = states(model, (37,))
    single = tuple(array[0] for array in arrays)
    expected, expected_single = function(model, *arrays), function(model, *single)
    with machine_code.use(replace(machine_code.host(), optimizes=not machine_code.host().optimizes)):
        other = _fresh(model)
        assert_same_bits(function(other, *arrays), expected)
        assert_same_bits(function(other, *single), expected_single)


@in_both_formats
@pytest.mark.parametrize("function", FEW, ids=str)
def test_numbers_of_threads(function: Function, name: str) -> None:
    model = robot(name)
    arrays = states(model, (10_007,))
    try:
        threads.set_threads(1)
        expected = function(model, *arrays)
        for count in (2, 3, 7):
            threads.set_threads(count)
            assert_same_bits(function(model, *arrays), expected)
    finally:
        threads.set_threads(None)


def _runs_here(cpu: str) -> bool:
    return machine_code.host().is_x86 and machine_code.named(cpu).width <= machine_code.host().width


@pytest.mark.parametrize("cpu", ["x86-64", "haswell", "skylake-avx512", "znver4"])
@pytest.mark.parametrize(
    ("function", "name"),
    [*((f, "every kind") for f in FEW), *((f, "float32") for f in FEW if f.name == "forward_dynamics")],
    ids=str,
)
def test_other_processors(function: Function, name: str, cpu: str) -> None:
    if not _runs_here(cpu):
        pytest.skip(f"code for {cpu} does not run on this processor")
    model = robot(name)
    arrays = states(model, (19,))
    single = tuple(array[0] for array in arrays)
    expected, expected_single = function(model, *arrays), function(model, *single)
    with machine_code.use(machine_code.named(cpu)):
        other = _fresh(model)
        assert_same_bits(function(other, *arrays), expected)
        assert_same_bits(function(other, *single), expected_single)


def _fresh(model: kt.Model) -> kt.Model:
    """The same robot, without anything compiled for it."""
    return pickle.loads(pickle.dumps(model))


BAD = {
    "NaN in q": ("q", np.nan),
    "NaN in v": ("v", np.nan),
    "infinity in q": ("q", np.inf),
    "infinity in v": ("v", -np.inf),
    "NaN in the third": ("x", np.nan),
    "huge angle": ("q", 1e300),
    "subnormal": ("v", 5e-324),
    "zero quaternions": ("q", 0.0),
}


#: Those of float32 are fewer: a huge angle is infinite there.
SPOILT = [
    (function, bad, name)
    for function in FUNCTIONS
    for bad, (letter, _) in BAD.items()
    for name in ("every kind", "float32")
    if letter in function.inputs and (name == "every kind" or "NaN" in bad)
]


@pytest.mark.parametrize(("function", "bad", "name"), SPOILT, ids=str)
def test_a_bad_sample_leaves_its_neighbours_alone(function: Function, bad: str, name: str) -> None:
    letter, value = BAD[bad]
    model = robot(name)
    arrays = dict(zip("qvx", states(model, (21,))))
    good = function(model, **arrays)
    for place in (0, 7, 8, 20):
        spoilt = {name: array.copy() for name, array in arrays.items()}
        spoilt[letter][place] = value
        with np.errstate(all="raise"):
            results = function(model, **spoilt)
        others = np.arange(21) != place
        assert_same_bits(tuple(r[others] for r in results), tuple(g[others] for g in good))
        with np.errstate(all="raise"):
            alone = function(model, *(array[place] for array in spoilt.values()))
        assert_same_bits(tuple(r[place] for r in results), alone)


@pytest.mark.parametrize("function", FEW, ids=str)
def test_nan_in_gives_nan_out(function: Function) -> None:
    """In all that depends on q: the mass matrix has entries that do not."""
    model = robot()
    q, v, x = states(model, (9,))
    depends = [np.ptp(part, axis=0) > 0.0 for part in function(model, q, v[0], x[0])]
    q[4] = np.nan
    results = function(model, q, v, x)
    assert any(np.isnan(part[4][where]).all() and where.any() for part, where in zip(results, depends, strict=True))


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f.name != "tangent_map"], ids=str)
def test_quaternions_of_any_length_stand_for_their_direction(function: Function) -> None:
    """Twice a quaternion is the same rotation; a power of two scales without rounding."""
    model = robot()
    q, v, x = states(model, (5,))
    scaled = q.copy()
    for joint in model.joints:
        start = joint.q_slice.start + (3 if joint.kind == "floating" else 0)
        if joint.kind in ("spherical", "floating"):
            scaled[:, start : joint.q_slice.stop] *= 4.0
    assert_same_bits(function(model, scaled, v, x), function(model, q, v, x))
