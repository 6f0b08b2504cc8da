"""Compile a message class and one of its versions into a function that encodes it.

The function returns a list of buffers, which together are the body. Records are parts of their own in it, the very
objects the message held, so that ranges of files reach the socket unread.
"""

from struct import error as struct_error
from struct import pack
from typing import Any, Final, NoReturn

from broker.wire.errors import WireError
from broker.wire.schema import FIXED_CODES, Buffer, EncodedArray, FieldSpec, FieldType, Struct
from broker.wire.source import STEP_ELEMENTS, Source
from broker.wire.varint import encode_varint

# A sliced encoder joins so many small parts to one: a list of a million would take too long to send.
_JOINED_PARTS: Final = 1024


def compile_encoder(cls: type[Struct], version: int, *, flexible: bool, file: str, sliced: bool = False) -> Any:
    """The function `encode(m) -> list of parts`; it raises WireError for values the version cannot carry.

    A `sliced` one is a generator that yields between steps of some elements, and returns the same bytes in fewer parts.
    """
    source = _Encoder(version, flexible=flexible, sliced=sliced)
    with source.block("def encode(m):"):
        source.line("parts = []; w = parts.append")
        if sliced:
            source.line("step = 0; joined = 0")
            source.line("if False: yield")  # a generator also where there is no array
        with source.block("try:"):
            source.struct(cls, "m")
            source.emit_run()
        with source.block("except struct_error as error:"):
            source.line("raise WireError(str(error)) from None")
        source.line("return parts")
    return source.function("encode", f"{file} encode")


