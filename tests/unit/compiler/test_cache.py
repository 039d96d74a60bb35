"""The cache of compiled objects: private, verified, never in the way."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from kinetree.compiler import cache
from kinetree.compiler.llvm.machine_code import host
from kinetree.errors import CacheWarning
from kinetree.runtime import bound as compiled
from kinetree.runtime import compile_queue
from kinetree.runtime.bound import load_driver
from kinetree.runtime.compile_queue import Library
from tests.unit.runtime.toys import toy

META, CODE = {"workspace": 12, "kinds": ["revolute"]}, bytes(range(256)) * 10

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX permissions")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache.source_fingerprint()  # kept in the cache as well, but not in this one
    monkeypatch.setenv("KINETREE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_warned", False)
    return tmp_path / "cache"


def only_file(directory: Path) -> Path:
    (file,) = directory.iterdir()
    return file


def test_store_and_load(directory: Path) -> None:
    assert cache.load("key") is None
    cache.store("key", META, CODE)
    assert cache.load("key") == (META, CODE)
    assert cache.load("other") is None
    if hasattr(os, "geteuid"):
        assert directory.stat().st_mode & 0o777 == 0o700
        assert only_file(directory).stat().st_mode & 0o077 == 0
    cache.store("key", {}, b"")
    assert cache.load("key") == ({}, b"")


def test_every_damaged_byte_is_noticed(directory: Path) -> None:
    cache.store("key", META, CODE)
    file = only_file(directory)
    content = file.read_bytes()
    for place in [*range(120), len(content) // 2, len(content) - 1]:
        damaged = bytearray(content)
        damaged[place] ^= 0x10
        file.write_bytes(damaged)
        assert cache.load("key") is None, place
    for length in (0, 1, 15, 40, 48, 60, len(content) - 1):
        file.write_bytes(content[:length])
        assert cache.load("key") is None, length
    file.write_bytes(content + b"\0")
    assert cache.load("key") is None
    cache.store("key", META, CODE)
    assert cache.load("key") == (META, CODE)


@pytest.mark.parametrize("damaged", ["metadata", "code"])
def test_corrupted_driver_is_compiled_again(directory: Path, monkeypatch: pytest.MonkeyPatch, damaged: str) -> None:
    monkeypatch.setattr(compiled, "_drivers", compile_queue.Libraries())
    load_driver(1)
    metadata, code = sorted(directory.iterdir(), key=lambda path: path.stat().st_size)
    file = metadata if damaged == "metadata" else code
    good = file.read_bytes()
    file.write_bytes(good[:-100] + bytes(100))
    monkeypatch.setattr(compiled, "_drivers", compile_queue.Libraries())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(toy(2)(np.ones(2), np.ones(2), 1.0)[2], [[[1], [1]], [[2], [2]]])
    assert file.read_bytes() == good


def test_driver_comes_from_the_cache(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_drivers", compile_queue.Libraries())
    load_driver(1)
    monkeypatch.setattr(compiled, "_drivers", compile_queue.Libraries())
    monkeypatch.setattr(compile_queue, "compile_text", lambda *_: pytest.fail("compiled again"))
    load_driver(1)


@pytest.mark.parametrize("setting", ["", "off"])
def test_switched_off(setting: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("KINETREE_CACHE_DIR", setting)
    cache.store("key", META, CODE)
    assert cache.load("key") is None
    assert not list(tmp_path.iterdir())


def test_default_directories(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KINETREE_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    cache.store("key", META, CODE)
    assert only_file(tmp_path / "xdg" / "kinetree").name.startswith("key")
    monkeypatch.delenv("XDG_CACHE_HOME")
    cache.store("key", META, CODE)
    assert only_file(tmp_path / ".cache" / "kinetree").name.startswith("key")


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_directory_that_others_may_write_is_refused_once(directory: Path, mode: int) -> None:
    cache.store("key", META, CODE)
    directory.chmod(mode)
    with pytest.warns(CacheWarning, match="you alone can write"):
        assert cache.load("key") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.load("key") is None
        cache.store("new", META, CODE)
    assert len(list(directory.iterdir())) == 1


@posix
def test_file_that_others_may_write_is_refused(directory: Path) -> None:
    cache.store("key", META, CODE)
    only_file(directory).chmod(0o620)
    with pytest.warns(CacheWarning, match="writable by others"):
        assert cache.load("key") is None
    cache.store("key", META, CODE)
    assert cache.load("key") == (META, CODE)


@posix
def test_owned_by_someone_else(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store("key", META, CODE)
    monkeypatch.setattr(os, "geteuid", lambda: directory.stat().st_uid + 1)
    with pytest.warns(CacheWarning, match="you alone can write"):
        assert cache.load("key") is None


@posix
def test_link_to_a_file_is_refused(directory: Path, tmp_path: Path) -> None:
    cache.store("key", META, CODE)
    file = only_file(directory)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert cache.load("key") is None


def test_directory_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("KINETREE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(cache, "_warned", False)
    monkeypatch.setattr(compiled, "_drivers", compile_queue.Libraries())
    with pytest.warns(CacheWarning, match="not cached"):
        result = toy(2)(np.ones(2), np.ones(2), 1.0)[2]
    np.testing.assert_array_equal(result, [[[1], [1]], [[2], [2]]])


@pytest.mark.parametrize("setting", ["/proc/nope", "/proc/nope/deeper", "/dev/null/cache", "/sys/nope"])
def test_directory_that_the_system_refuses(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """File systems that cannot be written say "permission denied", "read-only" or, as /proc does, "not found"."""
    monkeypatch.setenv("KINETREE_CACHE_DIR", setting)
    monkeypatch.setattr(cache, "_warned", False)
    with pytest.warns(CacheWarning, match="cannot be made or read .*Set KINETREE_CACHE_DIR to a private directory"):
        cache.store("key", META, CODE)
    assert cache.load("key") is None
    assert not os.path.lexists(setting)


def test_unwritable_directory(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated, since root may write everywhere."""
    directory.mkdir(mode=0o700)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.warns(CacheWarning, match="Permission denied"):
        cache.store("key", META, CODE)
    assert cache.load("key") is None


