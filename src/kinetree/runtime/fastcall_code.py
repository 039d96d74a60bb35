"""The machine code of gates: one vectorcall function that reads two kinds of descriptions.

A `CallDescriptor` belongs to a gate: the names and defaults of its parameters, and the kernel for each choice of
non-array arguments (a frame, a reference, a method). Choices are compared by identity; strings, if none is identical,
by their characters. Anything unknown goes to `general`. A `KernelDescriptor` belongs to a bound kernel: its operands,
drivers and plans, and the required layout of NumPy arrays.

One parameter may be a dictionary of arrays of one row each, such as wrenches by the names of frames. Kernels are then
chosen by its keys, and its values copied together, row by row, are the kernel's last input.
"""

from __future__ import annotations

from kinetree.runtime.fastcall_results import (
    DATA,
    DIMS,
    FLOAT_VALUE,
    FRONT,
    METHOD,
    NDIM,
    PLAIN,
    SMALLEST_BATCH,
    TYPE,
    WRITEABLE,
    CallDescriptor,
    GateWriter,
    KernelDescriptor,
    Results,
)


class Matching(GateWriter):
    """Writes how the arguments of a call are matched with parameters, and a kernel is chosen."""

    def parameters(self, front: str) -> None:
        """Find the argument for each parameter, and the kernel for these arguments."""
        f = self.f
        count = f.let(f"and i64 %nargsf, {2**63 - 1}")
        kernel = f.address(front, CallDescriptor.DEFAULT)
        self.put("null", self.out, "ptr")
        self.put(kernel, self.chosen, "ptr")
        self.put("0", self.keys)
        positional = f.let("icmp eq ptr %names, null")
        complete = f.let(f"icmp eq i64 {count}, {f.word(front, CallDescriptor.INPUTS)}")
        known = f.let(f"icmp ne ptr {kernel}, null")
        plain = f.let(f"and i1 {f.let(f'and i1 {positional}, {complete}')}, {known}")
        with f.when(f.let(f"xor i1 {plain}, true")):
            self.match(front, count)
        self.source = f.let(f"select i1 {plain}, ptr %args, ptr {self.given}")

    def match(self, front: str, count: str) -> None:
        """Find arguments by position, name or default, and the kernel by the choices among them."""
        f, put = self.f, self.put
        parameters, inputs = f.word(front, CallDescriptor.PARAMETERS), f.word(front, CallDescriptor.INPUTS)
        f.leave_when(f.let(f"icmp sgt i64 {count}, {parameters}"), "general")
        entries = f.at(front, CallDescriptor.ENTRIES, "i64")
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
                with f.when(f.let(f"icmp eq ptr {name}, {f.address(front, CallDescriptor.OUT)}")):
                    put(value, self.out, "ptr")
                    put("1", self.hit)
                with f.loop(count, parameters) as i:
                    known = f.address(f.at(entries, f.let(f"mul i64 {i}, 2"), "i64"))
                    with f.when(f.let(f"icmp eq ptr {name}, {known}")):
                        put(value, f.at(self.given, i, "ptr"), "ptr")
                        put("1", self.hit)
                f.leave_when(f.let(f"icmp eq i64 {f.word(self.hit)}, 0"), "general")
            nothing = f.let(f"icmp eq ptr {f.address(self.out)}, {f.address(front, CallDescriptor.NONE)}")
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
        table = f.at(f.at(front, CallDescriptor.ENTRIES, "i64"), f.let(f"mul i64 {parameters}, 2"), "i64")
        with f.loop(0, f.word(front, CallDescriptor.VARIANTS)) as row:
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
                text = f.address(front, CallDescriptor.STR_TYPE)
                ours, theirs = (f.let(f"icmp eq ptr {f.address(f.at(x, TYPE))}, {text}") for x in (wanted, actual))
                with f.when(f.let(f"and i1 {ours}, {theirs}")):
                    order = f.let(f"call i32 @PyUnicode_Compare(ptr {wanted}, ptr {actual})")
                    put(f.let(f"sext i32 {order} to i64"), self.differs)
            with f.when(f.let(f"icmp ne i64 {f.word(self.differs)}, 0")):
                put("0", self.hit)

    def read_dictionary(self, front: str, keys: str, identical: bool) -> None:
        """Take the values of a dictionary with certain keys in this order; reset `hit` if it is none."""
        f, put = self.f, self.put
        mapping = f.address(self.given, f.word(front, CallDescriptor.KEYED))
        kind, count = f.address(f.at(mapping, TYPE)), f.word(keys)
        with f.when(f.let(f"icmp ne ptr {kind}, {f.address(front, CallDescriptor.DICT_TYPE)}")):
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


