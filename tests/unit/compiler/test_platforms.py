"""macOS and Windows, simulated: what their code imports, cache sizes, private directories, opening files."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import kinetree as kt
from kinetree.compiler import cache
from kinetree.compiler.llvm import machine_code
from kinetree.compiler.llvm import machine_code as processor_cache
from kinetree.compiler.llvm import machine_code as target
from kinetree.compiler.programs import variants_of
from kinetree.errors import CacheWarning
from kinetree.model import meshes
from kinetree.runtime import compile_queue, driver, kernels

SYSTEMS = {
    "darwin": target.Processor("arm64-apple-darwin", "apple-m1", "", 2),
    "win32": target.Processor("x86_64-pc-windows-msvc", "x86-64", "", 2),
    "linux": target.Processor("x86_64-unknown-linux-gnu", "x86-64", "", 2),
}


@pytest.fixture
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a system that this process seems to run on."""
    target.llvm()  # found by the real name of the system
    monkeypatch.setattr(sys, "platform", request.param)
    return str(request.param)


def imports(text: str, chosen: target.Processor) -> set[str]:
    """Functions outside of a module that its code for a processor refers to."""
    module, machine = machine_code.optimized(text, chosen)
    code = machine.emit_assembly(module)
    called = set(re.findall(r"^\s+(?:callq|jmp|bl|b)\s+\*?([A-Za-z_]\w*)", code, re.MULTILINE))
    called |= set(re.findall(r"\b_fltused\b", code))
    if "apple" in chosen.triple:
        called = {name.removeprefix("_") for name in called}
    declared = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    defined = {f.name for f in module.functions if not f.is_declaration}
    return {name for name in called | declared if not re.match(r"\.?_?LBB", name)} - defined


@pytest.mark.parametrize("system", SYSTEMS, indirect=True)
def test_what_compiled_code_calls_is_imported(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target.llvm().initialize_all_targets()
    target.llvm().initialize_all_asmprinters()
    chosen = SYSTEMS[system]
    robot = kt.zoo.double_pendulum()
    algorithm = robot.gravity_forces.algorithm
    (text,), _ = kernels.Kernels(algorithm, variants_of(algorithm, robot.mechanism, ())).modules(1, chosen)
    wanted = imports(text, chosen) | imports(driver.driver_text(2, chosen), chosen)
    assert {"malloc", "free"} <= wanted

    opened = []

    def library(name: str | None) -> SimpleNamespace:
        opened.append(name)
        has = {"ntdll": ("__chkstk",), "libm.so.6": ()}.get(
            name or "", (*compile_queue._LIBC, *compile_queue._LIBM, "bzero", "sched_yield")
        )
        return SimpleNamespace(**dict.fromkeys(has, ctypes.c_void_p(1)))

    monkeypatch.setattr(ctypes, "CDLL", library)
    found = compile_queue._externals.__wrapped__()
    assert wanted <= set(found)
    assert all(found.values())
    assert opened == {"darwin": [None], "win32": ["ucrtbase", "ntdll"], "linux": [None]}[system]
    assert {"darwin": "bzero", "win32": "_fltused", "linux": "fma"}[system] in wanted


@pytest.mark.parametrize("system", ["darwin"], indirect=True)
def test_cache_size_on_macos(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {b"hw.perflevel0.l2cachesize": 12 << 20, b"hw.l2cachesize": 4 << 20}

    def sysctlbyname(name: bytes, value: object, length: object, *_: object) -> int:
        value._obj.value = sizes.get(name, 0)  # type: ignore[attr-defined]
        return 0 if name in sizes else -1

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(sysctlbyname=sysctlbyname))
    assert processor_cache.last_level_cache() == 12 << 20
    sizes.clear()
    assert processor_cache.last_level_cache() is None


@pytest.mark.parametrize("system", ["win32"], indirect=True)
def test_cache_size_on_windows(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = processor_cache._ENTRY.pack
    entries = pack(3, 0, 0, 0, 0, 0, 0) + pack(3, 2, 2, 8, 64, 2 << 20, 0) + pack(3, 2, 3, 16, 64, 32 << 20, 0)
    assert len(entries) == 3 * 32

    def read(buffer: object, length: object) -> int:
        length._obj.value = len(entries)  # type: ignore[attr-defined]
        if buffer is not None:
            buffer.raw = entries  # type: ignore[attr-defined]
        return int(buffer is not None)

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(GetLogicalProcessorInformation=read))
    assert processor_cache.last_level_cache() == 32 << 20

    def missing(_: str) -> None:
        raise OSError("no such library")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert processor_cache.last_level_cache() is None


@pytest.mark.parametrize(
    ("system", "expected"),
    [("linux", ".cache"), ("darwin", "Library/Caches"), ("win32", "local")],
    indirect=["system"],
)
def test_cache_directory(system: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KINETREE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    cache.store("key", {}, b"code")
    assert (tmp_path / expected / "kinetree" / "key.object").exists()
    assert cache.load("key") == ({}, b"code")


def test_without_owners_the_directory_is_in_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no owners in `stat`, and profiles that others cannot write to."""
    monkeypatch.setattr(cache, "_OWNERS", False)
    monkeypatch.setattr(cache, "_warned", False)
    monkeypatch.setenv("HOME", str(tmp_path / "profile"))
    monkeypatch.setenv("KINETREE_CACHE_DIR", str(tmp_path / "profile" / "cache"))
    cache.store("key", {}, b"code")
    assert cache.load("key") == ({}, b"code")
    monkeypatch.setenv("KINETREE_CACHE_DIR", str(tmp_path / "profile" / ".." / "shared"))
    with pytest.warns(CacheWarning, match="shared is not a directory in your user profile"):
        cache.store("key", {}, b"code")
    assert cache.load("key") is None
    assert not list((tmp_path / "shared").iterdir())


def test_a_file_that_is_being_read_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows does not replace it; what it has is as good, so there is no warning."""
    monkeypatch.setenv("KINETREE_CACHE_DIR", str(tmp_path / "cache"))
    cache.store("key", {}, b"code")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "in use by another process")

    monkeypatch.setattr(os, "replace", refuse)
    cache.store("key", {}, b"code")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["key.object"]
    monkeypatch.setattr(cache, "_warned", False)
    with pytest.warns(CacheWarning, match="in use by another process"):
        cache.store("new", {}, b"code")


def test_files_are_opened_without_flags_of_posix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows lacks O_NONBLOCK and O_CLOEXEC, and would translate line ends."""
    text = Path(meshes.__file__).read_text("utf-8")
    names = ("O_NONBLOCK", "O_CLOEXEC")
    for name in names:
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(os, "O_BINARY", 1 << 30, raising=False)
    scope: dict[str, object] = {"__name__": "simulated", "__file__": meshes.__file__}
    (line,) = re.findall(r"^READ_ONLY = .*$", text, re.MULTILINE)
    exec(f"import os\n{line}", scope)
    assert scope["READ_ONLY"] == os.O_RDONLY | os.O_BINARY
    for folder in ("io", "model", "viewer"):
        files = list((Path(meshes.__file__).parents[1] / folder).rglob("*.py"))
        assert files
        for file in files:
            assert not re.findall(r"os\.(O_NONBLOCK|O_CLOEXEC)", file.read_text("utf-8")), file


def test_exported_files_have_the_same_bytes_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text files have other line ends on Windows."""
    monkeypatch.setattr(Path, "write_text", lambda *_, **__: pytest.fail("written as text"))
    for path in kt.zoo.double_pendulum().export_c(["gravity_forces"], directory=tmp_path):
        assert b"\r" not in path.read_bytes()
