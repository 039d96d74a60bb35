"""The machine code of gates: one vectorcall function that reads two kinds of descriptions.

A `Front` belongs to a gate: the names and defaults of its parameters, and the kernel for each choice of non-array
arguments (a frame, a reference, a method). Choices are compared by identity; strings, if none is identical, by their
characters. Anything unknown goes to `general`. A list of `Word`s belongs to a bound kernel: its operands, drivers and
plans, and the required layout of NumPy arrays.

One parameter may be a dictionary of arrays of one row each, such as wrenches by the names of frames. Kernels are then
chosen by its keys, and its values copied together, row by row, are the kernel's last input.

Making arrays and tuples of them and destroying them takes longer than some kernels do. So a bound kernel keeps the last
few small results that it returned, and returns one of them again once nobody else refers to it or its parts, provided
that they still are what they were: not reshaped, not made read-only, and without weak references. Larger arrays are
views of the pool's buffers.
"""

from __future__ import annotations

from kinetree.engines.llvm.writer import FunctionWriter
from kinetree.engines.native.gate_layout import (
    COUNT,
    DATA,
    DESCR,
    DIMS,
    FLAGS,
    FLOAT_VALUE,
    FRONT,
    KEPT,
    MAX_KEYS,
    MAX_OPERANDS,
    MAX_PARAMETERS,
    MAX_ROWS_SIZE,
    METHOD,
    NDIM,
    OPERAND_WORDS,
    OWNS_DATA,
    PLAIN,
    SMALLEST_BATCH,
    TYPE,
    WEAK,
    WRITEABLE,
    Front,
    Word,
)
from kinetree.engines.native.pool import BUFFERS, SMALLEST_RESULT

_LONG_RUN = 1 << 14  # numbers touched by a call above which the GIL is released


def gate_text() -> str:
    """LLVM assembly of `gate`, the vectorcall function of all gates."""
    return _Gate().text()


