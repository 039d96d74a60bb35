"""From an algorithm to a lowered program: every stage keeps the IR well formed, and kernels cost what they must."""

from __future__ import annotations

import gc
import importlib
import pickle
import pkgutil
from typing import Any

import numpy as np
import pytest

import kinetree as kt
from kinetree import algorithms
from kinetree.algorithms.tasks import control_law, differential_step, grasp_sharing, support_sharing
from kinetree.algorithms.tasks.task_space import TaskKinds
from kinetree.compiler import programs
from kinetree.compiler.ir import Access, CodeBlock, Exit, Follow, For, Op, Program, Store, TreeLoop, needed, walk
from kinetree.compiler.llvm.phis import emit
from kinetree.compiler.lower.lower import lower
from kinetree.compiler.passes.fuse import fuse
from kinetree.compiler.passes.hoist import hoist
from kinetree.compiler.passes.simplify import simplify
from kinetree.compiler.programs import LIVE, PACKED, ProgramCache, is_own, lowered, variants_of
from kinetree.compiler.trace import trace
from kinetree.compiler.verify import verify
from kinetree.concurrency import gc_paused
from kinetree.kernels.constraint_rows import formula_row, formula_value
from kinetree.language.algorithm import Algorithm, algorithm
from kinetree.language.loops import NodeEntity, Table
from kinetree.language.mechanism import Mechanism, Site
from kinetree.language.node import told
from kinetree.model.loops.coupling import LinearFollower, PolynomialFollower
from kinetree.runtime import compile_queue, kernels
from kinetree.tasks.task_types import CenterOfMassTask, RelativeTask, Task, sites_of

ROBOT = kt.zoo.random_tree(7, kinds=("floating", "revolute", "prismatic", "universal"), seed=4)
SITES = tuple(ROBOT.site(name) for name in list(ROBOT.frames)[-2:])


def _algorithms() -> dict[str, Algorithm]:
    modules = pkgutil.walk_packages(algorithms.__path__, f"{algorithms.__name__}.")
    members = [member for module in modules for member in vars(importlib.import_module(module.name)).values()]
    return {member.name: member for member in members if isinstance(member, Algorithm)}


ALGORITHMS = _algorithms()
#: Spatial kernel operator models have nodes of any size, whose vectors are plain arrays.
PLAIN = kt.sko([-1, 0, 0], [None, np.ones((2, 3)), np.ones((3, 3))], [np.ones((3, 1)), np.eye(2), np.ones((3, 1))],
               [np.eye(3), np.eye(2), np.eye(3)]).mechanism  # fmt: skip


#: What second derivatives are for: joints with one degree of freedom each.
SINGLE = kt.zoo.random_tree(5, kinds=("revolute", "prismatic"), seed=4).mechanism


def _runs_on(name: str) -> tuple[Mechanism, tuple[Site, ...]]:
    if name.startswith("sko_"):
        return PLAIN, ()
    return (SINGLE, ()) if name.startswith("inverse_dynamics_curvature") else (ROBOT.mechanism, SITES)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_keeps_the_rules_and_every_stage_the_form(name: str) -> None:
    """The pipeline traces the package's own algorithms without the checks that are made here."""
    mechanism, sites = _runs_on(name)
    _check(ALGORITHMS[name], sites, mechanism)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_what_visits_no_node_is_a_kernel(name: str) -> None:
    """Dense algebra has a language of its own: a recursion knows what some nodes are made of."""

    def visits_nodes(block: CodeBlock) -> bool:
        for item in block.items:
            if isinstance(item, TreeLoop):
                roles = item.loop.roles if isinstance(item.loop, Table) else ()
                if any(isinstance(role, NodeEntity) and role.by == "kind" for role in roles):
                    return True
                if any(map(visits_nodes, item.blocks)):
                    return True
        return False

    one = ALGORITHMS[name]
    assert visits_nodes(trace(one, variants_of(one, *_runs_on(name)), checked=False).top)


FRAMES = list(ROBOT.frames)
#: Tasks of all kinds, and recursions that are made for the kinds of tasks present.
TASKS = (Task(FRAMES[-1]), Task(FRAMES[2], (3, 5)), RelativeTask(FRAMES[-2], FRAMES[3], (2,)), CenterOfMassTask())
MADE = {
    "control_step": lambda parts: control_law.control_step("efpa", parts),
    "task_residual": control_law.task_residual,
    "differential_step": differential_step.differential_step,
    "grasp_sharing": grasp_sharing.grasp_sharing,
    "support_sharing": lambda parts: support_sharing.support_sharing(parts, True),
}


