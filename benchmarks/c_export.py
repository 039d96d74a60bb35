"""Exported C beside the native engine, and beside C that CasADi generates from the same recursions.

    python -m benchmarks.c_export --robots Panda Talos

CasADi's code is unrolled: the reference engine runs on its symbols once. It needs `pip install casadi`; without it, its
columns are empty. Times are the least of many, in one process per compiled program on the core that it starts on; sizes
are those of the compiled code.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import kinetree as kt
from benchmarks.robots import load
from benchmarks.table import Table

FUNCTIONS = {"forward_dynamics": 3, "inverse_dynamics": 3, "mass_matrix": 1}
FLAGS = ("-O3", "-march=native", "-ffp-contract=off")

DRIVER = """
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <time.h>
{declarations}
int main(void) {{
  double least = 1e30;
  for (int round = 0; round < 2000; ++round) {{
    struct timespec start, stop;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < 20; ++i) {{ {call}; }}
    clock_gettime(CLOCK_MONOTONIC, &stop);
    double each = ((stop.tv_sec - start.tv_sec) * 1e9 + (stop.tv_nsec - start.tv_nsec)) / 20;
    if (each < least) least = each;
  }}
  printf("%g\\n", least);
  return 0;
}}
"""


def state(model: kt.Model, count: int) -> list[Any]:
    """A configuration, and other inputs."""
    rng = np.random.default_rng(0)
    return [model.random_configuration(rng), *rng.uniform(-1.0, 1.0, (count - 1, model.nv))]


def listed(values: Any) -> str:
    """Numbers of a C array."""
    return ", ".join(repr(float(x)) for x in values)


def measured(folder: Path, source: Path, driver: str, compiler: str) -> tuple[float, int]:
    """Time of a call [µs], and bytes of code."""
    made = source.with_suffix(".o")
    subprocess.run([compiler, *FLAGS, "-c", str(source), "-o", str(made)], check=True)
    least = driven(folder, [made], driver, compiler)
    size = subprocess.run(["size", str(made)], capture_output=True, text=True, check=True).stdout.splitlines()[1]
    return least, int(size.split()[0])


def driven(folder: Path, made: Sequence[Path], driver: str, compiler: str) -> float:
    """Time of a call of compiled code [µs]."""
    main, program = folder / "driver.c", folder / "driver"
    main.write_text(driver, encoding="utf-8")
    subprocess.run([compiler, "-O2", f"-I{folder}", str(main), *map(str, made), "-o", str(program), "-lm"], check=True)
    return min(float(subprocess.run([str(program)], capture_output=True, check=True).stdout) for _ in range(3)) / 1000.0


def exported(model: kt.Model, function: str, inputs: list[Any], compiler: str) -> tuple[float, int]:
    """What C from `export_c` takes."""
    with tempfile.TemporaryDirectory() as directory:
        header, source = model.export_c([function], directory)
        out = model.nv**2 if function == "mass_matrix" else model.nv
        declarations = [f'#include "{header.name}"']
        declarations += [f"static const double x{i}[] = {{{listed(x)}}};" for i, x in enumerate(inputs)]
        declarations.append(f"static double y[{out}];")
        call = f"{header.stem}_{function}({', '.join(f'x{i}' for i in range(len(inputs)))}, y)"
        driver = DRIVER.format(declarations="\n".join(declarations), call=call)
        return measured(Path(directory), source, driver, compiler)


class Symbol:
    """A scalar of CasADi that NumPy does not take for a matrix."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def _with(self, other: Any, operation: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return Symbol(operation(self.x, other.x if isinstance(other, Symbol) else float(other)))

    def __add__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b + a)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a * b)

    def __rmul__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b * a)

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a / b)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b / a)

    def __neg__(self) -> Symbol:
        return Symbol(-self.x)


def from_casadi(model: kt.Model, function: str, inputs: list[Any], *rest: Any) -> tuple[float, int]:
    """What C from CasADi takes; `rest` are arguments that are no numbers."""
    import casadi

    kt.register_scalar(
        Symbol,
        sincos=lambda angle: (Symbol(casadi.sin(angle.x)), Symbol(casadi.cos(angle.x))),
        sqrt=lambda square: Symbol(casadi.sqrt(square.x)),
    )
    symbols = [casadi.SX.sym(f"x{i}", len(x)) for i, x in enumerate(inputs)]
    given = []
    for symbol in symbols:
        array = np.empty(symbol.shape[0], dtype=object)
        array[:] = [Symbol(symbol[i]) for i in range(symbol.shape[0])]
        given.append(array)
    result = getattr(model, function).engine("reference")(*given, *rest)
    entries = [entry.x if isinstance(entry, Symbol) else entry for entry in np.asarray(result).reshape(-1)]
    made = casadi.Function("f", symbols, [casadi.densify(casadi.vertcat(*entries))])
    expected = np.asarray(getattr(model, function)(*inputs, *rest)).reshape(-1)
    np.testing.assert_allclose(np.asarray(made(*inputs)).reshape(-1), expected, rtol=1e-6, atol=1e-8)
    with tempfile.TemporaryDirectory() as directory:
        made.generate("generated.c", {"with_header": False})
        source = Path(directory, "generated.c")
        shutil.move("generated.c", source)
        declarations = ["int f(const double **, double **, long long *, double *, int);"]
        declarations += [f"static const double x{i}[] = {{{listed(x)}}};" for i, x in enumerate(inputs)]
        declarations += [f"static double y[{expected.size}], w[{max(1, made.sz_w())}];", "static long long iw[1];"]
        declarations += [
            f"static const double *x[] = {{{', '.join(f'x{i}' for i in range(len(inputs)))}}};",
            "static double *r[] = {y};",
        ]
        driver = DRIVER.format(declarations="\n".join(declarations), call="f(x, r, iw, w, 0)")
        return measured(Path(directory), source, driver, "gcc")


def native(model: kt.Model, function: str, inputs: list[Any]) -> float:
    """A call from Python [µs]."""
    call, least = getattr(model, function), np.inf
    for _ in range(2000):
        start = time.perf_counter_ns()
        for _ in range(5):
            call(*inputs)
        least = min(least, (time.perf_counter_ns() - start) / 5)
    return float(least) / 1000.0


def table(robots: Sequence[str]) -> Table:
    """Times and sizes of each function."""
    found = Table(
        "Exported C: time of a call [µs], and size of the code [kB]",
        ["robot, function", "native, from Python", "C, gcc", "C, clang", "CasADi's C, gcc", "C, kB", "CasADi's C, kB"],
    )
    for name in robots:
        model = load(name).model
        for function, count in FUNCTIONS.items():
            inputs = state(model, count)
            gcc, size = exported(model, function, inputs, "gcc")
            clang = f"{exported(model, function, inputs, 'clang')[0]:.2f}" if shutil.which("clang") else ""
            peer = from_casadi(model, function, inputs) if find_spec("casadi") else None
            found.add(
                f"{name}, {function.replace('_', ' ')}",
                f"{native(model, function, inputs):.2f}",
                f"{gcc:.2f}",
                clang,
                f"{peer[0]:.2f}" if peer else "",
                f"{size / 1000:.1f}",
                f"{peer[1] / 1000:.1f}" if peer else "",
            )
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--robots", nargs="+", default=["Panda", "ANYmal", "Talos"])
    parser.add_argument("--markdown", metavar="FILE", help="also write it there")
    options = parser.parse_args()
    made = table(options.robots)
    Console().print(made.rich())
    if options.markdown:
        Path(options.markdown).write_text(made.markdown() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
