"""Values as bytes and back."""

import pytest

from broker.client import (
    BytesSerializer,
    JsonDeserializer,
    JsonSerializer,
    StringDeserializer,
    StringSerializer,
)


def test_round_trips() -> None:
    assert StringSerializer().deserialize("t", StringSerializer().serialize("t", "Zürich")) == "Zürich"
    assert StringSerializer("utf-16-le").serialize("t", "a") == b"a\0"
    assert (
        JsonSerializer().serialize("t", {"city": "Zürich", "n": [1, None]}) == '{"city":"Zürich","n":[1,null]}'.encode()
    )
    assert JsonSerializer().deserialize("t", b' {"n": 1.5} ') == {"n": 1.5}
    assert BytesSerializer().serialize("t", memoryview(b"abc")) == b"abc"
    assert StringDeserializer("latin-1").deserialize("t", b"Z\xfcrich") == "Zürich"
    assert JsonDeserializer().deserialize("t", b"[1]") == [1]


def test_text_without_a_serializer_is_refused_with_advice() -> None:
    with pytest.raises(TypeError, match=r"orders has str where bytes are needed: .* serializer"):
        BytesSerializer().serialize("orders", "text")  # type: ignore[arg-type]


def test_json_has_no_nan() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        JsonSerializer().serialize("t", float("nan"))


def test_bytes_are_no_text() -> None:
    with pytest.raises(TypeError, match="orders has bytes where str is needed"):
        StringSerializer().serialize("orders", b"text")  # type: ignore[arg-type]
