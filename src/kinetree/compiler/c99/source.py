"""C99: a header and a source file with functions of one mechanism, and a `main` that checks them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from errno import ENAMETOOLONG
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinetree.compiler.c99.printer import FunctionPrinter, number, sine_cosine_function
from kinetree.compiler.formats import FORMATS, format_of
from kinetree.compiler.lower.layout import Tables, size_of
from kinetree.compiler.lower.lower import Lowered
from kinetree.compiler.programs import lowered, variants_of
from kinetree.compiler.specialize import specialized
from kinetree.errors import InputError
from kinetree.language.algorithm import Algorithm, Argument
from kinetree.language.loops import FRAME, LOOPS, NODE, Table
from kinetree.language.mechanism import Mechanism, Site
from kinetree.language.setup import Setup
from kinetree.spatial.value import Array

#: Formats by their names in C.
SCALARS = {one.llvm: one for one in FORMATS.values()}

_USE = """\
C99 without allocation, global state or I/O. Of the C library it needs fma, sqrt, memcpy and memset.
Compile with -ffp-contract=off (or -std=c99) to get the bits of the library.

-D{macro}_CHECK adds a main that checks every function against numbers computed by the library.
On processors without fused multiply-add, -DKINETREE_NO_FMA is faster, and rounds differently."""

#: GCC 12 fuses multiplications with additions and subtractions in neighbouring lanes, even with -ffp-contract=off.
_LANES = (
    "#if defined(__GNUC__) && !defined(__clang__) && defined(__FMA__)",
    '#pragma GCC optimize("no-tree-slp-vectorize")',
    "#endif",
)

#: GCC and Clang compute −(a b + c) as (−a) b − c where the processor can, whose zero has another sign.
_NEGATION = (
    "#if defined(__GNUC__) && (defined(__aarch64__) || defined(__ARM_FEATURE_FMA) || defined(__FMA__))",
    "#if defined(__aarch64__)",
    '#define IN_PLACE "+w"',
    "#elif defined(__FMA__)",
    '#define IN_PLACE "+x"',
    "#else",
    '#define IN_PLACE "+m"',
    "#endif",
    "static inline real NEG(real x) {",
    '  __asm__("" : IN_PLACE(x));  /* keeps the negation apart from a fused multiply-add */',
    "  return -x;",
    "}",
    "#else",
    "#define NEG(x) (-(x))",
    "#endif",
)


#: Inputs, and the native engine's results for them.
Sample = tuple[Sequence[Array], Sequence[Array]]


class Declared(NamedTuple):
    """An argument of a function in C."""

    name: str
    shape: tuple[int, ...]
    given: bool  # whether it is an input


@dataclass(frozen=True)
class Exported:
    """A function to export."""

    name: str  # its public name
    algorithm: Algorithm
    sites: tuple[Site, ...]
    text: str = ""  # the first line of its docstring
    sample: Sample | None = None  # none of functions that are called by others only
    mechanism: Mechanism | None = None  # that of a kernel, if it is part of a function of the robot

    def arguments(self, robot: Mechanism) -> list[Declared]:
        """Inputs and outputs; those indexed by frames only if there are frames."""
        sizes = self.algorithm.sizes(self.mechanism or robot, self.sites)
        inputs = [a for a in self.algorithm.inputs if self.sites or "frames" not in a.dimensions]
        return [
            Declared(argument.name, argument.shape(sizes), given)
            for arguments, given in ((inputs, True), (self.algorithm.outputs, False))
            for argument in arguments
        ]


@dataclass(frozen=True)
class Composed:
    """A function that calls others, one after another.

    Attributes:
        declared: Its arguments.
        parts: The functions that it calls, each with the names of what it passes on: its own arguments, `arrays` and
            `constants`.
        arrays: What is between them, with sizes.
        constants: Numbers by name.
    """

    name: str
    text: str
    declared: list[Declared]
    parts: Sequence[tuple[Exported, Sequence[str]]]
    arrays: dict[str, int]
    constants: dict[str, Array]
    sample: Sample
    sites: tuple[Site, ...] = ()

    def arguments(self, _: Mechanism) -> list[Declared]:
        """Inputs and outputs."""
        return self.declared


def identifier(name: str) -> str:
    """A name as a C identifier."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "robot"
    return plain if not plain[0].isdigit() else f"_{plain}"


