"""Size of the processor's last-level cache, as Linux, macOS and Windows report it.

The functions for macOS and Windows are tested against simulated systems only.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from pathlib import Path

# What macOS calls the caches of its fastest cores.
_SYSCTL = (b"hw.perflevel0.l2cachesize", b"hw.l2cachesize", b"hw.l3cachesize")

# Entries of GetLogicalProcessorInformation: cores, a kind, and for caches level, associativity, line size and size.
_ENTRY = struct.Struct("<Qi4xBBHIi4x")
_CACHE = 2


def last_level_cache() -> int | None:
    """Bytes of the largest cache; None if the system does not say."""
    read = {"darwin": _macos, "win32": _windows}.get(sys.platform, _linux)
    try:
        return max(read(), default=0) or None
    except (OSError, AttributeError):  # no such file, library or function
        return None


def _linux() -> list[int]:
    texts = [file.read_text().strip() for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return [int(text[:-1]) << 10 for text in texts if text[:-1].isdigit() and text.endswith("K")]


def _macos() -> list[int]:
    read, sizes = ctypes.CDLL(None).sysctlbyname, []
    for name in _SYSCTL:
        value, length = ctypes.c_uint64(0), ctypes.c_size_t(8)
        if read(name, ctypes.byref(value), ctypes.byref(length), None, ctypes.c_size_t(0)) == 0:
            sizes.append(value.value)
    return sizes


def _windows() -> list[int]:
    read, length = ctypes.CDLL("kernel32").GetLogicalProcessorInformation, ctypes.c_uint32(0)
    read(None, ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value)
    if not read(buffer, ctypes.byref(length)):
        return []
    whole = buffer.raw[: length.value - length.value % _ENTRY.size]
    return [entry[5] for entry in _ENTRY.iter_unpack(whole) if entry[1] == _CACHE]