_LONG_RUN = 1 << 14  # numbers touched by a call above which the GIL is released


def gate_text() -> str:
    """LLVM assembly of `gate`, the vectorcall function of all gates."""
    return _Gate().text()


class _Gate(Matching, Results):
    def text(self) -> str:
        f = self.f
        front = f.let(f"load ptr, ptr {f.at('%self', FRONT)}, align 8")
        f.leave_when(f.let(f"icmp eq ptr {front}, null"), "general")
        self.parameters(front)
        words = f.let(f"load ptr, ptr {self.chosen}, align 8")
        f.leave_when(f.let(f"icmp eq ptr {words}, null"), "general")
        self.words = words
        self.inputs, self.outputs = f.word(words, KernelDescriptor.INPUTS), f.word(words, KernelDescriptor.OUTPUTS)
        self.kind, self.dtype = f.address(words, KernelDescriptor.ARRAY_TYPE), f.address(words, KernelDescriptor.DTYPE)
        self.operands = f.at(words, KernelDescriptor.OPERANDS, "i64")
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

    def take_inputs(self) -> None:
        """Every input must be a plain array of one sample, or of as many as the others, or a number for a scalar."""
        f, put = self.f, self.put
        put("-1", self.samples)
        put("0", self.axes)
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
            doubles = [self.is_a(array, word) for word in (KernelDescriptor.FLOAT_TYPE, KernelDescriptor.DOUBLE_TYPE)]
            single = self.is_a(array, KernelDescriptor.SINGLE_TYPE)
            known = f.let(f"or i1 {single}, {f.let(f'or i1 {doubles[0]}, {doubles[1]}')}")
            number = f.let(f"and i1 {scalar}, {known}")
            with f.when(number):
                self.take_number(f.at(array, FLOAT_VALUE), single, f.at(self.numbers, k, "double"), place)
                put(f.word(self.words, KernelDescriptor.ITEM_BYTES), length)
                put("0", step)
            with f.when(f.let(f"xor i1 {number}, true")):
                extra, dims = self.require_array(array, operand, PLAIN)
                put(f.address(f.at(array, DATA)), place, "ptr")
                size = self.bytes_of(operand)
                put(size, length)
                put("0", step)
                with f.when(f.let(f"icmp ne i64 {extra}, 0")):
                    self.take_leading(extra, dims)
                    put(size, step)
                    put(f.let(f"mul i64 {f.word(self.samples)}, {size}"), length)

    def take_leading(self, extra: str, dims: str) -> None:
        """The leading axes of the first batch are those of the call; all others must be the same."""
        f, put = self.f, self.put
        with f.when(f.let(f"icmp eq i64 {f.word(self.samples)}, -1")):
            put(dims, self.lead, "ptr")
            put(extra, self.axes)
            put("1", self.samples)
            with f.loop(0, extra) as axis:
                put(f.let(f"mul i64 {f.word(self.samples)}, {f.word(dims, axis)}"), self.samples)
        self.require_leading(extra, dims)

    def require_leading(self, extra: str, dims: str) -> None:
        """Go to `general` unless the leading axes of an array are those of the call."""
        f = self.f
        f.leave_when(f.let(f"icmp ne i64 {extra}, {f.word(self.axes)}"), "general")
        with f.loop(0, extra) as axis:
            f.leave_when(self.leads_differ(dims, axis), "general")

    def take_number(self, value: str, single: str, converted: str, place: str) -> None:
        """Store the address of a number in the kernel's format, of a Python float or a scalar of NumPy."""
        f, put = self.f, self.put
        short = f.let(f"icmp eq i64 {f.word(self.words, KernelDescriptor.ITEM_BYTES)}, 4")
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
        drive, orders = f.address(self.words, KernelDescriptor.DRIVE), f.address(self.words, KernelDescriptor.PLAN)
        with f.when(self.batched):
            f.leave_when(f.let(f"icmp slt i64 {n}, 1"), "general")
            alone = f.let(f"icmp eq i64 {f.word(f.address(self.words, KernelDescriptor.THREADS))}, 1")
            limits = [f.word(self.words, word) for word in (KernelDescriptor.MOST_ALONE, KernelDescriptor.MOST_SAMPLES)]
            most = f.let(f"select i1 {alone}, i64 {limits[0]}, i64 {limits[1]}")
            f.leave_when(f.let(f"icmp sgt i64 {n}, {most}"), "general")
        self.count = f.let(f"select i1 {self.batched}, i64 {n}, i64 1")
        put(self.count, self.samples)
        wide = f.let(f"icmp sge i64 {self.count}, {SMALLEST_BATCH}")
        batch_drive, batch_plan = (
            f.address(self.words, KernelDescriptor.BATCH_DRIVE),
            f.address(self.words, KernelDescriptor.BATCH_PLAN),
        )
        self.drive = f.let(f"select i1 {wide}, ptr {batch_drive}, ptr {drive}")
        self.orders = f.let(f"select i1 {wide}, ptr {batch_plan}, ptr {orders}")
        f.leave_when(f.let(f"icmp eq ptr {self.drive}, null"), "general")
        self.extra = f.word(self.axes)

    def take_out(self) -> None:
        """The arrays of `out` must fit, and overlap neither each other nor, in a batch, the inputs."""
        f, put = self.f, self.put
        with f.when(self.several):
            kind = f.address(f.at(f.address(self.out), TYPE))
            others = [f.address(self.words, word) for word in (KernelDescriptor.TUPLE_TYPE, KernelDescriptor.BUNDLE)]
            unlike = [f.let(f"icmp ne ptr {kind}, {other}") for other in others]
            f.leave_when(f.let(f"and i1 {unlike[0]}, {unlike[1]}"), "general")
            size = f.let(f"call i64 @PyTuple_Size(ptr {f.address(self.out)})")
            f.leave_when(f.let(f"icmp ne i64 {size}, {self.outputs}"), "general")
        first = f.let(f"select i1 {self.batched}, i64 0, i64 {self.inputs}")
        with f.loop(0, self.outputs) as o:
            array, k = self.part(f.address(self.out), o), f.let(f"add i64 {o}, {self.inputs}")
            operand = self.operand(k)
            extra, dims = self.require_array(array, operand, PLAIN | WRITEABLE)
            self.require_leading(extra, dims)
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

    def run(self) -> None:
        """Run the kernel."""
        f, put = self.f, self.put
        with f.loop(0, self.outputs) as o:
            k = f.let(f"add i64 {o}, {self.inputs}")
            put(self.bytes_of(self.operand(k)), f.at(self.steps, k, "i64"))
        run = f"call i64 {self.drive}(ptr {self.arguments}, ptr {self.samples}, ptr {self.steps}, ptr {self.orders})"
        touched = f.let(f"mul i64 {f.word(self.words, KernelDescriptor.WORK)}, {self.count}")

        def run_alone() -> list[str]:
            state = f.let("call ptr @PyEval_SaveThread()")
            status = f.let(run)
            f.do(f"call void @PyEval_RestoreThread(ptr {state})")
            return [status]

        short = f.let(f"icmp slt i64 {touched}, {_LONG_RUN}")
        (status,) = f.either(short, "i64", lambda: [f.let(run)], run_alone)
        f.leave_when(f.let(f"icmp ne i64 {status}, 0"), "exhausted")
        f.do(f"ret ptr {f.address(self.answer)}")

    def leave(self) -> None:
        """The exits: out of memory, and through `general`."""
        f = self.f
        f.label("exhausted")
        f.let("call ptr @PyErr_NoMemory()")
        f.do("br label %failed")
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
    "declare ptr @PyErr_NoMemory()",
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