@pytest.mark.parametrize("name", sorted(MADE))
def test_controllers_keep_the_rules_and_every_stage_the_form(name: str) -> None:
    tasks = TASKS[:-1] if name.endswith("_sharing") else TASKS  # nothing holds the centre of mass
    sites = tuple(site for task in tasks for site in sites_of(task, ROBOT.site))
    _check(MADE[name](TaskKinds.of(sites)), sites)


@pytest.mark.parametrize("formula", [LinearFollower(2), PolynomialFollower(2)])
@pytest.mark.parametrize("made", [formula_row, formula_value])
def test_formulas_of_joints_keep_the_rules_and_every_stage_the_form(made: Any, formula: Any) -> None:
    _check(made(formula, formula.constants - 1 if isinstance(formula, LinearFollower) else 1), ())


def _check(one: Algorithm, sites: tuple[Site, ...], mechanism: Mechanism = ROBOT.mechanism) -> None:
    variants = variants_of(one, mechanism, sites)
    assert is_own(one, variants)
    with gc_paused():
        program = trace(one, variants, checked=True)
        for stage in (simplify, fuse):
            verify(program)
            program = stage(program)
        verify(program)
        made = lower(program, one, variants)
        verify(made.program)
        verify(hoist(made.program))
        restored = pickle.loads(pickle.dumps(made))  # as programs are kept for other widths
        assert emit(restored, 2, 2) == emit(made, 2, 2)
        for used in (program, made.program, restored.program):
            used.forget(items=True)


def test_algorithms_of_others_are_checked() -> None:
    @algorithm(v=("v",), tau=("v",), outputs=("tau",))
    def carries_state(tree: Any, v: Any, tau: Any) -> None:
        total: Any = 0.0
        for k, _ in tree.scatter():
            total = v[k][0] + 1.0 if isinstance(total, float) else v[k][0]
            tau[k] = np.array([total] * len(v[k]), dtype=object)

    assert not is_own(carries_state, variants_of(carries_state, ROBOT.mechanism, ()))
    with pytest.raises(kt.errors.ContractError, match="different"):
        lowered(carries_state, variants_of(carries_state, ROBOT.mechanism, ()))


def _invariant(loop: For | Follow) -> list[Op]:
    """Operations in a loop's own body that depend on nothing in it."""
    inside = {id(loop.index), *(id(item) for item in loop.body.items)}
    ops = [item for item in loop.body.items if isinstance(item, Op)]
    return [
        op for op in ops if op.code not in ("load", "neg", "const") and not any(id(a) in inside for a in needed(op))
    ]


@pytest.mark.parametrize(
    "name", ["forward_dynamics_derivatives", "mass_matrix_inverse", "inverse_dynamics_derivatives"]
)
def test_nothing_invariant_is_left_in_loops(name: str) -> None:
    one = ALGORITHMS[name]
    variants = variants_of(one, ROBOT.mechanism, ())
    loops = [item for item in walk(lowered(one, variants).program.top) if isinstance(item, (For, Follow))]
    assert not [op for loop in loops for op in _invariant(loop)]


def looped() -> tuple[Program, Op, For]:
    """A program, the number zero in it, and a loop from there to three whose body comes next."""
    program = Program()
    zero, three = program.op("int", attr=0), program.op("int", attr=3)
    program.current = CodeBlock(program, program.top)
    return program, zero, For(Op("index", (), None, program.top), zero, three, program.current)


def test_what_a_loop_writes_is_read_in_it() -> None:
    """Loads of memory that a loop stores to stay in it, with what depends on them; loads move with what needs them."""
    program, zero, loop = looped()
    index, body = loop.index, loop.body
    written = program.load(Access(("array", 0), zero, 1))
    fixed = program.load(Access(("records", 0), zero, 1))
    alone = program.load(Access(("records", 0), zero, 2))
    doubled, square = program.op("add", written, written), program.op("mul", fixed, fixed)
    product = program.op("mul", program.op("add", square, alone), doubled)
    body.items.append(Store(Access(("array", 0), index, 0), product))
    program.top.items.append(loop)
    verify(hoist(program))
    assert {id(op) for op in program.top.items} >= {id(op) for op in (fixed, alone, square)}
    assert [item for item in body.items if isinstance(item, Op)] == [written, doubled, product]


