"""Kinetree on 64-bit ARM, emulated: `make test-aarch64`.

Unpacks Debian's Python for arm64 and manylinux wheels into a folder, runs them by QEMU and proot on the committed
sources. The stages:

    c          exported C, compiled here by Debian's cross compiler and run by QEMU alone (`tools.c_bits`)
    record     on this machine: a copy of the sources, the bits of all public functions (`tools.bits`)
    kernels    on this machine: parity and law tests, for their kernels
    bits       the same bits there
    parity     tests of signs of zero, and of engines that agree
    laws       laws of mechanics, for compiled code
    reference  the same for the reference engine: NumPy on ARM

Needs apt-get and dpkg-deb, but not root: packages are unpacked, not installed. Emulated code runs ten to twenty times
slower, so all of it takes hours. Wheels have the versions that are installed here, and most kernels are compiled here
too, since the compiler gives the same bytes (`tools.cross_compile`).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from importlib.metadata import version
from pathlib import Path

from tools.release_check import version as release_version

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "aarch64"

#: Packages of the emulated system. GCC does not find its own parts under proot, so the stage "c" cross-compiles.
SYSTEM = ("python3", "libstdc++6", "coreutils", "dash")
#: Packages of this machine, if the programs are not installed.
EMULATORS = {"proot": ("proot", "libtalloc2"), "qemu-aarch64-static": ("qemu-user-static",)}
COMPILER = "aarch64-linux-gnu-gcc"
WHEELS = ("numpy", "llvmlite", "lxml", "rich", "typer", "pytest", "pytest-xdist", "hypothesis", "scipy")
#: Versions of the C library, as wheels name them, up to that of the emulated system.
MANYLINUX = ("manylinux2014_aarch64", *(f"manylinux_2_{minor}_aarch64" for minor in range(17, 37)))

STAGES = {
    "bits": ("tools.bits", "compare", "/record/bits.npz"),
    # compilers do not run under proot: exported C has a stage of its own
    "parity": (
        "pytest",
        "tests/unit/compiler/test_signs_of_zero.py",
        "tests/parity",
        "--ignore=tests/parity/test_c99.py",
    ),
    "laws": ("pytest", "tests/laws", "-k", "not reference"),
    "reference": ("pytest", "tests/laws", "-k", "reference"),
}
NAMES = ("c", "record", "kernels", *STAGES)
#: Prints the emulated processor, as LLVM describes it.
TARGET = """
from kinetree.compiler.llvm.machine_code import host
print(host().triple, host().cpu, host().features, host().width, sep="|")
"""


class CheckFailed(Exception):
    """Something that is needed is missing, or a command failed."""


def step(message: str) -> None:
    """Say what is done."""
    print(f"test-aarch64: {time.strftime('%H:%M:%S')} {message}", flush=True)


def run(*command: str | Path, cwd: Path | None = None, environment: dict[str, str] | None = None) -> str:
    """The output of a command, which has to succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise CheckFailed(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


class Packages:
    """Debian packages of one architecture, from the sources this machine is configured for.

    Lists and downloads have a folder of their own, so that the machine's package database stays as it is.

    Args:
        folder: Where lists and downloads go.
        architecture: Debian's name of it.
    """

    def __init__(self, folder: Path, architecture: str) -> None:
        for part in ("state/lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / "status").write_text("")
        self._folder = folder
        self._options = {
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Dir::Cache": folder / "cache",
            "Dir::State": folder / "state",
            "Dir::State::status": folder / "status",
        }
        self.get("update")

    def get(self, *words: str) -> None:
        """Run apt-get."""
        options = [word for name, value in self._options.items() for word in ("-o", f"{name}={value}")]
        run("apt-get", *options, "--yes", *words, cwd=self._folder / "cache" / "archives")

    def unpack(self, target: Path, *names: str, dependencies: bool) -> None:
        """Unpack packages, with or without what they depend on."""
        self.get(*(("install", "--download-only") if dependencies else ("download",)), *names)
        for folder in ("bin", "lib", "sbin"):  # symbolic links, as Debian has them
            (target / "usr" / folder).mkdir(parents=True, exist_ok=True)
            if not (target / folder).is_symlink():
                (target / folder).symlink_to(f"usr/{folder}")
        for package in sorted((self._folder / "cache" / "archives").glob("*.deb")):
            archive = package.with_suffix(".tar")
            with archive.open("wb") as file:
                subprocess.run(["dpkg-deb", "--fsys-tarfile", package], stdout=file, check=True)
            run("tar", "-x", "--keep-directory-symlink", "-f", archive, "-C", target)
            archive.unlink()


def cross_compiler(folder: Path) -> tuple[list[str], dict[str, str]]:
    """The words that compile C for ARM here, and variables they need: an installed compiler, else an unpacked one."""
    if found := shutil.which(COMPILER):
        return [found], {}
    root, stamp = folder / "cross", folder / "cross.stamp"
    tools = root / "usr/aarch64-linux-gnu/lib"
    if not stamp.exists():
        step("unpacking a cross compiler")
        packages = Packages(folder / "apt-cross", run("dpkg", "--print-architecture").strip())
        packages.unpack(root, f"gcc-{COMPILER.removesuffix('-gcc')}", "libc6-dev-arm64-cross", dependencies=True)
        for script in tools.glob("*.a"):  # some are scripts of the linker, which name files by absolute paths
            content = script.read_bytes()
            if content.startswith(b"/* GNU ld script"):
                script.write_bytes(content.replace(b"/usr/aarch64-linux-gnu/lib/", b""))
        # libraries of the compiler itself, but not another C library than this machine's
        libraries = _made(folder / "cross-lib")
        for path in root.glob("usr/lib/*-linux-gnu/lib*.so*"):
            if re.match(r"lib(isl|mpc|mpfr|gmp|zstd|bfd|ctf|jansson|opcodes|sframe)\b", path.name):
                (libraries / path.name).unlink(missing_ok=True)
                (libraries / path.name).symlink_to(path)
        stamp.touch()
    return [str(root / "usr/bin" / COMPILER)], {"LD_LIBRARY_PATH": str(folder / "cross-lib")}


def exported_c(folder: Path) -> bool:
    """Whether exported C has the same bits there."""
    from tools import c_bits

    compiler, variables = cross_compiler(folder)
    step(f"c: {' '.join(compiler)}")
    os.environ.update(variables)
    try:
        tally = c_bits.compare(_made(folder / "c"), compiler, [str(emulators(folder)["qemu-aarch64-static"])])
    except subprocess.CalledProcessError as error:
        raise CheckFailed(f"{error}\n{(error.stderr or b'').decode(errors='replace')}") from None
    step(f"c: {'failed' if tally.differing else 'passed'}")
    return not tally.differing


def emulators(folder: Path) -> dict[str, Path]:
    """Paths of proot and QEMU: installed ones, else unpacked into the folder."""
    own = folder / "host"
    missing = {name for name in EMULATORS if shutil.which(name) is None and not (own / "usr/bin" / name).exists()}
    if missing:
        step(f"unpacking {' and '.join(sorted(missing))}")
        packages = Packages(folder / "apt-host", run("dpkg", "--print-architecture").strip())
        packages.unpack(own, *(package for name in missing for package in EMULATORS[name]), dependencies=False)
    return {name: Path(shutil.which(name) or own / "usr/bin" / name) for name in EMULATORS}


def system(folder: Path) -> Path:
    """The root directory of the emulated system, made on first use."""
    root, stamp = folder / "root", folder / "root.stamp"
    wanted = " ".join(SYSTEM)
    if not stamp.exists() or stamp.read_text() != wanted:
        step("unpacking Debian's Python for arm64")
        Packages(folder / "apt-arm64", "arm64").unpack(root, *SYSTEM, dependencies=True)
        (root / "tmp").mkdir(exist_ok=True)
        stamp.write_text(wanted)
    return root


def python_version(root: Path) -> str:
    """Version of the emulated system's Python, e.g. "3.11"."""
    found = os.readlink(root / "usr/bin/python3").removeprefix("python")
    if not found.startswith("3."):
        raise CheckFailed(f"{root}/usr/bin/python3 leads to {found!r}, which says no version")
    return found


def wheels(folder: Path, python: str) -> Path:
    """The directory of the packages for the emulated Python, made on first use."""
    target, stamp = folder / "site", folder / "site.stamp"
    wanted = [f"{name}=={version(name)}" for name in WHEELS]
    if not stamp.exists() or stamp.read_text() != " ".join((python, *wanted)):
        step(f"installing wheels for Python {python} on aarch64: {', '.join(wanted)}")
        shutil.rmtree(target, ignore_errors=True)
        platforms = [word for tag in MANYLINUX for word in ("--platform", tag)]
        only = ("--only-binary=:all:", "--implementation", "cp", "--python-version", python)
        run(sys.executable, "-m", "pip", "install", "--quiet", "--target", target, *only, *platforms, *wanted)
        stamp.write_text(" ".join((python, *wanted)))
    return target


def sources(folder: Path, again: bool) -> Path:
    """A copy of the committed sources: the run takes long, and must not see what is edited meanwhile.

    Args:
        folder: Where it goes.
        again: Copy also if there is a copy.
    """
    target, archive = folder / "sources", folder / "sources.tar"
    if again or not target.exists():
        run("git", "archive", "--output", archive, "HEAD", cwd=ROOT)
        shutil.rmtree(target, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extractall(target, filter="data")
        metadata = target / "src" / f"kinetree-{release_version()}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: kinetree\nVersion: {release_version()}\n")
    return target


def emulation(folder: Path, again: bool) -> tuple[list[str], dict[str, str]]:
    """The words before an emulated command, and its environment."""
    programs = emulators(folder)
    root = system(folder)
    binds = {
        "/proc": "/proc",
        "/dev": "/dev",
        "/sys": "/sys",
        str(wheels(folder, python_version(root))): "/site",
        str(sources(folder, again)): "/kinetree",
        str(_made(folder / "cache")): "/cache",
        str(_made(folder / "record")): "/record",
    }
    words = [str(programs["proot"]), "-q", str(programs["qemu-aarch64-static"]), "-r", str(root), "-w", "/kinetree"]
    words += [word for here, there in binds.items() for word in ("-b", f"{here}:{there}")]
    environment = {
        "HOME": "/tmp",
        "KINETREE_CACHE_DIR": "/cache/kinetree",
        "LANG": "C.UTF-8",
        "LD_LIBRARY_PATH": ":".join(str(path.parent) for path in (folder / "host").glob("usr/lib/*/libtalloc.so.2")),
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": "/kinetree/src:/kinetree:/site",
        "PYTHONPYCACHEPREFIX": "/cache/pycache",
    }
    return words, environment


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def here(folder: Path, target: str, *command: str) -> None:
    """Run a module on this machine that compiles its kernels for the emulated one, too."""
    step(f"{' '.join(command)}, compiling also for {target}")
    environment = os.environ | {
        "KINETREE_ALSO_FOR": target,
        "KINETREE_CACHE_DIR": str(folder / "cache/kinetree"),
        "PYTHONPATH": os.pathsep.join((str(folder / "sources/src"), str(folder / "sources"))),
    }
    if subprocess.run([sys.executable, "-m", *command], cwd=folder / "sources", env=environment).returncode:
        raise CheckFailed(f"on this machine: {' '.join(command)}")


def main() -> None:
    """Build the emulated system and run the stages."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where everything is kept (default: build/aarch64)")
    parser.add_argument("--stages", default=",".join(NAMES), help="stages to run, comma-separated (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="emulated processes that run tests (default: 1)")
    options = parser.parse_args()
    stages = [name for name in options.stages.split(",") if name]
    if unknown := set(stages) - set(NAMES):
        parser.error(f"unknown stages {sorted(unknown)}; there are {', '.join(NAMES)}")
    if missing := [name for name in ("apt-get", "dpkg-deb", "tar", "git") if shutil.which(name) is None]:
        parser.error(f"needs {', '.join(missing)}: run it on Debian, Ubuntu or in a container of one of them")

    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        failed = [] if "c" not in stages or exported_c(folder) else ["c"]
        if stages == ["c"]:
            finish(failed)
            return
        words, environment = emulation(folder, "record" in stages)
        target = run(*words, "/usr/bin/python3", "-c", TARGET, environment=environment).strip()
        if "record" in stages:
            here(folder, target, "tools.bits", "record", str(folder / "record/bits.npz"))
        if "kernels" in stages:
            for module, *arguments in (STAGES["parity"], STAGES["laws"]):
                here(folder, target, module, *arguments, "-q", "-n", str(options.jobs), "-p", "tools.cross_compile")
        failed += [name for name in STAGES if name in stages and not passes(name, words, environment, options.jobs)]
    except CheckFailed as failure:
        raise SystemExit(f"test-aarch64 failed: {failure}") from None
    finish(failed)


def finish(failed: list[str]) -> None:
    """Say how it went."""
    if failed:
        raise SystemExit(f"test-aarch64 failed: {', '.join(failed)}")
    step("passed")


def passes(name: str, words: list[str], environment: dict[str, str], jobs: int) -> bool:
    """Run a stage, and tell whether it passes."""
    began = time.monotonic()
    module, *arguments = STAGES[name]
    if module == "pytest":
        arguments += ["-p", "no:cacheprovider", "--durations=10", "-n", str(jobs), "--dist", "worksteal"]
    step(f"{name}: {' '.join((module, *arguments))}")
    done = subprocess.run([*words, "/usr/bin/python3", "-m", module, *arguments], env=environment)
    step(f"{name}: {'failed' if done.returncode else 'passed'} after {(time.monotonic() - began) / 60:.0f} min")
    return not done.returncode


if __name__ == "__main__":
    main()
