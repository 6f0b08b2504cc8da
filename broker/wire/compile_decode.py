"""Compile a message class and one of its versions into a function that decodes it.

The function reads `b` from position `p` up to `end`. The bytes are not trusted. Two bounds protect the process:

- The function checks once, after decoding, that it did not read past `end`. One check suffices: a read past the buffer
  raises, a slice is never longer than the buffer, and every element of an array takes at least one byte.
- An empty struct of few bytes becomes an object of a hundred bytes. So `left` bounds the elements of all arrays of a
  message together, and with them the time and the memory.
"""

from struct import calcsize, unpack_from
from struct import error as struct_error
from typing import Any, Final, NoReturn

from broker.wire.errors import WireError
from broker.wire.schema import FIXED_CODES, STRING_BYTES_MAX, FieldSpec, FieldType, Struct
from broker.wire.source import STEP_ELEMENTS, Source
from broker.wire.varint import read_varint

# The bound of elements in all arrays of a request, which take up to some 100 MB and a second. The largest requests that
# clients have a reason for ask for the metadata of 100,000 topics, or create thousands with assignments.
REQUEST_ELEMENTS_MAX: Final = 500_000
# Metadata of a cluster with 200,000 partitions: each brings its replicas and its in-sync replicas.
RESPONSE_ELEMENTS_MAX: Final = 4_000_000

# Arrays of these are decoded by one call.
_NUMBERS: Final = ("int8", "int16", "uint16", "int32", "uint32", "int64", "float64")


def compile_decoder(
    cls: type[Struct], version: int, *, flexible: bool, elements_max: int, file: str, sliced: bool = False
) -> Any:
    """The function `decode(b, p=0, end=None) -> (message, end position)`; it raises WireError and nothing else.

    A `sliced` one is a generator that yields between steps of some elements, and returns the same.
    """
    source = _Decoder(version, flexible=flexible, sliced=sliced)
    with source.block("def decode(b, p=0, end=None):"):
        source.line("if end is None: end = len(b)")
        source.line(f"left = {elements_max}")
        if sliced:
            source.line("step = 0")
            source.line("if False: yield")  # a generator also where there is no array
        with source.block("try:"):
            if _has_records(cls):
                source.line("view = memoryview(b)")
            message = source.struct(cls)
        with source.block("except (IndexError, struct_error, UnicodeDecodeError) as error:"):
            source.line("raise WireError(str(error)) from None")
        source.line("if p > end: runs_past_end()")
        source.line(f"return {message}, p")
    return source.function("decode", f"{file} decode")