def test_full_disk_leaves_nothing_behind(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.warns(CacheWarning, match="No space left"):
        cache.store("key", META, CODE)
    assert not list(directory.iterdir())


def test_old_files_make_room(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LIMIT_BYTES", 20_000)
    for k in range(6):
        cache.store(f"k{k}", META, CODE)
        os.utime(directory / f"k{k}.object", (1000 + k, 1000 + k))
    assert cache.load("k0") is not None  # used again, so not the oldest any more
    cache.store("k6", META, CODE)
    cache.store("k7", META, CODE)
    left = {k for k in range(8) if (directory / f"k{k}.object").exists()}
    assert left == {0, 4, 5, 6, 7}


def test_files_that_vanish_while_making_room(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they do when other processes replace theirs: no complaint, no open handle, and the rest is still counted."""
    for name in ("a", "b", "c"):
        cache.store(name, META, CODE)
        os.utime(directory / f"{name}.object", (1000, 1000))
    monkeypatch.setattr(cache, "LIMIT_BYTES", 3_000)
    scandir = os.scandir

    class Entries:
        """A listing made before one of its files was deleted."""

        def __init__(self, path: Path) -> None:
            with scandir(path) as entries:
                self.entries = list(entries)
            Path(self.entries[0].path).unlink()

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self.entries

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(os, "scandir", Entries)
    cache._prune(directory)
    assert len(list(directory.iterdir())) == 0


@posix
def test_processes_that_start_together_compile_once(directory: Path) -> None:
    script = (
        "import logging, sys, numpy as np, kinetree as kt\n"
        "logging.basicConfig(level=logging.INFO, stream=sys.stdout, format='%(message)s')\n"
        "robot = kt.zoo.chain(2)\n"
        "sys.stdin.readline()\n"
        "robot.mass_matrix_inverse(np.zeros(2))\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    lines = [line for process in started for line in process.communicate(timeout=120)[0].splitlines()]
    compiled = [line.rpartition(" in ")[0] for line in lines if line.startswith("compiled ")]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert compiled
    assert sorted(compiled) == sorted(set(compiled))
    assert {file.suffix for file in directory.iterdir()} == {".object"}


@posix
def test_a_lock_of_a_process_that_died_is_void(directory: Path) -> None:
    script = (
        "import os, signal\n"
        "from kinetree.compiler.cache import cache_lock\n"
        "with cache_lock('key'):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode < 0
    assert [file.name for file in directory.iterdir()] == [".key.lock"]
    began = time.monotonic()
    with cache.cache_lock("key"):
        assert time.monotonic() - began < cache._PATIENCE_SECONDS / 2
    assert not list(directory.iterdir())


@posix
def test_nobody_waits_for_ever(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_PATIENCE_SECONDS", 0.05)
    entered = []
    with cache.cache_lock("key"), cache.cache_lock("key"):  # a second one, while the first goes on
        entered.append("key")
    with cache.cache_lock(None):
        entered.append("uncached")
    assert entered == ["key", "uncached"]


@posix
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/nowhere")])
def test_whatever_is_in_place_of_a_lock_is_ignored(directory: Path, make) -> None:
    directory.mkdir(mode=0o700)
    make(directory / ".key.lock")
    with cache.cache_lock("key"):
        cache.store("key", META, CODE)
    assert cache.load("key") == (META, CODE)


def test_abandoned_locks_are_removed(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    for name, age in ((".old.lock", 4000.0), (".new.lock", 0.0)):
        (directory / name).touch()
        os.utime(directory / name, (time.time() - age,) * 2)
    cache._prune(directory)
    assert [file.name for file in directory.iterdir()] == [".new.lock"]


def test_concurrent_writers(directory: Path) -> None:
    script = (
        "import sys\n"
        "from kinetree.compiler import cache\n"
        "seed = int(sys.argv[1])\n"
        "code = bytes([seed]) * 300_000\n"
        "for _ in range(60):\n"
        "    cache.store('key', {'seed': seed}, code)\n"
        "    meta, got = cache.load('key')\n"
        "    assert got == bytes([meta['seed']]) * 300_000\n"
    )
    source = Path(cache.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    writers = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", script, str(seed)], env=environment) for seed in range(4)
    ]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    only_file(directory)


def test_fingerprint_depends_on_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "runtime" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "a.py").write_text("x = 1")
    (inner / "cache.py").write_text("")
    monkeypatch.setattr(cache, "_PACKAGE", tmp_path)
    seen = set()

    def look() -> None:
        monkeypatch.setattr(cache, "_IMPORTED", cache._sources())
        cache.source_fingerprint.cache_clear()
        seen.add(cache.source_fingerprint())

    try:
        look()
        (tmp_path / "a.py").write_text("x = 2")
        look()
        (tmp_path / "a.py").rename(tmp_path / "b.py")
        look()
        (inner / "c.py").write_text("")
        look()
        monkeypatch.setattr(cache.np, "__version__", "0.0")
        look()
        assert len(seen) == 5
        (tmp_path / "notes.txt").write_text("not code")
        look()
        assert len(seen) == 5
    finally:
        cache.source_fingerprint.cache_clear()


def test_sources_are_read_again_only_if_their_files_have_changed(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    source = package / "a.py"
    source.write_text("x = 1")
    monkeypatch.setattr(cache, "_PACKAGE", package)
    read: list[str] = []
    content = cache._content
    monkeypatch.setattr(cache, "_content", lambda path: read.append(path) or content(path))

    def found() -> str | None:
        monkeypatch.setattr(cache, "_IMPORTED", cache._sources())
        cache.source_fingerprint.cache_clear()
        return cache.source_fingerprint()

    try:
        first = found()
        assert found() == first
        assert read == [source.name]
        # another file with the same size and time of modification
        status = source.stat()
        source.unlink()
        source.write_text("x = 2")
        os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
        second = found()
        assert second != first
        assert read == [source.name] * 2
        # a damaged entry, and a directory that nothing can be written to
        for file in directory.iterdir():
            file.write_bytes(b"damaged")
        monkeypatch.setattr(tempfile, "mkstemp", refused)
        assert found() == second
        assert read == [source.name] * 3
    finally:
        cache.source_fingerprint.cache_clear()


def refused(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_nothing_is_kept_after_the_library_was_replaced(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process compiles is the old version's; the files on disk are the new one's."""
    imported = cache._sources()
    path = next(iter(imported))
    monkeypatch.setattr(cache, "_IMPORTED", {**imported, path: (0, 0, 0, 0)})
    monkeypatch.setattr(compiled, "_drivers", compile_queue.Libraries())
    cache.source_fingerprint.cache_clear()
    try:
        assert cache.key("driver", 1) is None
        assert cache.module_key("text") is None
        load_driver(1)
        assert not directory.exists()
    finally:
        cache.source_fingerprint.cache_clear()


MODULE = "define i64 @{0}(i64 %x) {{ ret i64 %x }}"


def find(*functions: str, what: tuple[object, ...] | None = ("library",)) -> Library:
    """A library with one module for each function."""
    texts = [MODULE.format(name) for name in functions]
    library, metadata = compile_queue.CompileJob(
        "library", what, host(), lambda: (texts, dict(META)), *functions
    ).library()
    assert metadata == META
    for name in functions:
        assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address(name))(7) == 7
    return library


@pytest.fixture
def compiled_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules that are compiled from now on."""
    texts: list[str] = []
    compile_text = compile_queue.compile_text
    monkeypatch.setattr(
        compile_queue, "compile_text", lambda text, target: texts.append(text) or compile_text(text, target)
    )
    return texts


def test_another_version_compiles_only_modules_that_differ(
    directory: Path, compiled_texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find("one", "two")
    find("one", "two")
    assert sorted(compiled_texts) == [MODULE.format("one"), MODULE.format("two")]
    assert len(list(directory.iterdir())) == 3
    monkeypatch.setattr(cache, "source_fingerprint", lambda: "another version")
    find("one", "three")
    assert compiled_texts[2:] == [MODULE.format("three")]


def test_a_module_that_is_missing_or_damaged_is_compiled_again(directory: Path, compiled_texts: list[str]) -> None:
    find("one", "two")
    path = directory / f"{cache.module_key(MODULE.format('two'), host())}.object"
    path.unlink()
    find("one", "two")
    path.write_bytes(path.read_bytes()[:-1])
    find("one", "two")
    assert compiled_texts[2:] == [MODULE.format("two")] * 2
    find("one", "two")
    assert len(compiled_texts) == 4


def test_modules_of_code_that_must_not_be_cached_are_not(directory: Path, compiled_texts: list[str]) -> None:
    find("one", what=None)
    find("one", what=None)
    assert len(compiled_texts) == 2
    assert not directory.exists()


def test_keys_of_modules_cover_text_target_and_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {cache.module_key("text", "target"), cache.module_key("other", "target"), cache.module_key("text", "other")}
    compiler = tmp_path / cache._COMPILER
    compiler.parent.mkdir(parents=True)
    compiler.write_bytes((cache._PACKAGE / cache._COMPILER).read_bytes())
    cache.source_fingerprint()  # of the package itself
    try:
        monkeypatch.setattr(cache, "_PACKAGE", tmp_path)
        compiler.write_text(compiler.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        cache._compiler_fingerprint.cache_clear()
        keys.add(cache.module_key("text", "target"))
        monkeypatch.setattr(cache.llvmlite, "__version__", "0.0")
        cache._compiler_fingerprint.cache_clear()
        keys.add(cache.module_key("text", "target"))
    finally:
        cache._compiler_fingerprint.cache_clear()
    assert len(keys) == 5


def test_a_file_cannot_stand_in_for_another(directory: Path) -> None:
    cache.store("one", META, CODE)
    cache.store("other", META, CODE + b"different")
    os.replace(directory / "one.object", directory / "swapped")
    os.replace(directory / "other.object", directory / "one.object")
    os.replace(directory / "swapped", directory / "other.object")
    assert cache.load("one") is None
    assert cache.load("other") is None


@pytest.mark.parametrize("kind", ["directory", "pipe", "empty", "short", "huge", "socket", "link to a directory"])
def test_what_is_no_file_of_the_cache_is_a_miss(directory: Path, kind: str) -> None:
    cache.store("key", META, CODE)
    path = directory / "key.object"
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(directory)  # names of sockets are short
        try:
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(path.name)
        finally:
            os.chdir(here)
    elif kind == "link to a directory":
        path.symlink_to(directory)
    else:
        path.write_bytes({"empty": b"", "short": b"kinetree", "huge": b""}[kind])
        if kind == "huge":
            os.truncate(path, 30 << 30)
    open_files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert cache.load("key") is None
        cache.store("key", META, CODE)
        cache.store("other", META, CODE)
        loaded = cache.load("key")
    assert loaded in (None, (META, CODE))
    assert cache.load("other") == (META, CODE)
    assert len(caught) <= 1
    assert time.process_time() - start < 1.0  # the size of the file does not matter
    assert not open_files or len(os.listdir("/proc/self/fd")) == open_files
    if kind == "huge":
        path.unlink(missing_ok=True)


def test_a_process_searches_the_directory_once_for_many_files(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing thousands of files for each new one would take longer than compiling it."""
    searched: list[Path] = []
    monkeypatch.setattr(cache, "_prune", searched.append)
    for k in range(20):
        cache.store(f"k{k}", META, CODE)
    assert searched == [directory]
    monkeypatch.setattr(cache, "LIMIT_BYTES", 32 * 10 * len(CODE))
    for k in range(20):
        cache.store(f"k{k}", META, CODE)
    assert len(searched) > 2


def test_files_of_writers_that_died_are_removed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store("key", META, CODE)
    monkeypatch.setattr(cache, "_unchecked", {})  # another process
    old, new = directory / ".old.part", directory / ".new.part"
    for path in (old, new):
        path.write_bytes(b"half of")
    os.utime(old, (0, 0))
    cache.store("other", META, CODE)
    assert not old.exists()
    assert new.exists()


@pytest.mark.parametrize("setting", ["nul\0inside", "x" * 5000, "~nobody-of-that-name/cache"])
def test_directories_that_cannot_exist(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.os, "environ", {**os.environ, "KINETREE_CACHE_DIR": setting})
    monkeypatch.setattr(cache, "_warned", False)
    with pytest.warns(CacheWarning):
        cache.store("key", META, CODE)
    assert cache.load("key") is None


def test_keys() -> None:
    assert cache.key("driver", 1) == cache.key("driver", 1)
    assert cache.key("driver", 1) != cache.key("driver", 2)
    assert cache.key("a", "b") != cache.key("ab")
