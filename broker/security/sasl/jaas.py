"""The value of `sasl.jaas.config`: Java's login modules with their options.

An entry is `org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";`.
Values that are no plain words stand in quotes. Messages of errors give positions and no parts of the text, which may be
passwords.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import attrs

from kraft import lazy_attrs

_PACKAGE: Final = "org.apache.kafka.common.security"
PLAIN_MODULE: Final = f"{_PACKAGE}.plain.PlainLoginModule"
SCRAM_MODULE: Final = f"{_PACKAGE}.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule"
_MODULES: Final = (PLAIN_MODULE, SCRAM_MODULE, OAUTHBEARER_MODULE)
_USER_OPTION: Final = "user_"
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}

# The characters of words are letters, digits, "-", "_", "$", ".", and all above ASCII. The classes name the others: to
# compile classes of all of Unicode takes 14 ms at each start.
_TOKEN: Final = re.compile(
    r"""(?P<space>[\0- ]+|//[^\r\n]*|/\*.*?\*/)
      |(?P<quoted>"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')
      |(?P<word>[^\0-\x23\x25-\x2c\x2e-\x40\x5b-\x5e\x60\x7b-\x9f][^\0-\x23\x25-\x2c\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x9f]*)
      |(?P<sign>[=;])""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPED: Final = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.DOTALL)


class JaasError(ValueError):
    """The text is not a JAAS config, or one that this release does not support."""


@lazy_attrs.frozen
class LoginModule:
    """A login module with its options, of which most are secrets."""

    name: str
    options: Mapping[str, str] = attrs.field(repr=False)

    @property
    def users(self) -> dict[str, str]:
        """The passwords of users, by name: the options `user_<name>` of a server with the mechanism PLAIN."""
        return {
            option.removeprefix(_USER_OPTION): value
            for option, value in self.options.items()
            if option.startswith(_USER_OPTION)
        }

    @property
    def is_token_login(self) -> bool:
        """True if the username is the id of a delegation token, and the password its HMAC."""
        return self.options.get("tokenauth", "").lower() == "true"

    def credentials(self) -> tuple[str, str]:
        """The username and the password with which a client logs in. Raises JaasError."""
        username, password = self.options.get("username"), self.options.get("password")
        if not username or password is None:
            raise JaasError("sasl.jaas.config has no option username or password")
        return username, password


class _Token(NamedTuple):
    position: int
    sign: str
    text: str


def login_module(text: str) -> LoginModule:
    """The only login module of a config. Raises JaasError."""
    modules = login_modules(text)
    if len(modules) != 1:
        raise JaasError(f"JAAS config property contains {len(modules)} login modules, should be 1 module")
    if modules[0].name not in _MODULES:
        names = ", ".join(name.rpartition(".")[2] for name in _MODULES)
        raise JaasError(f"The login module of the JAAS config is none of Kafka's {names}")
    return modules[0]


def login_modules(text: str) -> list[LoginModule]:
    """All login modules of a config, in order. Raises JaasError."""
    tokens = _tokens(text)
    modules = []
    for token in tokens:
        modules.append(_module(token, tokens))
    if not modules:
        raise JaasError("Login module not specified in JAAS config")
    return modules


def _module(name: _Token, tokens: Iterator[_Token]) -> LoginModule:
    if name.sign:
        raise JaasError(f"Login module expected at position {name.position} of the JAAS config")
    flag = next(tokens, None)
    if flag is None or flag.sign:
        raise JaasError("Login module control flag not specified in JAAS config")
    if flag.text.lower() not in _FLAGS:
        raise JaasError(f"Invalid login module control flag at position {flag.position} of the JAAS config")
    options: dict[str, str] = {}
    for key in tokens:
        if key.sign == ";":
            return LoginModule(name.text, options)
        assignment, value = next(tokens, None), next(tokens, None)
        if key.sign or assignment is None or assignment.sign != "=" or value is None or value.sign:
            raise JaasError(f"Value not specified for the key at position {key.position} of the JAAS config")
        options[key.text] = value.text
    raise JaasError("JAAS config entry not terminated by semi-colon")


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError(
                f"Unexpected character at position {position} of the JAAS config: values with other characters than "
                "letters, digits, '-', '_', '$' and '.', or with a digit in front, stand in quotes"
            )
        if match["quoted"] is not None:
            yield _Token(position, "", _ESCAPED.sub(_unescaped, match["quoted"][1:-1]))
        elif match["word"] is not None:
            yield _Token(position, "", match["word"])
        elif match["sign"] is not None:
            yield _Token(position, match["sign"], "")
        position = match.end()


def _unescaped(match: re.Match[str]) -> str:
    """As Java's StreamTokenizer reads an escape sequence in quotes."""
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPES.get(escaped, escaped)