class CSource:
    """The files for a robot's functions.

    Args:
        robot: Name of the robot.
        mechanism: The robot.
        quantities: The functions to export.
        provenance: Lines that state the origin of the code.
        labels: Names of the nodes in comments.
    """

    def __init__(
        self,
        robot: str,
        mechanism: Mechanism,
        quantities: Sequence[Exported | Composed],
        provenance: Sequence[str],
        labels: Sequence[str],
    ) -> None:
        self.labels = labels
        self.robot, self.mechanism, self.quantities = robot, mechanism, quantities
        self.scalar = format_of(mechanism)
        self.stem, self.provenance = identifier(robot).lower(), provenance
        self.stack: dict[str, int] = {}
        # those without frames share the constants of those with frames
        every = [part for one in quantities for part in _parts(one)]
        shared = max((one.sites for one in quantities), key=len, default=())
        self._constant_sets = {shared: "CONSTANTS"}
        for part in every:
            if part.sites and part.sites not in self._constant_sets:
                self._constant_sets[part.sites] = f"CONSTANTS_{identifier(part.name).upper()}"
        self._constant_sets.setdefault((), "CONSTANTS")
        self._functions = [self._defined(quantity) for quantity in quantities]

    # Files

    def write(self, directory: Any) -> tuple[Path, Path]:
        """Write both files to a directory, created if necessary; returns their paths."""
        folder = Path(directory)
        header, code = folder / f"{self.stem}.h", folder / f"{self.stem}.c"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            header.write_bytes(self.header().encode())  # the same bytes on every system
            code.write_bytes(self.source().encode())
        except OSError as error:
            named = ", which is called like the robot: give it a shorter name" if error.errno == ENAMETOOLONG else ""
            raise InputError(f"export_c: {error.filename!r:.200} cannot be written: {error.strerror}{named}") from None
        return header, code

    def header(self) -> str:
        """The header."""
        guard = f"{self.stem.upper()}_H"
        return "\n".join(
            [
                *_comment([*self.provenance, "", *self._coordinates()]),
                f"#ifndef {guard}",
                f"#define {guard}",
                "",
                "#ifdef __cplusplus",
                'extern "C" {',
                "#endif",
                "",
                *(
                    line
                    for quantity in self.quantities
                    for line in (*self._document(quantity), self._prototype(quantity) + ";", "")
                ),
                "#ifdef __cplusplus",
                "}",
                "#endif",
                "",
                f"#endif /* {guard} */",
                "",
            ]
        )

    def source(self) -> str:
        """The source."""
        double = self.scalar.bytes == 8
        return "\n".join(
            [
                *_comment([*self.provenance, "", *_USE.format(macro=self.stem.upper()).splitlines()]),
                f'#include "{self.stem}.h"',
                "",
                "#include <math.h>",
                "#include <stdint.h>",
                "#include <string.h>",
                "",
                f"typedef {self.scalar.llvm} real;",
                f"typedef {'uint64_t' if double else 'uint32_t'} word;",
                "",
                "#ifdef KINETREE_NO_FMA",
                "#define FMA(a, b, c) ((a) * (b) + (c))",
                "#else",
                f"#define FMA(a, b, c) {'fma' if double else 'fmaf'}((a), (b), (c))",
                "#endif",
                f"#define SQRT(x) {'sqrt' if double else 'sqrtf'}(x)",
                *_LANES,
                *_NEGATION,
                "",
                *(
                    [sine_cosine_function(self.scalar)]
                    if any("sine_cosine(" in text for text in self._functions)
                    else []
                ),
                *(line for name in dict.fromkeys(self._constant_sets.values()) for line in self._constants(name)),
                "",
                *self._functions,
                *self._main(),
            ]
        )

    # Parts

    def _coordinates(self) -> list[str]:
        """The position of each joint in q and v; kernels without a tree have none."""
        if not self.mechanism.kinds:
            return ["Matrices are stored row by row."]
        q, v, lines = self.mechanism.q_starts, self.mechanism.v_starts, []
        for k, (name, kind) in enumerate(zip(self.labels, self.mechanism.kinds, strict=True)):
            lines.append(f"  q{_span(q[k], kind.nq)}  v{_span(v[k], kind.nv)}  {name}")
        units = "Angles in rad, lengths in m, forces in N, moments in N m. Matrices are stored row by row."
        return [units, "Bodies, with the joints that carry them:", *lines]

    def _constants(self, called: str) -> list[str]:
        """Constants of nodes and frames, and gravity, unless all of them are a part of straight-line code."""
        used = called == "CONSTANTS" and any("GRAVITY[" in function for function in self._functions)
        if not used and not any(f"{called}[" in function for function in self._functions):
            return []
        lines = ["/* Constants of the joints and bodies, gravity, placements of the frames. */"]
        sites = next(sites for sites, name in self._constant_sets.items() if name == called)
        parts = [
            *zip(self.labels, self.mechanism.parameters, strict=True),
            ("gravity", self.mechanism.gravity),
            *((site.name, site.placement) for site in sites),
        ]
        size = sum(len(values) for _, values in parts)
        lines.append(f"static const real {called}[{max(size, 1)}] = {{")
        for name, values in parts:
            lines.append(f"  /* {_plain(name)} */")
            lines += _wrapped(number(float(x), self.scalar) for x in values)
        start = sum(len(values) for values in self.mechanism.parameters)
        return [*lines, "};", *([f"static const real *const GRAVITY = CONSTANTS + {start};"] if used else [])]

    def _document(self, quantity: Exported | Composed) -> list[str]:
        lines = [quantity.text, ""]
        for argument in quantity.arguments(self.mechanism):
            shape = " x ".join(map(str, argument.shape)) or "1"
            lines.append(f"  {argument.name}  {'in' if argument.given else 'out'}, {shape}")
        if quantity.sites:
            lines.append(f"Frames: {', '.join(site.name for site in quantity.sites)}.")
        lines.append(f"Uses {self.stack[quantity.name]} bytes of the stack. Results must not overlap inputs.")
        return _comment(lines)

    def _prototype(self, quantity: Exported | Composed) -> str:
        real = self.scalar.llvm
        declared = [
            f"{'const ' * one.given}{real} {one.name}[{max(1, math.prod(one.shape))}]"
            for one in quantity.arguments(self.mechanism)
        ]
        return f"void {self._called(quantity)}({', '.join(declared)})"

    def _called(self, quantity: Exported | Composed) -> str:
        return f"{self.stem}_{identifier(quantity.name)}"

    def _defined(self, quantity: Exported | Composed) -> str:
        """The definition of a function, with what it calls before it."""
        if isinstance(quantity, Exported):
            return self._function(quantity)
        before = [self._function(part, "static ") for part, _ in quantity.parts]
        deepest = max(self.stack.pop(part.name) for part, _ in quantity.parts)
        self.stack[quantity.name] = deepest + sum(quantity.arrays.values()) * self.scalar.bytes
        lines = [f"{self._prototype(quantity)} {{"]
        for name, values in quantity.constants.items():
            lines.append(f"  static const real {name}[{values.size}] = {{")
            lines += ["  " + line for line in _wrapped(number(float(x), self.scalar) for x in values.reshape(-1))]
            lines.append("  };")
        lines += [f"  real {name}[{size}];" for name, size in quantity.arrays.items()]
        lines += [f"  {self._called(part)}({', '.join(names)});" for part, names in quantity.parts]
        return "\n".join([*before, *lines, "}", ""])

    def _function(self, quantity: Exported, linkage: str = "") -> str:
        """The tables and the definition of one function."""
        algorithm, sites, mechanism = quantity.algorithm, quantity.sites, quantity.mechanism or self.mechanism
        variants = variants_of(algorithm, mechanism, sites)
        setup = Setup(mechanism, sites, algorithm.visited(mechanism, sites))
        own = specialized(algorithm, mechanism, sites)
        program = lowered(algorithm, variants, lambda name: size_of(setup, name)) if own is None else own.lowered
        tables = Tables(algorithm, variants, mechanism, sites, program.metadata)
        stem, sizes = identifier(quantity.name), algorithm.sizes(mechanism, sites)
        arrays = [tables.array_size(i) for i in range(len(program.layout.arrays))]
        self.stack[quantity.name] = (tables.records + sum(arrays)) * self.scalar.bytes
        spaces = {("records", 0): "records", ("constants", 0): self._constant_sets[sites], ("gravity", 0): "GRAVITY"}
        spaces |= {("array", i): f"array{i}" for i in range(len(arrays))}
        spaces |= {("input", i): argument.name for i, argument in enumerate(algorithm.inputs)}
        spaces |= {("output", i): argument.name for i, argument in enumerate(algorithm.outputs)}
        names = {name: f"{stem}_{identifier(name)}" for name in program.tables}
        columns = {(name, column): _column(name, column) for name in program.tables for column in program.tables[name]}
        text = FunctionPrinter(spaces, names, columns, self.scalar)
        text.block(program.program.top)
        lines = [line for name in program.tables for line in self._table(names[name], name, program, tables)]
        lines += [f"{linkage}{self._prototype(quantity)} {{"]
        body = "\n".join(text.lines)
        lines += [
            f"  real {n}[{size}];"
            for n, size in (("records", tables.records), *((f"array{i}", s) for i, s in enumerate(arrays)))
            if f"{n}[" in body
        ]
        for argument in algorithm.outputs:
            if argument.sparse:
                lines.append(f"  memset({argument.name}, 0, {math.prod(argument.shape(sizes))} * sizeof(real));")
        lines.append(body)
        lines += [line for argument in algorithm.outputs if argument.symmetric for line in _mirror(argument, sizes)]
        return "\n".join([*lines, "}", ""])

    def _table(self, called: str, name: str, program: Lowered, tables: Tables) -> list[str]:
        """A table, with the names of joints and frames as comments."""
        cells, loop = tables.cells(name), LOOPS.get(name)
        if not cells.size:
            return []
        fields = ", ".join(_column(name, column) for column in program.tables[name])
        kind = "int16_t" if np.abs(cells).max(initial=0) < 2**15 else "int32_t"
        lines = [f"static const struct {{ {kind} {fields}; }} {called}[{len(cells)}] = {{"]
        rows = loop.rows(tables.setup) if isinstance(loop, Table) else [()] * len(cells)
        for numbers, row in zip(cells.tolist(), rows, strict=True):
            note = self._names(loop, row, tables.setup) if isinstance(loop, Table) else ""
            lines.append(f"  {{{', '.join(map(str, numbers))}}},{note}")
        return [*lines, "};"]

    def _names(self, loop: Table[Any], row: tuple[int, ...], setup: Setup) -> str:
        known: list[str] = []
        for role, n in zip(loop.roles, row, strict=True):
            if role.entity is NODE:
                known.append("world" if n < 0 else self.labels[n])
            elif role.entity is FRAME:
                known.append(setup.sites[n].name)
        return f"  /* {_plain(', '.join(known))} */" if known else ""

    def _main(self) -> list[str]:
        """A main that compares with numbers from the library."""
        lines = [
            f"#ifdef {self.stem.upper()}_CHECK",
            "#include <stdio.h>",
            "",
            "/* Returns how many numbers differ from the expected ones. */",
            "static int check(const char *name, const real *computed, const real *expected, int count) {",
            "  int wrong = 0;",
            "  for (int i = 0; i < count; ++i)",
            "    wrong += memcmp(computed + i, expected + i, sizeof(real)) != 0;",
            '  printf("%-40s %d of %d numbers differ\\n", name, wrong, count);',
            "  return wrong;",
            "}",
            "",
            "int main(void) {",
            "  int wrong = 0;",
        ]
        for quantity in self.quantities:
            inputs, outputs = quantity.sample or ((), ())
            arguments = quantity.arguments(self.mechanism)
            lines.append("  {")
            for argument, values in zip(arguments, (*inputs, *outputs), strict=True):
                flat = np.asarray(values, dtype=float).reshape(-1)
                label = argument.name if argument.given else f"{argument.name}_expected"
                lines.append(f"    static const real {label}[{max(1, flat.size)}] = {{")
                lines += ["    " + line for line in _wrapped(number(float(x), self.scalar) for x in flat)]
                lines.append("    };" if flat.size else "    0};")
                if not argument.given:
                    lines.append(f"    static real {argument.name}[{max(1, flat.size)}];")
            lines.append(f"    {self._called(quantity)}({', '.join(argument.name for argument in arguments)});")
            results = [argument for argument in arguments if not argument.given]
            for argument, values in zip(results, outputs, strict=True):
                size = np.asarray(values).size
                label = quantity.name if len(outputs) == 1 else f"{quantity.name}: {argument.name}"
                lines.append(f'    wrong += check("{label}", {argument.name}, {argument.name}_expected, {size});')
            lines.append("  }")
        return [*lines, "  return wrong != 0;", "}", "#endif", ""]


