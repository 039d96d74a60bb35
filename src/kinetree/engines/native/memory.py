"""Loads and stores of places in LLVM assembly.

Memory is interleaved by lanes: element e of lane l is at e·W + l. Constants are not; they are the same for all lanes.
When columns are lanes (see `emit`), neighbouring columns of one sample are loaded and stored together, the last group
under a mask.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kinetree.engines.ir import ArrayEntry, Field, Index, Input, Output, Param, Place, Position, Role, Store, Uniform
from kinetree.engines.native import layout as table
from kinetree.engines.native.assembly import Function
from kinetree.engines.native.layout import Layout
from kinetree.recursion.algorithm import Algorithm, Dimensions

Number = str | int


def vector(lanes: int) -> str:
    """The type of one scalar of a program."""
    return "double" if lanes == 1 else f"<{lanes} x double>"


def suffix(lanes: int) -> str:
    """The same type in names of intrinsics."""
    return "f64" if lanes == 1 else f"v{lanes}f64"


def splat(f: Function, name: str, lanes: int, element: str = "double") -> str:
    """One value in all lanes."""
    if lanes == 1:
        return name
    one = f.let(f"insertelement <{lanes} x {element}> poison, {element} {name}, i64 0")
    return f.let(
        f"shufflevector <{lanes} x {element}> {one}, <{lanes} x {element}> poison, <{lanes} x i32> zeroinitializer"
    )


def counting(lanes: int) -> str:
    """0, 1, 2, … as a vector."""
    return "<" + ", ".join(f"i64 {i}" for i in range(lanes)) + ">"


@dataclass
class ColumnLanes:
    """Columns as lanes: the loop's column, and the mask of a partial group."""

    role: Role
    lanes: int
    mask: str | None = None