class _Encoder(Source):
    def __init__(self, version: int, *, flexible: bool, sliced: bool = False) -> None:
        super().__init__(
            WireError=WireError,
            struct_error=struct_error,
            varint=encode_varint,
            pack_many=_pack_many,
            required=_required,
            tagged_fields=_tagged_fields,
            join_last=_join_last,
            EncodedArray=EncodedArray,
        )
        self._version = version
        self._flexible = flexible
        self._sliced = sliced

    def struct(self, cls: type[Struct], m: str) -> None:
        """Emit the encoding of the struct in variable `m`; its last fixed-width fields may stay in the run."""
        plain, tagged = self._fields(cls)
        if self._may_be_one_pack(plain, tagged):
            before = list(self.run)
            with self.block(f"if {self._is_one_pack(plain, tagged, m)}:"):
                self._one_pack(plain, m)
            self.run = before
            with self.block("else:"):
                self._all_fields(plain, tagged, m)
                self.emit_run()
        else:
            self._all_fields(plain, tagged, m)

    def emit_run(self, *last: tuple[str, str], keep: bool = False) -> None:
        """Emit one pack of the run and of `last`; `keep` the run for another branch."""
        run = [*self.run, *last]
        if not keep:
            self.run = []
        if not run:
            return
        codes = [code for code, _ in run]
        values = [value for _, value in run]
        if all(value.lstrip("-").isdigit() for value in values):
            self.line(f"w({pack('>' + ''.join(codes), *map(int, values))!r})")
        else:
            self.line(f"w({self.struct_method(codes, 'pack')}({', '.join(values)}))")

    def _fields(self, cls: type[Struct]) -> tuple[list[FieldSpec], list[FieldSpec]]:
        """The fields of this version: the plain ones in order, the tagged ones by tag."""
        present = [spec for spec in cls.__fields__ if self._version in spec.versions]
        tagged = [spec for spec in present if self._flexible and self._version in spec.tagged]
        return [spec for spec in present if spec not in tagged], sorted(tagged, key=lambda spec: spec.tag or 0)

    def _all_fields(self, plain: list[FieldSpec], tagged: list[FieldSpec], m: str) -> None:
        for spec in plain:
            expression = f"{m}.{spec.name}"
            self._value(spec.type, self._version in spec.nullable, expression, spec.name, pre_encoded=spec.pre_encoded)
        if not self._flexible:
            return
        if not tagged:
            self.run.append(("B", "0"))
            return
        encoders = [(spec.tag, spec.name, self._default(spec), self._tagged_value(spec)) for spec in tagged]
        with self.block(f"if {self._all_default(tagged, m)}:"):
            self.emit_run(("B", "0"), keep=True)
        with self.block("else:"):
            self.emit_run()
            self.line(f"tagged_fields({m}, {self.bind(encoders)}, parts)")

    def _tagged_value(self, spec: FieldSpec) -> Any:
        """A function that encodes the value of this tagged field."""
        source = _Encoder(self._version, flexible=True)
        with source.block("def encode(m):"):
            source.line("parts = []; w = parts.append")
            source._value(spec.type, self._version in spec.nullable, "m", spec.name)
            source.emit_run()
            source.line("return parts")
        return source.function("encode", f"tagged field {spec.name} v{self._version} encode")

    def _default(self, spec: FieldSpec) -> Any:
        return spec.default() if callable(spec.default) else spec.default

    def _all_default(self, tagged: list[FieldSpec], m: str) -> str:
        tests = []
        for spec in tagged:
            default = self._default(spec)
            if default is None:
                tests.append(f"{m}.{spec.name} is None")
            elif isinstance(spec.type, list):
                is_null = f" and {m}.{spec.name} is not None" if self._version in spec.nullable else ""
                tests.append(f"not {m}.{spec.name}{is_null}")
            else:
                tests.append(f"{m}.{spec.name} == {default!r}")
        return " and ".join(tests)

    def _may_be_one_pack(self, plain: list[FieldSpec], tagged: list[FieldSpec]) -> bool:
        """True if all fields of variable width can be empty at once, as in most responses without errors."""
        variable = [spec for spec in plain if spec.fixed_code is None]
        return bool(variable or tagged) and all(
            isinstance(spec.type, list) or (spec.type == "string" and self._version in spec.nullable)
            for spec in variable
        )

    def _is_one_pack(self, plain: list[FieldSpec], tagged: list[FieldSpec], m: str) -> str:
        tests = []
        for spec in plain:
            if spec.type == "string":
                tests.append(f"{m}.{spec.name} is None")
            elif isinstance(spec.type, list):
                tests.append(f"not {m}.{spec.name} and {m}.{spec.name} is not None")
        if tagged:
            tests.append(self._all_default(tagged, m))
        return " and ".join(tests)

    def _one_pack(self, plain: list[FieldSpec], m: str) -> None:
        for spec in plain:
            if spec.fixed_code is not None:
                self.run.append((spec.fixed_code, f"{m}.{spec.name}"))
            elif spec.type == "string":
                self.run.append(("B", "0") if self._flexible else ("h", "-1"))
            else:
                self.run.append(("B", "1") if self._flexible else ("i", "0"))
        if self._flexible:
            self.run.append(("B", "0"))
        self.emit_run()

    def _length(self, length: str, code: str) -> None:
        """Emit the run and a length or count; compact ones are in `length` already one more than that (KIP-482)."""
        if not self._flexible:
            self.emit_run((code, length))
            return
        with self.block(f"if {length} < 128:"):
            self.emit_run(("B", length), keep=True)
        with self.block("else:"):
            self.emit_run()
            self.line(f"w(varint({length}))")

    def _value(
        self, type_: FieldType, nullable: bool, expression: str, name: str, *, pre_encoded: bool = False
    ) -> None:
        if isinstance(type_, str) and type_ in FIXED_CODES:
            self.run.append((FIXED_CODES[type_], expression))
            return
        value = self.name("x")
        self.line(f"{value} = {expression}")
        if isinstance(type_, type):
            self._struct_value(type_, nullable, value, name)
            return
        length = self.name("n")
        null = "0" if self._flexible else "-1"
        self.line(f"if {value} is None: " + (f"{length} = {null}" if nullable else f"required({name!r})"))
        encoded = f"{value} = {value}.encode(); " if type_ == "string" else ""
        self.line(f"else: {encoded}{length} = len({value})" + (" + 1" if self._flexible else ""))
        self._length(length, "h" if type_ == "string" else "i")
        if isinstance(type_, list):
            if pre_encoded:
                self.line(f"if type({value}) is EncodedArray: parts += {value}.parts")
            with self.block(f"{'elif' if pre_encoded else 'if'} {value}:"):
                self._elements(type_[0], value, name)
        else:
            self.line(f"if {length} > {'1' if self._flexible else '0'}: w({value})")

    def _struct_value(self, cls: type[Struct], nullable: bool, value: str, name: str) -> None:
        if not nullable:
            self.line(f"if {value} is None: required({name!r})")
            self.struct(cls, value)
            return
        self.emit_run()
        self.line(f"if {value} is None: w(b'\\xff')")
        with self.block("else:"):
            self.run.append(("b", "1"))
            self.struct(cls, value)
            self.emit_run()

    def _elements(self, element: FieldType, array: str, name: str) -> None:
        if isinstance(element, str) and element in FIXED_CODES and element != "uuid":
            self.line(f"w(pack_many({array}, {FIXED_CODES[element]!r}))")
            return
        y = self.name("y")
        if isinstance(element, type):
            plain, tagged = self._fields(element)
            if not tagged and not self._sliced and all(spec.fixed_code for spec in plain):
                run = [(spec.fixed_code or "", f"{y}.{spec.name}") for spec in plain]
                if self._flexible:
                    run.append(("B", "0"))
                pack_one = self.struct_method([code for code, _ in run], "pack")
                self.line(f"parts.extend([{pack_one}({', '.join(value for _, value in run)}) for {y} in {array}])")
                return
        with self.block(f"for {y} in {array}:"):
            if self._sliced:
                self.line("step += 1")
                self.line(f"if step > {STEP_ELEMENTS}: step = 0; joined = join_last(parts, joined); yield")
            if isinstance(element, type):
                self.struct(element, y)
            else:
                self._value(element, False, y, name)
            self.emit_run()


def _pack_many(numbers: list[Any], code: str) -> bytes:
    return pack(f">{len(numbers)}{code}", *numbers)


def _join_last(parts: list[Any], joined: int) -> int:
    """Join the parts after the first `joined` ones if they are many. Returns the number of parts that stay as they are.

    Records among them, which may be large or ranges of files, leave all of them as they are.
    """
    if len(parts) - joined < _JOINED_PARTS:
        return joined
    last = parts[joined:]
    if all(type(part) is bytes for part in last):
        parts[joined:] = [b"".join(last)]
    return len(parts)


def _required(name: str) -> NoReturn:
    raise WireError(f"{name} may not be null in this version")


def _tagged_fields(m: Any, encoders: list[tuple[int, str, Any, Any]], parts: list[Buffer]) -> None:
    """Append the tagged fields that differ from their defaults: their number, then tag, size and value of each."""
    count = 0
    encoded: list[Buffer] = []
    for tag, name, default, encode in encoders:
        value = getattr(m, name)
        if value != default:
            body = encode(value)
            encoded += (encode_varint(tag), encode_varint(sum(map(len, body))), *body)
            count += 1
    parts.append(encode_varint(count))
    parts += encoded