class _Gate:
    def __init__(self) -> None:
        f = self.f = FunctionWriter("define ptr @gate(ptr %self, ptr %args, i64 %nargsf, ptr %names)")
        self.given = f.let(f"alloca [{MAX_PARAMETERS} x ptr], align 8")
        self.arguments = f.let(f"alloca [{MAX_OPERANDS} x ptr], align 8")
        self.lengths = f.let(f"alloca [{MAX_OPERANDS} x i64], align 8")
        self.steps = f.let(f"alloca [{4 * MAX_OPERANDS} x i64], align 8")
        self.shape = f.let("alloca [4 x i64], align 8")
        self.numbers = f.let(f"alloca [{MAX_OPERANDS} x double], align 8")
        self.samples, self.hit = f.let("alloca i64, align 8"), f.let("alloca i64, align 8")
        self.out, self.item, self.chosen, self.answer = (f.let("alloca ptr, align 8") for _ in range(4))
        self.values = f.let(f"alloca [{MAX_KEYS} x ptr], align 8")
        self.rows = f.let(f"alloca [{MAX_ROWS_SIZE} x i64], align 8")
        self.keys, self.place, self.differs, self.fits = (f.let("alloca i64, align 8") for _ in range(4))
        self.key, self.buffer = (f.let("alloca ptr, align 8") for _ in range(2))

    def text(self) -> str:
        f = self.f
        front = f.let(f"load ptr, ptr {f.at('%self', FRONT)}, align 8")
        f.leave_when(f.let(f"icmp eq ptr {front}, null"), "general")
        self.parameters(front)
        words = f.let(f"load ptr, ptr {self.chosen}, align 8")
        f.leave_when(f.let(f"icmp eq ptr {words}, null"), "general")
        self.words = words
        self.inputs, self.outputs = f.word(words, Word.INPUTS), f.word(words, Word.OUTPUTS)
        self.kind, self.dtype = f.address(words, Word.ARRAY_TYPE), f.address(words, Word.DTYPE)
        self.operands = f.at(words, Word.OPERANDS, "i64")
        self.several = f.let(f"icmp ne i64 {self.outputs}, 1")
        self.take_inputs()
        self.count_samples()
        has_out = f.let(f"icmp ne ptr {f.address(self.out)}, null")
        with f.when(has_out):
            self.take_out()
        self.give(has_out)
        self.run()
        self.leave()
        return f.text("ptr %delegated") + "\n".join(_DECLARATIONS)

    def put(self, value: str, place: str, kind: str = "i64") -> None:
        """Store a word or a pointer."""
        self.f.do(f"store {kind} {value}, ptr {place}, align 8")

    def parameters(self, front: str) -> None:
        """Find the argument for each parameter, and the kernel for these arguments."""
        f = self.f
        count = f.let(f"and i64 %nargsf, {2**63 - 1}")
        kernel = f.address(front, Front.DEFAULT)
        self.put("null", self.out, "ptr")
        self.put(kernel, self.chosen, "ptr")
        self.put("0", self.keys)
        positional = f.let("icmp eq ptr %names, null")
        complete = f.let(f"icmp eq i64 {count}, {f.word(front, Front.INPUTS)}")
        known = f.let(f"icmp ne ptr {kernel}, null")
        plain = f.let(f"and i1 {f.let(f'and i1 {positional}, {complete}')}, {known}")
        with f.when(f.let(f"xor i1 {plain}, true")):
            self.match(front, count)
        self.source = f.let(f"select i1 {plain}, ptr %args, ptr {self.given}")

    def match(self, front: str, count: str) -> None:
        """Find arguments by position, name or default, and the kernel by the choices among them."""
        f, put = self.f, self.put
        parameters, inputs = f.word(front, Front.PARAMETERS), f.word(front, Front.INPUTS)
        f.leave_when(f.let(f"icmp sgt i64 {count}, {parameters}"), "general")
        entries = f.at(front, Front.ENTRIES, "i64")
        with f.loop(0, parameters) as i:
            default = f.at(entries, f.let(f"add i64 {f.let(f'mul i64 {i}, 2')}, 1"), "i64")
            early = f.let(f"icmp slt i64 {i}, {count}")
            source = f.let(f"select i1 {early}, ptr {f.at('%args', i, 'ptr')}, ptr {default}")
            put(f.address(source), f.at(self.given, i, "ptr"), "ptr")
        with f.when(f.let("icmp ne ptr %names, null")):
            named = f.let("call i64 @PyTuple_Size(ptr %names)")
            with f.loop(0, named) as j:
                name = f.let(f"call ptr @PyTuple_GetItem(ptr %names, i64 {j})")
                value = f.address("%args", f.let(f"add i64 {count}, {j}"))
                put("0", self.hit)
                with f.when(f.let(f"icmp eq ptr {name}, {f.address(front, Front.OUT)}")):
                    put(value, self.out, "ptr")
                    put("1", self.hit)
                with f.loop(count, parameters) as i:
                    known = f.address(f.at(entries, f.let(f"mul i64 {i}, 2"), "i64"))
                    with f.when(f.let(f"icmp eq ptr {name}, {known}")):
                        put(value, f.at(self.given, i, "ptr"), "ptr")
                        put("1", self.hit)
                f.leave_when(f.let(f"icmp eq i64 {f.word(self.hit)}, 0"), "general")
            nothing = f.let(f"icmp eq ptr {f.address(self.out)}, {f.address(front, Front.NONE)}")
            with f.when(nothing):
                put("null", self.out, "ptr")
        put("null", self.chosen, "ptr")
        self.choose(front, parameters, inputs, identical=True)
        with f.when(f.let(f"icmp eq ptr {f.address(self.chosen)}, null")):
            self.choose(front, parameters, inputs, identical=False)

    def choose(self, front: str, parameters: str, inputs: str, identical: bool) -> None:
        """Find the variant whose choices were given."""
        f, put = self.f, self.put
        choices = f.let(f"sub i64 {parameters}, {inputs}")
        table = f.at(f.at(front, Front.ENTRIES, "i64"), f.let(f"mul i64 {parameters}, 2"), "i64")
        with f.loop(0, f.word(front, Front.VARIANTS)) as row:
            start = f.let(f"mul i64 {row}, {f.let(f'add i64 {choices}, 2')}")
            variant = f.at(table, start, "i64")
            keys = f.address(variant, 1)
            put("1", self.hit)
            with f.loop(0, choices) as c:
                wanted = f.address(variant, f.let(f"add i64 {c}, 2"))
                actual = f.address(self.given, f.let(f"add i64 {inputs}, {c}"))
                with f.when(f.let(f"icmp ne ptr {wanted}, null")):
                    self.require_same(front, wanted, actual, identical)
            keyed = f.let(f"icmp ne ptr {keys}, null")
            with f.when(keyed):
                self.read_dictionary(front, keys, identical)
            with f.when(f.let(f"icmp ne i64 {f.word(self.hit)}, 0")):
                put(f.address(variant), self.chosen, "ptr")
                put("0", self.keys)
                with f.when(keyed):
                    put(f.word(keys), self.keys)

    def require_same(self, front: str, wanted: str, actual: str, identical: bool) -> None:
        """Reset `hit` unless two objects are the same, or strings of the same characters."""
        f, put = self.f, self.put
        differ = f.let(f"icmp ne ptr {wanted}, {actual}")
        if identical:
            with f.when(differ):
                put("0", self.hit)
            return
        with f.when(differ):
            put("1", self.differs)
            with f.when(f.let(f"icmp ne ptr {actual}, null")):
                text = f.address(front, Front.STR_TYPE)
                ours, theirs = (f.let(f"icmp eq ptr {f.address(f.at(x, TYPE))}, {text}") for x in (wanted, actual))
                with f.when(f.let(f"and i1 {ours}, {theirs}")):
                    order = f.let(f"call i32 @PyUnicode_Compare(ptr {wanted}, ptr {actual})")
                    put(f.let(f"sext i32 {order} to i64"), self.differs)
            with f.when(f.let(f"icmp ne i64 {f.word(self.differs)}, 0")):
                put("0", self.hit)

    def read_dictionary(self, front: str, keys: str, identical: bool) -> None:
        """Take the values of a dictionary with certain keys in this order; reset `hit` if it is none."""
        f, put = self.f, self.put
        mapping = f.address(self.given, f.word(front, Front.KEYED))
        kind, count = f.address(f.at(mapping, TYPE)), f.word(keys)
        with f.when(f.let(f"icmp ne ptr {kind}, {f.address(front, Front.DICT_TYPE)}")):
            put("0", self.hit)
        with f.when(f.let(f"icmp ne i64 {f.word(self.hit)}, 0")):
            size = f.let(f"call i64 @PyDict_Size(ptr {mapping})")
            with f.when(f.let(f"icmp ne i64 {size}, {count}")):
                put("0", self.hit)
        with f.when(f.let(f"icmp ne i64 {f.word(self.hit)}, 0")):
            put("0", self.place)
            with f.loop(0, count) as i:
                value = f.at(self.values, i, "ptr")
                f.let(f"call i32 @PyDict_Next(ptr {mapping}, ptr {self.place}, ptr {self.key}, ptr {value})")
                wanted = f.address(keys, f.let(f"add i64 {i}, 1"))
                self.require_same(front, wanted, f.address(self.key), identical)

    def operand(self, k: str) -> str:
        """The words of an operand."""
        return self.f.at(self.operands, self.f.let(f"mul i64 {k}, {OPERAND_WORDS}"), "i64")

    def require_plain(self, array: str, flags: int) -> None:
        """Go to `general` unless this is an array of the kernel's type with these flags."""
        f = self.f
        f.leave_when(f.let(f"icmp ne ptr {f.address(f.at(array, TYPE))}, {self.kind}"), "general")
        f.leave_when(f.let(f"icmp ne ptr {f.address(f.at(array, DESCR))}, {self.dtype}"), "general")
        found = f.let(f"load i32, ptr {f.at(array, FLAGS)}, align 4")
        f.leave_when(f.let(f"icmp ne i32 {f.let(f'and i32 {found}, {flags}')}, {flags}"), "general")

    def require_array(self, array: str, operand: str, flags: int) -> tuple[str, str]:
        """Go to `general` unless this is a plain array of the operand's shape, with at most one leading axis.

        Returns:
            The number of leading axes, and the address of its dimensions.
        """
        f = self.f
        self.require_plain(array, flags)
        ndim = f.let(f"sext i32 {f.let(f'load i32, ptr {f.at(array, NDIM)}, align 4')} to i64")
        rank = f.word(operand)
        extra = f.let(f"sub i64 {ndim}, {rank}")
        f.leave_when(f.let(f"icmp ugt i64 {extra}, 1"), "general")
        dims = f.address(f.at(array, DIMS))
        with f.loop(0, rank) as axis:
            wanted = f.word(operand, f.let(f"add i64 {axis}, 1"))
            actual = f.word(dims, f.let(f"add i64 {axis}, {extra}"))
            f.leave_when(f.let(f"icmp ne i64 {actual}, {wanted}"), "general")
        return extra, dims

    def bytes_of(self, operand: str) -> str:
        """Size of one sample of an operand in bytes."""
        return self.f.word(operand, OPERAND_WORDS - 1)

    def take_inputs(self) -> None:
        """Every input must be a plain array of one sample, or of as many as the others, or a number for a scalar."""
        f, put = self.f, self.put
        put("-1", self.samples)
        keyed = f.let(f"icmp ne i64 {f.word(self.keys)}, 0")
        arrays = f.let(f"sub i64 {self.inputs}, {f.let(f'zext i1 {keyed} to i64')}")
        with f.when(keyed):
            self.take_rows(arrays)
        with f.loop(0, arrays) as k:
            array, operand = f.address(self.source, k), self.operand(k)
            f.leave_when(f.let(f"icmp eq ptr {array}, null"), "general")
            place, length, step = (
                f.at(self.arguments, k, "ptr"),
                f.at(self.lengths, k, "i64"),
                f.at(self.steps, k, "i64"),
            )
            scalar = f.let(f"icmp eq i64 {f.word(operand)}, 0")
            doubles = [self.is_a(array, word) for word in (Word.FLOAT_TYPE, Word.DOUBLE_TYPE)]
            single = self.is_a(array, Word.SINGLE_TYPE)
            known = f.let(f"or i1 {single}, {f.let(f'or i1 {doubles[0]}, {doubles[1]}')}")
            number = f.let(f"and i1 {scalar}, {known}")
            with f.when(number):
                self.take_number(f.at(array, FLOAT_VALUE), single, f.at(self.numbers, k, "double"), place)
                put(f.word(self.words, Word.ITEM_BYTES), length)
                put("0", step)
            with f.when(f.let(f"xor i1 {number}, true")):
                extra, dims = self.require_array(array, operand, PLAIN)
                put(f.address(f.at(array, DATA)), place, "ptr")
                size = self.bytes_of(operand)
                put(size, length)
                put(f.let(f"mul i64 {extra}, {size}"), step)
                with f.when(f.let(f"icmp eq i64 {extra}, 1")):
                    n, before = f.word(dims), f.word(self.samples)
                    other = f.let(f"and i1 {f.let(f'icmp ne i64 {before}, -1')}, {f.let(f'icmp ne i64 {before}, {n}')}")
                    f.leave_when(other, "general")
                    put(n, self.samples)
                    put(f.let(f"mul i64 {n}, {size}"), length)

    def is_a(self, value: str, kind: Word) -> str:
        """Whether an object has a type, of which it is no subclass."""
        f = self.f
        return f.let(f"icmp eq ptr {f.address(f.at(value, TYPE))}, {f.address(self.words, kind)}")

    def take_number(self, value: str, single: str, converted: str, place: str) -> None:
        """Store the address of a number in the kernel's format, of a Python float or a scalar of NumPy."""
        f, put = self.f, self.put
        short = f.let(f"icmp eq i64 {f.word(self.words, Word.ITEM_BYTES)}, 4")
        put(value, place, "ptr")
        differs = f.let(f"xor i1 {single}, {short}")
        with f.when(differs):
            put(converted, place, "ptr")
        with f.when(f.let(f"and i1 {differs}, {single}")):
            number = f.let(f"load float, ptr {value}, align 4")
            f.do(f"store double {f.let(f'fpext float {number} to double')}, ptr {converted}, align 8")
        with f.when(f.let(f"and i1 {differs}, {short}")):
            number = f.let(f"load double, ptr {value}, align 8")
            f.do(f"store float {f.let(f'fptrunc double {number} to float')}, ptr {converted}, align 4")

    def take_rows(self, k: str) -> None:
        """Copy the arrays of a dictionary into one input. Each must be a plain array of one row."""
        f, put = self.f, self.put
        operand, count = self.operand(k), f.word(self.keys)
        size = self.bytes_of(operand)
        row = f.let(f"udiv i64 {size}, {count}")
        length = f.word(operand, 2)
        with f.loop(0, count) as i:
            array = f.address(self.values, i)
            self.require_plain(array, PLAIN)
            f.leave_when(f.let(f"icmp ne i32 {f.let(f'load i32, ptr {f.at(array, NDIM)}, align 4')}, 1"), "general")
            f.leave_when(f.let(f"icmp ne i64 {f.word(f.address(f.at(array, DIMS)))}, {length}"), "general")
            place = f.at(self.rows, f.let(f"mul i64 {i}, {row}"))
            f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {place}, ptr {f.address(f.at(array, DATA))}, i64 {row}, i1 0)")
        put(self.rows, f.at(self.arguments, k, "ptr"), "ptr")
        put(size, f.at(self.lengths, k, "i64"))
        put("0", f.at(self.steps, k, "i64"))

    def count_samples(self) -> None:
        """Set the number of samples, and the driver and plan for that number."""
        f, put = self.f, self.put
        n = f.word(self.samples)
        self.batched = f.let(f"icmp ne i64 {n}, -1")
        drive, orders = f.address(self.words, Word.DRIVE), f.address(self.words, Word.PLAN)
        with f.when(self.batched):
            f.leave_when(f.let(f"icmp slt i64 {n}, 1"), "general")
            alone = f.let(f"icmp eq i64 {f.word(f.address(self.words, Word.THREADS))}, 1")
            limits = [f.word(self.words, word) for word in (Word.MOST_ALONE, Word.MOST_SAMPLES)]
            most = f.let(f"select i1 {alone}, i64 {limits[0]}, i64 {limits[1]}")
            f.leave_when(f.let(f"icmp sgt i64 {n}, {most}"), "general")
        self.count = f.let(f"select i1 {self.batched}, i64 {n}, i64 1")
        put(self.count, self.samples)
        wide = f.let(f"icmp sge i64 {self.count}, {SMALLEST_BATCH}")
        batch_drive, batch_plan = f.address(self.words, Word.BATCH_DRIVE), f.address(self.words, Word.BATCH_PLAN)
        self.drive = f.let(f"select i1 {wide}, ptr {batch_drive}, ptr {drive}")
        self.orders = f.let(f"select i1 {wide}, ptr {batch_plan}, ptr {orders}")
        f.leave_when(f.let(f"icmp eq ptr {self.drive}, null"), "general")
        self.extra = f.let(f"zext i1 {self.batched} to i64")

    def part(self, results: str, o: str) -> str:
        """The array for an output among results: one of a tuple, or the only one."""
        f = self.f
        self.put(results, self.item, "ptr")
        with f.when(self.several):
            self.put(f.let(f"call ptr @PyTuple_GetItem(ptr {results}, i64 {o})"), self.item, "ptr")
        return f.address(self.item)

    def take_out(self) -> None:
        """The arrays of `out` must fit, and overlap neither each other nor, in a batch, the inputs."""
        f, put = self.f, self.put
        with f.when(self.several):
            kind = f.address(f.at(f.address(self.out), TYPE))
            others = [f.address(self.words, word) for word in (Word.TUPLE_TYPE, Word.BUNDLE)]
            unlike = [f.let(f"icmp ne ptr {kind}, {other}") for other in others]
            f.leave_when(f.let(f"and i1 {unlike[0]}, {unlike[1]}"), "general")
            size = f.let(f"call i64 @PyTuple_Size(ptr {f.address(self.out)})")
            f.leave_when(f.let(f"icmp ne i64 {size}, {self.outputs}"), "general")
        first = f.let(f"select i1 {self.batched}, i64 0, i64 {self.inputs}")
        with f.loop(0, self.outputs) as o:
            array, k = self.part(f.address(self.out), o), f.let(f"add i64 {o}, {self.inputs}")
            operand = self.operand(k)
            extra, dims = self.require_array(array, operand, PLAIN | WRITEABLE)
            f.leave_when(f.let(f"icmp ne i64 {extra}, {self.extra}"), "general")
            with f.when(self.batched):
                f.leave_when(f.let(f"icmp ne i64 {f.word(dims)}, {self.count}"), "general")
            data = f.address(f.at(array, DATA))
            length = f.let(f"mul i64 {self.bytes_of(operand)}, {self.count}")
            start = f.let(f"ptrtoint ptr {data} to i64")
            stop = f.let(f"add i64 {start}, {length}")
            with f.loop(first, k) as j:
                other = f.let(f"ptrtoint ptr {f.address(self.arguments, j)} to i64")
                end = f.let(f"add i64 {other}, {f.word(self.lengths, j)}")
                meets = f.let(
                    f"and i1 {f.let(f'icmp ult i64 {start}, {end}')}, {f.let(f'icmp ult i64 {other}, {stop}')}"
                )
                f.leave_when(meets, "general")
            put(data, f.at(self.arguments, k, "ptr"), "ptr")
            put(length, f.at(self.lengths, k, "i64"))

    def give(self, has_out: str) -> None:
        """Find or create the results. The returned array or tuple of arrays owns everything allocated here."""
        f, put = self.f, self.put
        put("null", self.answer, "ptr")
        small = self.keeps_results(has_out)
        with f.when(small):
            self.find_kept()
        missing = f.let(f"icmp eq ptr {f.address(self.answer)}, null")
        with f.when(f.let(f"and i1 {missing}, {self.several}")):
            bundle = f.let(
                f"call ptr @PyType_GenericAlloc(ptr {f.address(self.words, Word.BUNDLE)}, i64 {self.outputs})"
            )
            f.leave_when(f.let(f"icmp eq ptr {bundle}, null"), "failed")
            put(bundle, self.answer, "ptr")
        with f.loop(0, f.let(f"select i1 {missing}, i64 {self.outputs}, i64 0")) as o:
            k = f.let(f"add i64 {o}, {self.inputs}")
            operand = self.operand(k)
            with f.when(has_out):
                f.do(f"call void @Py_IncRef(ptr {self.part(f.address(self.out), o)})")
            with f.when(f.let(f"xor i1 {has_out}, true")):
                put("null", self.buffer, "ptr")
                size = self.size_of(operand)
                with f.when(f.let(f"icmp uge i64 {size}, {SMALLEST_RESULT}")):
                    self.find_buffer(size)
                self.make(operand)
                put(f.address(f.at(f.address(self.item), DATA)), f.at(self.arguments, k, "ptr"), "ptr")
            result = f.address(self.item)
            with f.when(self.several):
                f.let(f"call i32 @PyTuple_SetItem(ptr {f.address(self.answer)}, i64 {o}, ptr {result})")
            with f.when(f.let(f"xor i1 {self.several}, true")):
                put(result, self.answer, "ptr")
        with f.when(f.let(f"and i1 {missing}, {small}")):
            self.keep()

    def size_of(self, operand: str) -> str:
        """Size of all samples of an operand in bytes."""
        return self.f.let(f"mul i64 {self.bytes_of(operand)}, {self.count}")

    def keeps_results(self, has_out: str) -> str:
        """Whether the results of this call are kept for later calls: all are small, and none is the caller's."""
        f, put = self.f, self.put
        kept = f.let(f"icmp ne ptr {f.address(self.words, Word.RESULTS)}, null")
        keeps = f.let(f"and i1 {kept}, {f.let(f'xor i1 {has_out}, true')}")
        put(f.let(f"zext i1 {keeps} to i64"), self.fits)
        with f.loop(self.inputs, f.let(f"add i64 {self.inputs}, {self.outputs}")) as k:
            large = f.let(f"icmp uge i64 {self.size_of(self.operand(k))}, {SMALLEST_RESULT}")
            with f.when(large):
                put("0", self.fits)
        return f.let(f"icmp ne i64 {f.word(self.fits)}, 0")

    def make(self, operand: str) -> None:
        """Set `item` to a new array for a result, a view of `buffer` if there is one."""
        f, put = self.f, self.put
        put(self.count, self.shape)
        for axis in range(3):
            put(f.word(operand, 1 + axis), f.at(self.shape, 1 + axis, "i64"))
        rank = f.let(f"trunc i64 {f.let(f'add i64 {f.word(operand)}, {self.extra}')} to i32")
        dims = f.at(self.shape, f.let(f"sub i64 1, {self.extra}"), "i64")
        number = f.let(f"trunc i64 {f.word(self.words, Word.TYPE_NUMBER)} to i32")
        buffer = f.address(self.buffer)
        view = f.let(f"icmp ne ptr {buffer}, null")
        put("null", self.item, "ptr")
        with f.when(view):
            put(f.address(f.at(buffer, DATA)), self.item, "ptr")
        flags = f.let(f"select i1 {view}, i32 {PLAIN | WRITEABLE}, i32 0")
        rest = f"i32 {number}, ptr null, ptr {f.address(self.item)}, i32 0, i32 {flags}, ptr null"
        new = f.address(self.words, Word.NEW_ARRAY)
        made = f.let(f"call ptr {new}(ptr {self.kind}, i32 {rank}, ptr {dims}, {rest})")
        put(made, self.item, "ptr")
        failed = f.let(f"icmp eq ptr {made}, null")
        with f.when(f.let(f"and i1 {failed}, {view}")):
            f.do(f"call void @Py_DecRef(ptr {buffer})")
        f.leave_when(failed, "failed")
        with f.when(view):
            f.let(f"call i32 {f.address(self.words, Word.SET_BASE)}(ptr {made}, ptr {buffer})")

    def find_buffer(self, size: str) -> None:
        """Set `buffer` to a new reference to one of the pool's that is not in use, or to a fresh one."""
        f, put = self.f, self.put
        buffers, sizes = f.address(self.words, Word.BUFFERS), f.address(self.words, Word.BUFFER_SIZES)
        most = f.let(f"mul i64 {size}, 2")
        with f.loop(0, BUFFERS) as place:
            found = f.word(sizes, place)
            large, small = f.let(f"icmp sge i64 {found}, {size}"), f.let(f"icmp sle i64 {found}, {most}")
            missing = f.let(f"icmp eq ptr {f.address(self.buffer)}, null")
            with f.when(f.let(f"and i1 {f.let(f'and i1 {large}, {small}')}, {missing}")):
                buffer = f.address(buffers, place)
                intact = self.has_flags(buffer, PLAIN | WRITEABLE | OWNS_DATA)
                with f.when(f.let(f"and i1 {self.is_unused(buffer)}, {intact}")):
                    put(buffer, self.buffer, "ptr")
                    f.do(f"call void @Py_IncRef(ptr {buffer})")
        with f.when(f.let(f"icmp eq ptr {f.address(self.buffer)}, null")):
            number = f.let(f"call ptr @PyLong_FromSsize_t(i64 {size})")
            f.leave_when(f.let(f"icmp eq ptr {number}, null"), "failed")
            put(number, self.item, "ptr")
            fresh = f.address(self.words, Word.FRESH_BUFFER)
            made = f.let(f"call ptr @PyObject_Vectorcall(ptr {fresh}, ptr {self.item}, i64 1, ptr null)")
            f.do(f"call void @Py_DecRef(ptr {number})")
            f.leave_when(f.let(f"icmp eq ptr {made}, null"), "failed")
            put(made, self.buffer, "ptr")
            put("null", self.item, "ptr")

    def find_kept(self) -> None:
        """Set `answer` to a new reference to kept results that are not in use, if there are any."""
        f, put = self.f, self.put
        kept = f.address(self.words, Word.RESULTS)
        with f.loop(0, KEPT) as slot, f.when(f.let(f"icmp eq ptr {f.address(self.answer)}, null")):
            whole = f.address(kept, slot)
            with f.when(self.is_unused(whole)):
                put("1", self.fits)
                with f.loop(0, self.outputs) as o, f.when(f.let(f"icmp ne i64 {f.word(self.fits)}, 0")):
                    self.take_intact(self.part(whole, o), f.let(f"add i64 {o}, {self.inputs}"))
                with f.when(f.let(f"icmp ne i64 {f.word(self.fits)}, 0")):
                    put(whole, self.answer, "ptr")
                    f.do(f"call void @Py_IncRef(ptr {whole})")

    def is_unused(self, value: str) -> str:
        """Whether there is one reference to an object: the one through which it was found."""
        f = self.f
        return f.let(f"icmp eq i32 {f.let(f'load i32, ptr {f.at(value, COUNT)}, align 4')}, 1")

    def has_flags(self, array: str, flags: int) -> str:
        """Whether an array has all of some flags, an i1."""
        f = self.f
        found = f.let(f"and i32 {f.let(f'load i32, ptr {f.at(array, FLAGS)}, align 4')}, {flags}")
        return f.let(f"icmp eq i32 {found}, {flags}")

    def take_intact(self, array: str, k: str) -> None:
        """Use a kept array for an operand; reset `fits` if it is in use or somebody changed more than its numbers."""
        f, put = self.f, self.put
        operand = self.operand(k)
        axes = f.let(f"add i64 {f.word(operand)}, {self.extra}")
        rank = f.let(f"trunc i64 {axes} to i32")
        for changed in (
            f.let(f"xor i1 {self.is_unused(array)}, true"),
            f.let(f"icmp ne ptr {f.address(f.at(array, DESCR))}, {self.dtype}"),
            f.let(f"xor i1 {self.has_flags(array, PLAIN | WRITEABLE | OWNS_DATA)}, true"),
            f.let(f"icmp ne i32 {f.let(f'load i32, ptr {f.at(array, NDIM)}, align 4')}, {rank}"),
            f.let(f"icmp ne ptr {f.address(f.at(array, WEAK))}, null"),
        ):
            with f.when(changed):
                put("0", self.fits)
        with f.when(f.let(f"icmp ne i64 {f.word(self.fits)}, 0")):
            dims = f.address(f.at(array, DIMS))
            with f.when(self.batched), f.when(f.let(f"icmp ne i64 {f.word(dims)}, {self.count}")):
                put("0", self.fits)
            with f.loop(self.extra, axes) as axis:
                wanted = f.word(operand, f.let(f"add i64 {f.let(f'sub i64 {axis}, {self.extra}')}, 1"))
                with f.when(f.let(f"icmp ne i64 {f.word(dims, axis)}, {wanted}")):
                    put("0", self.fits)
        put(f.address(f.at(array, DATA)), f.at(self.arguments, k, "ptr"), "ptr")

    def keep(self) -> None:
        """Keep the results in place of older ones."""
        f, put = self.f, self.put
        turn = f.word(self.words, Word.NEXT_RESULT)
        put(f.let(f"add i64 {turn}, 1"), f.at(self.words, Word.NEXT_RESULT, "i64"))
        slot = f.at(f.address(self.words, Word.RESULTS), f.let(f"and i64 {turn}, {KEPT - 1}"), "ptr")
        old = f.address(slot)
        f.do(f"call void @Py_IncRef(ptr {f.address(self.answer)})")
        put(f.address(self.answer), slot, "ptr")
        f.do(f"call void @Py_DecRef(ptr {old})")

    def run(self) -> None:
        """Run the kernel."""
        f, put = self.f, self.put
        constant = f.address(self.words, Word.STEPS)
        with f.when(self.batched):
            total = f.let(f"add i64 {self.inputs}, {self.outputs}")
            with f.loop(0, self.outputs) as o:
                k = f.let(f"add i64 {o}, {self.inputs}")
                put(self.bytes_of(self.operand(k)), f.at(self.steps, k, "i64"))
            with f.loop(total, f.word(self.words, Word.STEP_COUNT)) as i:
                put(f.word(constant, i), f.at(self.steps, i, "i64"))
        steps = f.let(f"select i1 {self.batched}, ptr {self.steps}, ptr {constant}")
        run = f"call void {self.drive}(ptr {self.arguments}, ptr {self.samples}, ptr {steps}, ptr {self.orders})"
        touched = f.let(f"mul i64 {f.word(self.words, Word.FOOTPRINT)}, {self.count}")
        short = f.let(f"icmp slt i64 {touched}, {_LONG_RUN}")
        with f.when(short):
            f.do(run)
        with f.when(f.let(f"xor i1 {short}, true")):
            state = f.let("call ptr @PyEval_SaveThread()")
            f.do(run)
            f.do(f"call void @PyEval_RestoreThread(ptr {state})")
        f.leave_when(f.let(f"icmp ne ptr {f.let('call ptr @PyErr_Occurred()')}, null"), "failed")
        f.do(f"ret ptr {f.address(self.answer)}")

    def leave(self) -> None:
        """The exits: out of memory, and through `general`."""
        f = self.f
        f.label("failed")
        owned = f.address(self.answer)
        with f.when(f.let(f"icmp ne ptr {owned}, null")):
            f.do(f"call void @Py_DecRef(ptr {owned})")
        f.do("ret ptr null")

        # self.general(*args, **options): the same arguments after self
        f.label("general")
        given = f.let(f"and i64 %nargsf, {2**63 - 1}")
        named = f.let("icmp eq ptr %names, null")
        f.do(f"br i1 {named}, label %call, label %keywords")
        f.label("keywords")
        options = f.let("call i64 @PyTuple_Size(ptr %names)")
        f.do("br label %call")
        f.label("call")
        extra = f.let(f"phi i64 [0, %general], [{options}, %keywords]")
        total = f.let(f"add i64 {given}, {extra}")
        stack = f.let(f"alloca ptr, i64 {f.let(f'add i64 {total}, 1')}, align 8")
        f.do(f"store ptr %self, ptr {stack}, align 8")
        size = f.let(f"mul i64 {total}, 8")
        f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {f.at(stack, 1, 'ptr')}, ptr %args, i64 {size}, i1 0)")
        method = f.let(f"load ptr, ptr {f.at('%self', METHOD)}, align 8")
        behind = f.let(f"add i64 {given}, 1")
        f.do(f"%delegated = call ptr @PyObject_VectorcallMethod(ptr {method}, ptr {stack}, i64 {behind}, ptr %names)")


_DECLARATIONS = (
    "declare ptr @PyEval_SaveThread()",
    "declare void @PyEval_RestoreThread(ptr)",
    "declare ptr @PyErr_Occurred()",
    "declare void @Py_IncRef(ptr)",
    "declare void @Py_DecRef(ptr)",
    "declare ptr @PyType_GenericAlloc(ptr, i64)",
    "declare i64 @PyTuple_Size(ptr)",
    "declare ptr @PyTuple_GetItem(ptr, i64)",
    "declare i32 @PyTuple_SetItem(ptr, i64, ptr)",
    "declare i64 @PyDict_Size(ptr)",
    "declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)",
    "declare i32 @PyUnicode_Compare(ptr, ptr)",
    "declare ptr @PyLong_FromSsize_t(i64)",
    "declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)",
    "declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)",
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    "",
)