class _Decoder(Source):
    def __init__(self, version: int, *, flexible: bool, sliced: bool) -> None:
        super().__init__(
            WireError=WireError,
            struct_error=struct_error,
            varint=read_varint,
            unpack_many=_unpack_many,
            invalid=_invalid,
            too_many=_too_many,
            skip_tagged_fields=_skip_tagged_fields,
            runs_past_end=_runs_past_end,
        )
        self._version = version
        self._flexible = flexible
        self._sliced = sliced

    def struct(self, cls: type[Struct]) -> str:
        """Emit the decoding of a struct; returns the expression that makes the instance of what was decoded."""
        values = {}
        tagged = []
        for spec in cls.__fields__:
            if self._version not in spec.versions:
                continue
            if self._flexible and self._version in spec.tagged:
                tagged.append(spec)
            else:
                values[spec.name] = self._value(spec.type, self._is_nullable(spec), f"{cls.__name__}.{spec.name}")
        if self._flexible:
            count = self.name("t")
            self.run.append(("B", count))
            self._emit_run()
            for spec in tagged:
                values[spec.name] = self.name("g")
                self.line(f"{values[spec.name]} = {self._default(spec)}")
            with self.block(f"if {count}:"):
                self._tagged_fields(cls, count, tagged, values)
        self._emit_run()
        return self._construct(cls, values)

    def _is_nullable(self, spec: FieldSpec) -> bool:
        return self._version in spec.nullable

    def _construct(self, cls: type[Struct], values: dict[str, str]) -> str:
        arguments = [values.get(spec.name) or self._default(spec) for spec in cls.__fields__]
        for spec in reversed(cls.__fields__):
            if spec.name in values or callable(spec.default):
                break
            arguments.pop()
        self.namespace[cls.__name__] = cls
        cls()  # compiles the constructor: no message is to be charged for that
        return f"{cls.__name__}({', '.join(arguments)})"

    def _default(self, spec: FieldSpec) -> str:
        if spec.default is list:
            return "[]"
        if callable(spec.default):
            return self.bind(spec.default) + "()"
        return repr(spec.default)

    def _emit_run(self) -> None:
        codes = [code for code, _ in self.run]
        variables = [variable for _, variable in self.run]
        self.run = []
        if codes == ["B"]:
            self.line(f"{variables[0]} = b[p]; p += 1")
        elif codes:
            size = calcsize(">" + "".join(codes))
            self.line(f"{', '.join(variables)}, = {self.struct_method(codes, 'unpack_from')}(b, p); p += {size}")

    def _length(self, code: str) -> str:
        """Emit the decoding of a length or count; -1 stands for null."""
        length = self.name("n")
        self.run.append(("B" if self._flexible else code, length))
        self._emit_run()
        if self._flexible:
            self.line(f"if {length} > 127: {length}, p = varint(b, p - 1)")
            self.line(f"{length} -= 1")
        return length

    def _value(self, type_: FieldType, nullable: bool, name: str) -> str:
        """Emit the decoding of one value; returns the variable or expression that holds it."""
        value = self.name("x")
        if isinstance(type_, str) and (code := FIXED_CODES.get(type_)):
            self.run.append((code, value))
            return value
        if isinstance(type_, type):
            return self._nullable_struct(type_, value) if nullable else self.struct(type_)
        length = self._length("h" if type_ == "string" else "i")
        # A string that older versions cannot carry is refused in flexible ones too (KIP-482): it may be sent on in
        # another version.
        limit = f" <= {STRING_BYTES_MAX}" if type_ == "string" and self._flexible else ""
        with self.block(f"if 0 <= {length}{limit}:"):
            if isinstance(type_, list):
                self._array(type_[0], value, length, name)
            elif type_ == "string":
                self.line(f"e = p + {length}; {value} = str(b[p:e], 'utf-8'); p = e")
            elif type_ == "records":
                self.line(f"e = p + {length}; {value} = view[p:e]; p = e")
            else:
                assert type_ == "bytes", type_
                self.line(f"e = p + {length}; {value} = bytes(b[p:e]); p = e")
        if nullable:
            self.line(f"elif {length} == -1: {value} = None")
        self.line(f"else: invalid({name!r}, {length})")
        return value

    def _nullable_struct(self, cls: type[Struct], value: str) -> str:
        present = self.name("n")
        self.run.append(("b", present))
        self._emit_run()
        self.line(f"{value} = None")
        with self.block(f"if {present} >= 0:"):
            self.line(f"{value} = {self.struct(cls)}")
        return value

    def _array(self, element: FieldType, array: str, count: str, name: str) -> None:
        self.line(f"left -= {count}")
        self.line("if left < 0: too_many()")
        if isinstance(element, str) and element in _NUMBERS:
            code = FIXED_CODES[element]
            self.line(f"{array} = unpack_many(b, p, {count}, {code!r}); p += {count} * {calcsize(code)}")
            return
        self.line(f"{array} = []")
        if isinstance(element, type) and (present := self._fixed_fields(element)) and not self._sliced:
            self._fixed_structs(element, present, array, count)
            if not self._flexible:
                return
        with self.block(f"for _ in range({count}):"):
            if self._sliced:
                self.line("step += 1")
                self.line(f"if step > {STEP_ELEMENTS}: step = 0; yield")
            if isinstance(element, type):
                made = self.struct(element)
            else:
                made = self._value(element, False, name)
                self._emit_run()
            self.line(f"{array}.append({made})")

    def _fixed_fields(self, cls: type[Struct]) -> list[FieldSpec] | None:
        """The untagged fields, if all of them have a fixed width."""
        present = [
            spec
            for spec in cls.__fields__
            if self._version in spec.versions and not (self._flexible and self._version in spec.tagged)
        ]
        assert present or self._flexible, f"{cls.__name__} takes no bytes, so nothing would bound an array of it"
        return present if all(spec.fixed_code for spec in present) else None

    def _fixed_structs(self, cls: type[Struct], present: list[FieldSpec], array: str, count: str) -> None:
        """Emit the decoding of an array of structs of fixed width in one iteration.

        It leaves `count` at 0, unless one of the structs has tagged fields: then the general loop does it all again.
        """
        values = {spec.name: self.name("x") for spec in present}
        variables = list(values.values())
        codes = [spec.fixed_code or "" for spec in present]
        if self._flexible:
            variables.append("t")
            codes.append("B")
        self.line(f"e = p + {count} * {calcsize('>' + ''.join(codes))}")
        self.line("if e > end: runs_past_end()")
        with self.block(f"for {', '.join(variables)}, in {self.struct_method(codes, 'iter_unpack')}(b[p:e]):"):
            if self._flexible:
                self.line("if t: break")
            self.line(f"{array}.append({self._construct(cls, values)})")
        self.line(f"else: p = e; {count} = 0")
        if self._flexible:
            self.line(f"if {count}: {array} = []")

    def _tagged_fields(self, cls: type[Struct], count: str, known: list[FieldSpec], values: dict[str, str]) -> None:
        if not known:
            self.line("p, left = skip_tagged_fields(b, p - 1, end, left)")
            return
        tag, stop = self.name("t"), self.name("e")
        self.line(f"if {count} > 127: {count}, p = varint(b, p - 1)")
        self.line(f"left -= {count}")
        self.line("if left < 0: too_many()")
        with self.block(f"for _ in range({count}):"):
            self.line(f"{tag}, p = varint(b, p)")
            self.line(f"{stop}, p = varint(b, p); {stop} += p")
            for spec in known:
                with self.block(f"if {tag} == {spec.tag}:"):
                    name = f"{cls.__name__}.{spec.name}"
                    made = self._value(spec.type, self._is_nullable(spec), name)
                    self._emit_run()
                    self.line(f"{values[spec.name]} = {made}")
                    self.line(f"if p != {stop}: invalid({name!r}, p - {stop})")
            self.line(f"p = {stop}")
            self.line("if p > end: runs_past_end()")


def _skip_tagged_fields(b: Any, p: int, end: int, left: int) -> tuple[int, int]:
    """Skip unknown tagged fields. Returns where they end, and how many elements may still follow."""
    count, p = read_varint(b, p)
    if count > left:
        _too_many()
    for _ in range(count):
        _, p = read_varint(b, p)
        size, p = read_varint(b, p)
        p += size
    if p > end:
        _runs_past_end()
    return p, left - count


def _has_records(cls: type[Struct]) -> bool:
    for spec in cls.__fields__:
        inner = spec.type[0] if isinstance(spec.type, list) else spec.type
        if inner == "records" or (isinstance(inner, type) and _has_records(inner)):
            return True
    return False


def _unpack_many(b: Any, p: int, count: int, code: str) -> list[Any]:
    """An array of numbers; struct takes no memory for them before it has seen that their bytes are there."""
    return list(unpack_from(f">{count}{code}", b, p))


def _invalid(name: str, number: int) -> NoReturn:
    raise WireError(f"{name}: null, or an impossible length ({number})")


def _too_many() -> NoReturn:
    raise WireError("more array elements than any request needs")


def _runs_past_end() -> NoReturn:
    raise WireError("the message runs past its end")
