"""The part of gates that matches arguments with parameters: see `kinetree.engines.native.gate_code`."""

from __future__ import annotations

from kinetree.engines.native.gate_layout import TYPE, CallDescriptor
from kinetree.engines.native.gate_writer import GateWriter


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