def test_a_load_alone_is_not_moved() -> None:
    program, zero, loop = looped()
    fixed = program.load(Access(("records", 0), zero, 1))
    loop.body.items.append(Store(Access(("array", 0), loop.index, 0), program.op("neg", fixed)))
    items = list(loop.body.items)
    program.top.items.append(loop)
    hoist(program)
    assert loop.body.items == items


@pytest.mark.parametrize("count", [20, 60])
def test_a_loop_that_may_have_no_round_keeps_what_is_much_to_compute_in_vain(count: int) -> None:
    program, zero, loop = looped()
    loop.body.items.append(Store(Exit(), program.load(Access(("array", 0), zero, 1))))
    value = program.load(Access(("records", 0), zero, 1))
    for _ in range(count):
        value = program.op("mul", value, value)
    loop.body.items.append(Store(Access(("array", 0), loop.index, 0), value))
    program.top.items.append(loop)
    verify(hoist(program))
    assert (value in loop.body.items) == (count > 24)


@pytest.mark.parametrize("samples", [1, 2, 3, 9])  # one or two run on the kernel for single samples
def test_batches_alone_compile_one_kernel(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETREE_CACHE_DIR", "off")
    compiled: list[str] = []
    compile_text = compile_queue.compile_text

    def noting(text: str, *rest: Any) -> bytes:
        compiled.append(text)
        return compile_text(text, *rest)

    monkeypatch.setattr(compile_queue, "compile_text", noting)
    kernels._made.cache_clear()  # others may have compiled it
    robot = kt.zoo.random_tree(3, kinds=("cylindrical", "planar"), seed=1)
    robot.gravity_forces(robot.random_configuration(0, (samples,)))
    assert len([text for text in compiled if "@kernel(" in text]) == 1


def test_the_collector_is_paused_and_resumes() -> None:
    assert gc.isenabled()
    with gc_paused():
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_is_kept_is_made_once() -> None:
    made: list[int] = []

    def make(number: int) -> list[int]:
        made.append(number)
        return [number]

    kept = ProgramCache(make, lambda _: LIVE // 4)
    first = kept.get(0)
    assert kept.get(0) is first
    for _ in range(2):
        for number in range(4 + PACKED):
            assert kept.get(number) == [number]
    assert made == list(range(4 + PACKED))
    assert kept.get(-1) == [-1]
    kept.get(0)  # the one that was used longest ago
    assert made[-2:] == [-1, 0]


def test_what_cannot_be_pickled_is_made_again() -> None:
    made: list[int] = []

    def make(number: int) -> Any:
        made.append(number)
        return lambda: number

    kept = ProgramCache(make, lambda _: LIVE // 4)
    for number in (*range(5), 0):
        assert kept.get(number)() == number
    assert made == [*range(5), 0]


def test_short_results_stay_as_they_are_and_the_last_one_always_does() -> None:
    kept = ProgramCache(lambda number: [number], lambda made: made[0])
    short = [kept.get(number) for number in range(20)]
    assert all(kept.get(number) is one for number, one in enumerate(short))
    long = kept.get(2 * LIVE)
    assert kept.get(2 * LIVE) is long
    assert kept.get(3) == short[3]
    assert kept.get(3) is not short[3]


def test_a_program_is_traced_once_for_all_widths_and_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETREE_CACHE_DIR", "off")
    traced: list[str] = []
    original = programs.trace

    def noting(one: Algorithm, *rest: Any, **options: Any) -> Program:
        traced.append(one.name)
        return original(one, *rest, **options)

    monkeypatch.setattr(programs, "trace", noting)
    robot = kt.zoo.random_tree(3, kinds=("helical", "translational"), seed=2)
    names = ("mass_matrix", "gravity_forces", "center_of_mass")
    for chosen, batch in ((robot, ()), (robot, (9,)), (robot.astype("float32"), (9,))):
        for name in names:
            getattr(chosen, name)(chosen.random_configuration(0, batch))
    assert len(traced) == len(set(traced)) == len(names)


def test_messages_name_the_joint_and_not_how_its_formulas_are_specialised() -> None:
    robot = kt.Builder("arm")
    for name, parent, axis in (("a", "world", (1, 2, 3)), ("b", "a", (0, 1, 0.5))):
        robot.add_body(name, parent=parent, axis=axis, mass=1.0, inertia=np.eye(3), armature=0.1)
    kinds = robot.build().mechanism.kinds
    assert any("_any" in kind.name for kind in kinds)
    assert {told(kind) for kind in kinds} == {"revolute"}