@dataclass
class Memory:
    """Knows where the roles of the loops around are, and from that where places are."""

    f: Function
    algorithm: Algorithm
    layout: Layout
    width: int
    declared: set[str]
    #: Whether rows of tasks are numbered in the order asked for.
    in_order: bool
    #: Numbers of nodes, columns and frames, and starts of their parts of q and v.
    positions: dict[Position, Number] = field(default_factory=dict)
    #: Records of nodes, constants of nodes and frames, rows of the tables.
    records: dict[Role, str] = field(default_factory=dict)
    constants: dict[Role, str] = field(default_factory=dict)
    rows: dict[Role, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = {"q": table.NQ, "v": table.NV, "frames": table.N_FRAMES, "rows": table.N_ASKED, "row": table.N_ROWS}
        self.sizes = {dimension: self.number("%tables", place) for dimension, place in names.items()}
        self.lines = {dimension: self.number("%tables", place) for dimension, place in table.LINES.items()}
        starts = [self.number("%tables", table.INPUTS + i) for i in range(len(self.algorithm.inputs))]
        self.inputs = [self.f.at("%in", start, self.element) for start in starts]
        starts = [self.number("%tables", table.ARRAYS + i) for i in range(len(self.layout.arrays))]
        self.arrays = [self.f.at("%ws", start, self.element) for start in starts]
        self.gravity = self.f.at("%params", self.number("%tables", table.GRAVITY), "double")

    @property
    def element(self) -> str:
        """The type of an element of interleaved memory."""
        return vector(self.width)

    def number(self, base: str, index: Number) -> str:
        """A number of the tables."""
        return self.f.let(f"load i64, ptr {self.f.at(base, index, 'i64')}, align 8, !invariant.load !0")

    # Arithmetic of indices; what is known now is not written

    def sum(self, *terms: Number) -> Number:
        """The sum of numbers, known or not."""
        fixed = sum(t for t in terms if isinstance(t, int))
        total: Number = 0
        for term in terms:
            if isinstance(term, str):
                total = term if total == 0 else self.f.let(f"add i64 {total}, {term}")
        if fixed == 0 or total == 0:
            return fixed if total == 0 else total
        return self.f.let(f"add i64 {total}, {fixed}")

    def product(self, a: Number, b: Number) -> Number:
        """The product of two numbers, known or not."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.f.let(f"mul i64 {a}, {b}")

    # Where places are

    def address(self, place: Place) -> str:
        """Where the first lane of a place is."""
        f = self.f
        if isinstance(place, Field):
            offset = self.layout.fields[place.role.classes[0], place.name, place.component]
            return f.at(self.records.get(place.role, "%ws"), offset, self.element)
        if isinstance(place, Param):
            return f.at(self.constants[place.role], place.component, "double")
        if isinstance(place, Uniform):
            return f.at(self.gravity, place.component, "double")
        if isinstance(place, ArrayEntry):
            over, components = self.layout.arrays[place.number]
            *lines, column = place.at
            line: Number = 0
            for base, offset in lines:
                if isinstance(base, Position) and base.what == "node":  # by depth, or the world's, which is the first
                    base, offset = self.positions.get(Position(base.role, over[0]), 0), 0
                line = self.product(self.position((base, offset)), len(components))
            line = self.product(self.sum(line, components[place.component]), self.lines[over[-1]])
            return f.at(self.arrays[place.number], self.sum(line, self.position(column)), self.element)
        base = self.inputs[place.number] if isinstance(place, Input) else f"%out{place.number}"
        return f.at(base, self.linear(place.at, self.dimensions(place)), self.element)

    def position(self, index: Index) -> Number:
        """The number that an index stands for."""
        base, offset = index
        if isinstance(base, Position):
            base = self._asked(base.role) if base.what == "rows" else self.positions[base]
        return self.sum(base, offset)

    def _asked(self, role: Role) -> Number:
        """The place of a row in the order asked for; of a frame, where its rows start."""
        if Position(role, "rows") in self.positions:
            return self.positions[Position(role, "rows")]
        if self.in_order:
            return self.positions[Position(role, "row")]
        places = self.f.at("%tables", self.number("%tables", table.ASKED), "i64")
        return self.number(places, self.positions[Position(role, "row")])

    def dimensions(self, place: Input | Output) -> Dimensions:
        """What the axes of an input or output run over."""
        arguments = self.algorithm.inputs if isinstance(place, Input) else self.algorithm.outputs
        return arguments[place.number].dimensions

    def length(self, dimension: str | int) -> Number:
        """The length of an axis."""
        return dimension if isinstance(dimension, int) else self.sizes[dimension]

    def linear(self, index: tuple[Index, ...], dimensions: Dimensions) -> Number:
        """The position of an entry of an array in C order."""
        total: Number = 0
        for one, dimension in zip(index, dimensions, strict=True):
            total = self.sum(self.product(total, self.length(dimension)), self.position(one))
        return total

    def stride(self, place: Place, columns: ColumnLanes) -> Number:
        """Distance between neighbouring columns; 0 if the place is the same for all."""
        if not isinstance(place, (Input, Output, ArrayEntry)):
            return 0
        along = [i for i, (base, _) in enumerate(place.at) if isinstance(base, Position) and base.role is columns.role]
        if not along:
            return 0
        stride: Number = 1
        if isinstance(place, ArrayEntry):
            over, components = self.layout.arrays[place.number]
            return 1 if along[0] == len(over) - 1 else self.product(len(components), self.lines[over[-1]])
        for dimension in self.dimensions(place)[along[0] + 1 :]:
            stride = self.product(stride, self.length(dimension))
        return stride

    # Loads and stores

    def load(self, place: Place, columns: ColumnLanes | None) -> str:
        """The value at a place, in all lanes."""
        f, pointer = self.f, self.address(place)
        pure = ", !invariant.load !0" if isinstance(place, (Param, Uniform, Input)) else ""
        lanes = columns.lanes if columns else self.width
        stride = self.stride(place, columns) if columns else 0
        if isinstance(place, (Param, Uniform)) or (columns and stride == 0):
            return splat(f, f.let(f"load double, ptr {pointer}, align 8{pure}"), lanes)
        if not columns:
            return f.let(f"load {self.element}, ptr {pointer}, align {8 * lanes}{pure}")
        t, mask = vector(lanes), f"<{lanes} x i1>"
        straight = stride == 1 and not self._permuted(place, columns)
        if straight and columns.mask is None:
            return f.let(f"load {t}, ptr {pointer}, align 8{pure}")
        if straight:
            name = self._intrinsic(f"{t} @llvm.masked.load.{suffix(lanes)}.p0", f"ptr, i32, {mask}, {t}")
            return f.let(f"call {name}(ptr {pointer}, i32 8, {mask} {columns.mask}, {t} zeroinitializer)")
        name = self._intrinsic(
            f"{t} @llvm.masked.gather.{suffix(lanes)}.v{lanes}p0", f"<{lanes} x ptr>, i32, {mask}, {t}"
        )
        pointers = self._spread(place, pointer, stride, columns)
        return f.let(f"call {name}({pointers}, i32 8, {mask} {_every(columns)}, {t} zeroinitializer)")

    def store(self, store: Store, value: str, columns: ColumnLanes | None) -> None:
        """Put a value, in all lanes, into a place."""
        f, pointer = self.f, self.address(store.place)
        if not columns:
            aligned = 8 if isinstance(store.place, Output) else 8 * self.width
            f.do(f"store {self.element} {value}, ptr {pointer}, align {aligned}")
            return
        lanes, stride = columns.lanes, self.stride(store.place, columns)
        t, mask = vector(lanes), f"<{lanes} x i1>"
        straight = stride == 1 and not self._permuted(store.place, columns)
        if straight and columns.mask is None:
            f.do(f"store {t} {value}, ptr {pointer}, align 8")
        elif straight:
            name = self._intrinsic(f"void @llvm.masked.store.{suffix(lanes)}.p0", f"{t}, ptr, i32, {mask}")
            f.do(f"call {name}({t} {value}, ptr {pointer}, i32 8, {mask} {columns.mask})")
        else:
            name = self._intrinsic(
                f"void @llvm.masked.scatter.{suffix(lanes)}.v{lanes}p0", f"{t}, <{lanes} x ptr>, i32, {mask}"
            )
            pointers = self._spread(store.place, pointer, stride, columns)
            f.do(f"call {name}({t} {value}, {pointers}, i32 8, {mask} {_every(columns)})")

    def _intrinsic(self, name: str, arguments: str) -> str:
        self.declared.add(f"declare {name}({arguments})")
        return name

    def _permuted(self, place: Place, columns: ColumnLanes) -> bool:
        """Whether neighbouring rows of tasks need not be neighbours in a place that keeps the order asked for."""
        asked = Position(columns.role, "rows")
        return not self.in_order and asked in (base for base, _ in getattr(place, "at", ()))

    def _spread(self, place: Place, pointer: str, stride: Number, columns: ColumnLanes) -> str:
        """Pointers to the same place of neighbouring columns."""
        f, lanes = self.f, columns.lanes
        strides = splat(f, str(stride), lanes, "i64")
        steps = counting(lanes)
        if self._permuted(place, columns):
            steps = self._asked_steps(columns)
        offsets = f.let(f"mul <{lanes} x i64> {strides}, {steps}")
        return f"<{lanes} x ptr> " + self.f.let(f"getelementptr double, ptr {pointer}, <{lanes} x i64> {offsets}")

    def _asked_steps(self, columns: ColumnLanes) -> str:
        """How far each lane's row is from the first lane's, in the order asked for."""
        f, lanes, t = self.f, columns.lanes, f"<{columns.lanes} x i64>"
        places = f.at("%tables", self.number("%tables", table.ASKED), "i64")
        first = f.at(places, self.positions[Position(columns.role, "row")], "i64")
        name = self._intrinsic(f"{t} @llvm.masked.load.v{lanes}i64.p0", f"ptr, i32, <{lanes} x i1>, {t}")
        asked = f.let(f"call {name}(ptr {first}, i32 8, <{lanes} x i1> {_every(columns)}, {t} zeroinitializer)")
        return f.let(f"sub {t} {asked}, {splat(f, self.number(first, 0), lanes, 'i64')}")


def _every(columns: ColumnLanes) -> str:
    return columns.mask or "<" + ", ".join(["i1 true"] * columns.lanes) + ">"
