"""Encodes and decodes the messages of one API in one version."""

from broker.net.reply import Part
from broker.server.slices import Steps
from broker.wire.api import APIS
from broker.wire.codec import Decoder, Encoder, decode, decoder, encoder, sliced_decoder, sliced_encoder
from broker.wire.header import parse_response_header, request_header_version, response_header_version
from broker.wire.schema import Message
from kraft import lazy_attrs

_FLEXIBLE_REQUEST_HEADER = 2


@lazy_attrs.frozen
class MessageCodec:
    """One API in one version. `flexible` requests have compact lengths and tagged fields (KIP-482)."""

    api_key: int
    version: int
    decode: Decoder
    encode: Encoder
    flexible: bool
    flexible_response_header: bool

    def decode_sliced(self, payload: bytes, position: int) -> Steps[tuple[Message, int]]:
        return sliced_decoder(APIS[self.api_key].request, self.version)(payload, position)

    def decode_response(self, payload: bytes) -> Message:
        """Decode a response with its header, which another node has sent. Raises WireError."""
        _, position = parse_response_header(payload, self.flexible_response_header)
        response, _ = decode(APIS[self.api_key].response, self.version, payload, position)
        return response

    def encode_sliced(self, response: Message) -> Steps[list[Part]]:
        return sliced_encoder(APIS[self.api_key].response, self.version)(response)


def message_codec(api_key: int, version: int) -> MessageCodec:
    """The codec of a version that has a schema."""
    api = APIS[api_key]
    return MessageCodec(
        api_key,
        version,
        decoder(api.request, version),
        encoder(api.response, version),
        flexible=request_header_version(api_key, version) == _FLEXIBLE_REQUEST_HEADER,
        flexible_response_header=response_header_version(api_key, version) >= 1,
    )
