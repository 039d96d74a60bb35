"""Everything that must hold before a release is uploaded: `make release-check`.

Builds sdist and wheel twice from the committed sources and compares them byte by byte, checks metadata and contents,
installs the wheel into empty environments, alone and with each extra, runs the README's code and the commands of the
documents there, and writes a software bill of materials. What passes is in `dist/`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from datetime import date
from pathlib import Path

from tools import documented_commands

ROOT = Path(__file__).parents[1]

XACRO = """<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:property name="mass" value="${2 * 1.5}"/>
  <link name="base"/>
  <link name="link"><inertial><mass value="${mass}"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>
  <joint name="hinge" type="continuous"><parent link="base"/><child link="link"/></joint>
</robot>
"""
USD = """#usda 1.0
(
  defaultPrim = "arm"
  metersPerUnit = 1
  upAxis = "Z"
)
def Xform "arm" {
  def Xform "link" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {
    float physics:mass = 2
    point3f physics:centerOfMass = (0, 0, 0.1)
    float3 physics:diagonalInertia = (0.02, 0.03, 0.04)
  }
  def PhysicsRevoluteJoint "hinge" {
    rel physics:body1 = </arm/link>
    uniform token physics:axis = "Y"
  }
}
"""

# What a user of each extra does first.
EXTRAS = {
    "cli": "import typer; from kinetree.cli import main",
    "plot": "import matplotlib",
    "viewer": "import viser; import kinetree as kt; kt.viewer.View",
    "video": "from kinetree.viewer.browser import require_encoder; require_encoder()",
    "qp": "import daqp; import kinetree as kt; kt.control.WholeBody",
    "xacro": f"""
import pathlib, kinetree as kt
pathlib.Path("arm.urdf.xacro").write_text({XACRO!r})
assert kt.load("arm.urdf.xacro", xacro={{}}).nv == 1
""",
    "usd": f"""
