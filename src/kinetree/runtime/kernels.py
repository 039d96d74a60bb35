"""Compiled kernels of an algorithm for one set of variants, from the cache on disk or newly compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import count
from typing import Any

import numpy as np

from kinetree.compiler import cache
from kinetree.compiler.formats import FLOAT64, Format, format_of
from kinetree.compiler.ir import Op, walk
from kinetree.compiler.llvm import machine_code
from kinetree.compiler.llvm.node_lanes import emit_node_lanes
from kinetree.compiler.llvm.phis import emit
from kinetree.compiler.lower.layout import Tables
from kinetree.compiler.lower.lower import Lowered
from kinetree.compiler.lower.node_schedule import LANES, LaneTables
from kinetree.compiler.programs import identity, is_own, lowered, variants_of
from kinetree.compiler.specialize import RobotKey, robot_key, straight
from kinetree.concurrency import ForkSafeLock
from kinetree.language.algorithm import Algorithm, Argument
from kinetree.language.mechanism import Mechanism, Site
from kinetree.language.setup import Variants
from kinetree.runtime.bound import Compiled, prepare
from kinetree.runtime.compile_queue import CompileJob, Libraries, Library, stored
from kinetree.runtime.operands import Binding, Operand

_FOREIGN = count()


class Kernels:
    """The kernels of one algorithm for one set of variants and one format, or of one robot that has code of its own."""

    def __init__(
        self,
        algorithm: Algorithm,
        variants: Variants,
        scalar: Format = FLOAT64,
        individual: RobotKey | None = None,
    ) -> None:
        self.algorithm, self.variants, self.scalar, self.individual = algorithm, variants, scalar, individual
        self._lock = ForkSafeLock()
        self._libraries: Libraries[tuple[int, bool, machine_code.Processor]] = Libraries()
        self._metadata: dict[str, Any] | None = None

    def program(self) -> Lowered:
        """The lowered program, the same for all widths."""
        if self.individual is None:
            return lowered(self.algorithm, self.variants)
        return straight(self.algorithm, self.variants, self.individual).lowered

    def modules(
        self, width: int, chosen: machine_code.Processor, node_lanes: bool = False
    ) -> tuple[list[str], dict[str, Any]]:
        """LLVM assembly of the modules of a lane width, or with a node in each lane; and what binding them needs."""
        program = self.program()
        if self.individual is None:  # numbers of a robot may vanish
            for item in walk(program.program.top):
                if isinstance(item, Op) and item.code == "const":
                    self.scalar.require(item.attr)
        if node_lanes and program.sweeps is not None:
            return emit_node_lanes(program, program.sweeps, self.scalar, chosen.has_avx2), program.metadata
        return emit(program, width, chosen.lanes(self.scalar), self.scalar), program.metadata

    def begin(self, width: int, node_lanes: bool = False) -> None:
        """Let other threads begin with machine code on the current target; arguments as of `library`."""
        self._libraries.begin((width, node_lanes, machine_code.current()), self._found_or_begun)

    def library(self, width: int, node_lanes: bool = False) -> Library:
        """Machine code on the current target, made on first use: for a lane width, or with a node in each lane."""
        library, self._metadata = self._libraries.get((width, node_lanes, machine_code.current()), self._found_or_begun)
        return library

    def _found_or_begun(self, key: tuple[int, bool, machine_code.Processor]) -> CompileJob:
        width, node_lanes, chosen = key
        lanes = f"{LANES} nodes at once" if node_lanes else f"lane width {width}"
        return CompileJob(
            f"{self.algorithm.name}{self.scalar.note}, {lanes}",
            self._name(width, node_lanes),
            chosen,
            lambda: self.modules(width, chosen, node_lanes),
            "kernel",
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """Sizes of records and arrays, the same for all widths."""
        with self._lock:
            if self._metadata is None:
                self._metadata = self._stored()
            if self._metadata is None:
                prepare(1, self.scalar)
                self._metadata = self.program().metadata
            return self._metadata

    def _stored(self) -> dict[str, Any] | None:
        """The metadata cached with the code of a width."""
        chosen = machine_code.current()
        widths = (1, False), (1, True), (chosen.lanes(self.scalar), False)
        for width, node_lanes in widths:
            name = self._name(width, node_lanes)
            found = None if name is None else stored(cache.key(*name, chosen))
            if found is not None:
                return found[0]
        return None

    def _name(self, width: int, node_lanes: bool = False) -> tuple[object, ...] | None:
        """The cache key; None for algorithms and node kinds outside the package, whose sources may change unnoticed."""
        if not is_own(self.algorithm, self.variants):
            return None
        own = self.algorithm.name, identity(self.algorithm)
        robot = () if self.individual is None else (self.individual.digest,)
        return "kernel", *own, self.variants.key, self.scalar.name, width, node_lanes, *robot

    @cached_property
    def code(self) -> str:
        """Identifies the kernels; those of algorithms and nodes outside the package only within this process."""
        name = self._name(1)
        return f"foreign {next(_FOREIGN)}" if name is None else repr(name)


def kernels(
    algorithm: Algorithm, variants: Variants, scalar: Format = FLOAT64, individual: RobotKey | None = None
) -> Kernels:
    """The kernels of an algorithm for a set of variants and a format, or for one robot, created once per process."""
    with _making:
        return _made(algorithm, variants, scalar, individual)


_making = ForkSafeLock()
_made = lru_cache(maxsize=256)(Kernels)


def bind(
    algorithm: Algorithm,
    mechanism: Mechanism,
    sites: Sequence[Site],
    name: str,
    single: bool = False,
    bundle: type[tuple[Any, ...]] = tuple,
) -> Compiled:
    """A callable of NumPy arrays for one mechanism and choice of frames.

    Inputs that are empty for this choice (wrenches on no frames) are left out of its signature.

    Args:
        algorithm: The recursion.
        mechanism: The robot.
        sites: The frames.
        name: Public name of the function, for messages.
        single: There is one frame, and results have no axis for it.
        bundle: Type of several results.
    """
    algorithm.require(mechanism, name)
    mechanism = mechanism.at(sites)
    variants = variants_of(algorithm, mechanism, sites)
    scalar = format_of(mechanism)
    made = kernels(algorithm, variants, scalar, robot_key(algorithm, mechanism, sites))
    tables = Tables(algorithm, variants, mechanism, sites, made.metadata, carrying=True)
    packed, workspace = tables.packed()
    constants, single_workspace = tables.constants, 0
    together = LaneTables.of(tables) if machine_code.current().width >= LANES else None
    if together is not None:
        constants = np.concatenate([constants, np.zeros(-len(constants) % LANES)])
        lane_tables, lane_constants = together.packed(len(constants))
        packed, constants = np.concatenate([packed, lane_tables]), np.concatenate([constants, lane_constants])
        single_workspace = together.workspace
    sizes = algorithm.sizes(mechanism, sites)

    def operand(argument: Argument, unread: bool = False) -> Operand:
        dimensions = [d for d in argument.dimensions if not (single and d == "frames")]
        shape = replace(argument, dimensions=tuple(dimensions)).shape(sizes)
        return Operand(argument.name, shape, zeroed=argument.sparse, symmetric=argument.symmetric, unread=unread)

    inputs = tuple(operand(a) for a in algorithm.inputs if sites or "frames" not in a.dimensions)
    reread = made.metadata["reread"]
    outputs = tuple(operand(a, number not in reread) for number, a in enumerate(algorithm.outputs))
    binding = Binding(
        name, inputs, outputs, constants, packed, workspace, bundle, made.code, scalar=scalar,
        single_workspace=single_workspace,
    )  # fmt: skip

    def choice(width: int) -> tuple[int, bool]:
        return width, width == 1 and together is not None

    return Compiled(binding, lambda width: made.library(*choice(width)), lambda width: made.begin(*choice(width)))
