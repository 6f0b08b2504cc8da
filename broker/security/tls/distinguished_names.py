"""The subject of a certificate, in the form in which Java's X500Principal writes it (RFC 2253).

The names of ACLs and of principal mapping rules have this form, so it has to agree with Kafka's to the letter. The
module reads only as much of a certificate's DER as it takes to find the subject.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

# Bounds a name, which comes from a client and is kept with its session.
NAME_LENGTH_MAX: Final = 4_096

# The attributes that RFC 2253 has keywords for; Java writes all others as numbers.
_KEYWORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "2.5.4.3": "CN",
        "2.5.4.6": "C",
        "2.5.4.7": "L",
        "2.5.4.8": "ST",
        "2.5.4.9": "STREET",
        "2.5.4.10": "O",
        "2.5.4.11": "OU",
        "0.9.2342.19200300.100.1.1": "UID",
        "0.9.2342.19200300.100.1.25": "DC",
    }
)
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_IDENTIFIER: Final = 0x06
_EXPLICIT_VERSION: Final = 0xA0
# The types of strings whose values Java writes as text: UTF8String, PrintableString, T61String, IA5String,
# GeneralString and BMPString. It decodes all of them as UTF-8.
_TEXT: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_ESCAPED: Final = frozenset(',=+<>#;"\\')


class MalformedCertificate(ValueError):
    """The bytes are no certificate, or its subject cannot be read."""


class _Element(NamedTuple):
    """One element of DER: its tag, its content, and all its bytes."""

    tag: int
    content: bytes
    whole: bytes


def subject_name(certificate: bytes) -> str:
    """The subject of a certificate in DER. Raises MalformedCertificate."""
    whole = _expect(next(_elements(certificate), None), _SEQUENCE)
    fields = _elements(_expect(next(_elements(whole.content), None), _SEQUENCE).content)
    first = next(fields, None)
    # The version is optional. Serial number, signature algorithm, issuer and validity come before the subject.
    for _ in range(5 if first is not None and first.tag == _EXPLICIT_VERSION else 4):
        subject = next(fields, None)
    names = [_relative_name(element) for element in _elements(_expect(subject, _SEQUENCE).content)]
    name = ",".join(reversed(names))
    if len(name) > NAME_LENGTH_MAX:
        raise MalformedCertificate(f"a subject of {len(name)} characters")
    return name


def _relative_name(element: _Element) -> str:
    return "+".join(_attribute(each) for each in _elements(_expect(element, _SET).content))


def _attribute(element: _Element) -> str:
    parts = list(_elements(_expect(element, _SEQUENCE).content))
    if len(parts) != 2:
        raise MalformedCertificate("an attribute of a name has a type and a value")
    identifier = _identifier(_expect(parts[0], _OBJECT_IDENTIFIER).content)
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or parts[1].tag not in _TEXT:
        return f"{keyword or identifier}=#{parts[1].whole.hex()}"
    return f"{keyword}={_escape(parts[1].content.decode(errors='replace'))}"


def _escape(value: str) -> str:
    """Escape the special characters of RFC 2253, and blanks at both ends."""
    stripped = value.strip(" ")
    if not stripped:
        return "\\ " * len(value)
    leading = len(value) - len(value.lstrip(" "))
    trailing = len(value) - leading - len(stripped)
    escaped = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in stripped)
    return "\\ " * leading + escaped + "\\ " * trailing


def _identifier(content: bytes) -> str:
    """An object identifier with dots: the first two numbers share one, and each has seven bits per byte."""
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers or content[-1] & 0x80:
        raise MalformedCertificate("an object identifier that does not end")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _expect(element: _Element | None, tag: int) -> _Element:
    if element is None or element.tag != tag:
        found = "nothing" if element is None else f"{element.tag:#x}"
        raise MalformedCertificate(f"{found} in place of an element {tag:#x}")
    return element


def _elements(data: bytes) -> Iterator[_Element]:
    """The elements one after the other. Raises MalformedCertificate where a length exceeds the bytes."""
    position = 0
    while position < len(data):
        header = data[position : position + 2]
        if len(header) < 2:
            raise MalformedCertificate("an element without a length")
        tag, size = header
        start = position + 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[start : start + count]) if 0 < count <= 4 else len(data)
            start += count
        if start + size > len(data):
            raise MalformedCertificate("an element that is longer than its bytes")
        yield _Element(tag, data[start : start + size], data[position : start + size])
        position = start + size