def _parts(quantity: Exported | Composed) -> list[Exported]:
    return [quantity] if isinstance(quantity, Exported) else [part for part, _ in quantity.parts]


def _mirror(argument: Argument, sizes: dict[str, int]) -> list[str]:
    """Fill the lower triangles of symmetric matrices."""
    *leading, n, _ = argument.shape(sizes)
    name, count = argument.name, math.prod(leading)
    start = f"{name} + m * {n * n}" if count > 1 else name
    return [
        f"  for (int m = 0; m < {count}; ++m) {{",
        f"    real *const matrix = {start};",
        f"    for (int i = 1; i < {n}; ++i)",
        f"      for (int j = 0; j < i; ++j) matrix[i * {n} + j] = matrix[j * {n} + i];",
        "  }",
    ]


def _column(table: str, column: str) -> str:
    """The name of a column of a table."""
    loop, (position, _, what) = LOOPS.get(table), column.partition(".")
    if isinstance(loop, Table) and position.isdigit():
        return identifier(f"{loop.roles[int(position)].name}_{what}")
    return identifier(column)


def _span(start: int, length: int) -> str:
    return f"[{start}]" if length == 1 else f"[{start}..{start + length - 1}]" if length else "[]"


def _plain(text: str) -> str:
    """One line without begin or end of a comment, and without line breaks, which C joins after a backslash."""
    return "".join(c if c.isprintable() else "?" for c in text).replace("*/", "* /").replace("/*", "/ *")


def _comment(lines: Iterable[str]) -> list[str]:
    first, *rest = [_plain(line) for line in lines]
    return [f"/* {first}", *(f" * {line}".rstrip() for line in rest), " */"]


def _wrapped(numbers: Iterable[str]) -> list[str]:
    """The numbers of an array, six to a line."""
    listed = list(numbers)
    return ["  " + " ".join(f"{x}," for x in listed[i : i + 6]) for i in range(0, len(listed), 6)]