import pathlib, kinetree as kt
pathlib.Path("arm.usda").write_text({USD!r})
assert kt.load("arm.usda").nv == 1
""",
    "mujoco": "import mujoco; import kinetree as kt; kt.load(kt.to_mjcf(kt.zoo.chain(3)))",
    "pinocchio": "import pinocchio; import kinetree as kt; kt.from_pinocchio(pinocchio.buildSampleModelManipulator())",
    "jax": "import kinetree.jax",
    "torch": "import kinetree.torch",
    "hulls": "import coal, scipy.spatial; import kinetree as kt; kt.geometry.Hull",
    "identification": "import clarabel, scipy.sparse; import kinetree as kt; kt.identification.FRICTION",
    "dask": "import dask.array as da, zarr, kinetree as kt; kt.zoo.double_pendulum().bracket(da.ones(2))",
}
# Blocks of documents that need an extra: the document, and a line of each block.
BLOCKS = {
    "qp": ("docs/control.md", "standing = control.WholeBody("),
    "mujoco": ("docs/loading.md", "again = kt.load(kt.to_mjcf(crane))", "import mujoco"),
    "pinocchio": ("docs/tour.md", "import pinocchio as pin"),
    "jax": ("docs/learning.md", "import jax", "gains = jnp.zeros((2, 4))"),
    "torch": ("docs/learning.md", "import torch"),
    "dask": ("docs/clusters.md", "import dask.array as da"),
    "identification": ("docs/identification.md", "from kinetree.identification import fit_inertial_parameters"),
}
# What these blocks take from earlier ones.
PREAMBLE = """
import numpy as np
import kinetree as kt
from kinetree import control
rng = np.random.default_rng(0)
robot = kt.zoo.double_pendulum()
starts = np.array([np.pi, 0.0]) + 0.2 * rng.standard_normal((16, 2))
"""
# A plain `torch` brings gigabytes of GPU libraries.
CONSTRAINTS = "torch==2.13.0\n"


class CheckFailed(Exception):
    """A condition of a release that does not hold."""


def step(message: str) -> None:
    """Say what is done."""
    print(f"release-check: {message}", flush=True)


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """The output of a command, which has to succeed."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True
    )
    if done.returncode:
        raise CheckFailed(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def version() -> str:
    """The version, which stands in `__init__.py` and must agree with the documents."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/kinetree/__init__.py").read_text("utf-8"), re.MULTILINE)
    if not found:
        raise CheckFailed("src/kinetree/__init__.py has no __version__")
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    if not cited or cited[1] != found[1]:
        raise CheckFailed(f"CITATION.cff cites version {cited and cited[1]}, the package is {found[1]}")
    return found[1]


def check_changelog(number: str) -> None:
    """A release is a dated section of the changelog, with nothing left under Unreleased."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    dated = re.findall(r"^## \[(\d.*)\] - (\d{4}-\d{2}-\d{2})$", text, re.MULTILINE)
    if not dated or dated[0][0] != number:
        raise CheckFailed(f"CHANGELOG.md does not start with a section '## [{number}] - YYYY-MM-DD'")
    try:
        date.fromisoformat(dated[0][1])
    except ValueError as error:
        raise CheckFailed(f"CHANGELOG.md dates {number} {dated[0][1]}: {error}") from None
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## \[)", text, re.MULTILINE | re.DOTALL)
    if unreleased and unreleased[1].strip():
        raise CheckFailed(f"CHANGELOG.md has entries under [Unreleased]: move them to [{number}]")


def build(sources: Path, out: Path, epoch: str) -> list[Path]:
    """Sdist, and a wheel built from it."""
    run(sys.executable, "-m", "build", "--outdir", out, cwd=sources, SOURCE_DATE_EPOCH=epoch)
    return sorted(out.iterdir())


def digests(files: list[Path]) -> dict[str, str]:
    """SHA-256 of files by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def build_reproducibly(scratch: Path) -> list[Path]:
    """The distributions, after a second build elsewhere has given the same bytes."""
    if run("git", "status", "--porcelain", "--untracked-files=no").strip():
        step("warning: what is not committed is not in the distributions")
    epoch = run("git", "log", "-1", "--format=%ct").strip()
    archive = scratch / "sources.tar"
    run("git", "archive", "--output", archive, "HEAD")
    built = []
    for attempt in ("first", "second"):
        sources = scratch / attempt
        with tarfile.open(archive) as tar:
            tar.extractall(sources, filter="data")
        built.append(build(sources, scratch / f"{attempt}-dist", epoch))
    first, second = map(digests, built)
    if first != second:
        raise CheckFailed(f"two builds differ: {first} and {second}")
    for name, digest in first.items():
        step(f"{name}  sha256 {digest}")
    return built[0]


def environment(where: Path, requirement: str) -> Path:
    """The Python of a new environment that holds the requirement and what it depends on, nothing else."""
    venv.create(where, with_pip=True)
    python = where / "bin" / "python"
    constraints = where / "constraints.txt"
    constraints.write_text(CONSTRAINTS)
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints, requirement)
    run(python, "-m", "pip", "check", "--disable-pip-version-check")
    return python


def python_blocks(document: str) -> list[str]:
    """The Python blocks of a document."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text("utf-8"), re.MULTILINE | re.DOTALL)


def blocks_of(extra: str) -> list[str]:
    """The blocks of documents that show what an extra is for."""
    document, *lines = BLOCKS.get(extra, ("README.md",))
    found = []
    for line in lines:
        matching = [block for block in python_blocks(document) if line in block.splitlines()]
        if len(matching) != 1:
            raise CheckFailed(f"{document} has {len(matching)} blocks with the line {line!r}; BLOCKS needs one")
        found += matching
    return found


def try_blocks(python: Path, where: Path, blocks: list[str]) -> int:
    """Run Python blocks outside the repository, as one script, and count them."""
    where.mkdir()
    script = where / "blocks.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    run(python, "-I", script, cwd=where, KINETREE_CACHE_DIR=str(where / "cache"))
    return len(blocks)


def install(wheel: Path, scratch: Path, extras: list[str]) -> Path:
    """Use the wheel as its users will, and return the Python that has it without extras.

    An extra that fails does not keep the others from being tried.
    """
    began = time.monotonic()
    bare = environment(scratch / "bare", str(wheel))
    count = try_blocks(bare, scratch / "readme", python_blocks("README.md"))
    step(f"the wheel alone: README's {count} block(s) run, {time.monotonic() - began:.0f} s")
    failures = []
    for extra in extras:
        began = time.monotonic()
        try:
            count = try_extra(wheel, scratch, extra)
        except CheckFailed as failure:
            failures.append(f"[{extra}] {failure}")
            outcome = "FAILED"
        else:
            outcome = f"installs and runs, with {count} block(s) of the documents"
        step(f"[{extra}]: {outcome}, {time.monotonic() - began:.0f} s")
    if failures:
        raise CheckFailed("\n".join(failures))
    return bare


def try_extra(wheel: Path, scratch: Path, extra: str) -> int:
    """Install the wheel with an extra, use it, and count the blocks of documents that ran."""
    python = environment(scratch / extra, f"kinetree[{extra}] @ {wheel.as_uri()}")
    use = scratch / f"{extra}-use"
    use.mkdir()
    run(python, "-I", "-W", "error", "-c", EXTRAS[extra], cwd=use)
    blocks = blocks_of(extra)
    if blocks:
        try_blocks(python, scratch / f"{extra}-blocks", [PREAMBLE, *blocks])
    shutil.rmtree(scratch / extra)  # some take gigabytes
    return len(blocks)


def try_documented_commands(wheel: Path, scratch: Path) -> None:
    """Run the commands of the documents, each with its own extras alone."""
    began, commands = time.monotonic(), documented_commands.documented()
    failures = list(documented_commands.try_all(environment, wheel, scratch, run))
    if failures:
        raise CheckFailed("\n".join(failures))
    step(f"{len(commands)} commands of the documents run with their own extras, {time.monotonic() - began:.0f} s")


def main() -> None:
    """Check, and leave the distributions and the bill of materials in `dist/`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--final", action="store_true", help="also require a dated section in the changelog")
    parser.add_argument("--extras", default=",".join(EXTRAS), help="extras to install, comma-separated (default: all)")
    options = parser.parse_args()
    extras = [extra for extra in options.extras.split(",") if extra]
    if unknown := set(extras) - set(EXTRAS):
        parser.error(f"unknown extras {sorted(unknown)}; there are {', '.join(EXTRAS)}")

    dist = ROOT / "dist"
    try:
        number = version()
        step(f"version {number}")
        if options.final:
            check_changelog(number)
        with tempfile.TemporaryDirectory(prefix="kinetree-release-") as folder:
            scratch = Path(folder)
            built = build_reproducibly(scratch)
            run(sys.executable, "-m", "twine", "check", "--strict", *built)
            wheel = next(path for path in built if path.suffix == ".whl")
            run("check-wheel-contents", wheel, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
            step("metadata and contents are in order")
            bare = install(wheel, scratch, extras)
            try_documented_commands(wheel, scratch)
            dist.mkdir(exist_ok=True)
            for path in dist.iterdir():
                path.unlink()
            bill = dist / f"kinetree-{number}.cdx.json"
            run(sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "-o", bill, bare)
            for path in built:
                (dist / path.name).write_bytes(path.read_bytes())
    except CheckFailed as failure:
        raise SystemExit(f"release-check failed: {failure}") from None
    step(f"passed; {', '.join(sorted(path.name for path in dist.iterdir()))} in dist/")


if __name__ == "__main__":
    main()
