"""The validation of tokens on listeners with OAUTHBEARER, made from their configuration (KIP-255, KIP-768).

Kafka accepts unsecured tokens, by which anyone is any user, if a listener does not say how tokens are validated. Here
the configuration has to name Kafka's class for them.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, TypeVar

import trio

from broker.config import KafkaConfig
from broker.config.listener_configs import listener_value
from broker.security.oauth.claims import ClaimRules
from broker.security.oauth.http_exchange import Endpoint, HttpClient
from broker.security.oauth.key_set import MISSING_LIBRARY, KeySet
from broker.security.oauth.key_source import KeySource, RefreshTimes
from broker.security.oauth.token_validator import TokenValidator
from broker.security.oauth.unsecured_tokens import VALIDATOR_CLASS, UnsecuredValidator
from broker.security.sasl.exchange import Authenticated
from broker.security.sasl.jaas import LoginModule
from broker.security.sasl.oauthbearer import MECHANISM
from kraft import lazy_attrs
from kraft.env import Env
from metadata.configuration import InvalidConfig
from metadata.configuration.definition import ConfigKey

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
_SECURED_CLASSES: Final = (
    f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
)
_VALIDATORS: Final = (f"{_PACKAGE}.DefaultJwtValidator", f"{_PACKAGE}.BrokerJwtValidator")

T = TypeVar("T")
Validate: TypeAlias = Callable[[str], Authenticated]


class TokenValidation:
    """Makes the functions that validate tokens. Listeners with the same endpoint share its keys.

    The keys are fetched while `run` runs.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self._sources: dict[tuple[Endpoint, RefreshTimes], KeySource] = {}
        self._nursery: trio.Nursery | None = None

    def validate_on(self, config: KafkaConfig, listener: str, module: LoginModule | None) -> Validate:
        """The function that validates the tokens of a listener's clients. `module` is the login module of its config.

        Raises InvalidConfig.
        """
        settings = _ListenerSettings(config, listener)
        handler = settings.value(KafkaConfig.sasl_server_callback_handler_class)
        if handler == VALIDATOR_CLASS:
            return self._unsecured({} if module is None else module.options)
        if handler is not None and handler not in _SECURED_CLASSES:
            raise settings.invalid(
                KafkaConfig.sasl_server_callback_handler_class,
                f"names a Java class, which cannot be loaded. Use {_SECURED_CLASSES[0]}",
            )
        if settings.value(KafkaConfig.sasl_oauthbearer_jwt_validator_class) not in _VALIDATORS:
            raise settings.invalid(
                KafkaConfig.sasl_oauthbearer_jwt_validator_class, "names a Java class, which cannot be loaded"
            )
        return self._secured(settings)

    async def run(self) -> None:
        """Fetch the keys of all endpoints, also of those that are configured later, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            for source in self._sources.values():
                self._nursery.start_soon(source.run)
            await trio.sleep_forever()

    def _unsecured(self, options: Mapping[str, str]) -> Validate:
        try:
            validator = UnsecuredValidator.from_options(options)
        except ValueError as error:
            raise InvalidConfig(str(error)) from error
        return lambda token: validator.validate(token, self._now_ms())

    def _secured(self, settings: "_ListenerSettings") -> Validate:
        try:
            import jwt  # noqa: F401 - loaded here, it does not delay the first client
        except ImportError:
            raise InvalidConfig(MISSING_LIBRARY) from None
        source = self._source(settings)
        return TokenValidator(settings.claim_rules(), source, self._now_ms).validate

    def _source(self, settings: "_ListenerSettings") -> KeySource:
        endpoint, times = settings.endpoint(), settings.refresh_times()
        source = self._sources.get((endpoint, times))
        if source is None:
            source = KeySource(
                endpoint, HttpClient(), times, self._env.rng, lambda outcome: self._report(endpoint, outcome)
            )
            self._sources[endpoint, times] = source
            if self._nursery is not None:
                self._nursery.start_soon(source.run)
        return source

    def _report(self, endpoint: Endpoint, outcome: KeySet | str) -> None:
        if isinstance(outcome, str):
            self._env.trace("token_keys_not_read", endpoint=str(endpoint), reason=outcome)
        else:
            skipped = "; ".join(outcome.skipped)
            self._env.trace("token_keys_read", endpoint=str(endpoint), keys=len(outcome.keys), skipped=skipped)

    def _now_ms(self) -> int:
        return int(self._env.wall() * 1000)


@lazy_attrs.frozen
class _ListenerSettings:
    """The configs of OAUTHBEARER in force on a listener."""

    config: KafkaConfig
    listener: str

    def value(self, key: ConfigKey[T]) -> T:
        return listener_value(self.config, self.listener, key, MECHANISM)

    def invalid(self, key: ConfigKey[T], reason: str) -> InvalidConfig:
        return InvalidConfig(f"listener.name.{self.listener.lower()}.{MECHANISM.lower()}.{key.name} {reason}")

    def endpoint(self) -> Endpoint:
        key = KafkaConfig.sasl_oauthbearer_jwks_endpoint_url
        url = self.value(key)
        if not url:
            raise self.invalid(
                key,
                "is not set: it has to name the keys that tokens are validated with, as an http, https or file URL. To "
                f"accept unsigned tokens of anyone, set {KafkaConfig.sasl_server_callback_handler_class.name} to "
                f"{VALIDATOR_CLASS}",
            )
        try:
            return Endpoint.parse(url.strip())
        except ValueError as error:
            raise self.invalid(key, f"cannot be used: {error}") from None

    def refresh_times(self) -> RefreshTimes:
        """Refreshes are at least a second apart."""
        return RefreshTimes(
            refresh_ms=max(1000, self.value(KafkaConfig.sasl_oauthbearer_jwks_endpoint_refresh_ms)),
            retry_backoff_ms=max(1, self.value(KafkaConfig.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms)),
            retry_backoff_max_ms=max(1, self.value(KafkaConfig.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms)),
        )

    def claim_rules(self) -> ClaimRules:
        subject = self.value(KafkaConfig.sasl_oauthbearer_sub_claim_name).strip()
        scope = self.value(KafkaConfig.sasl_oauthbearer_scope_claim_name).strip()
        for key, name in (
            (KafkaConfig.sasl_oauthbearer_sub_claim_name, subject),
            (KafkaConfig.sasl_oauthbearer_scope_claim_name, scope),
        ):
            if not name:
                raise self.invalid(key, "must not be empty")
        for expected, allowed in (
            (KafkaConfig.sasl_oauthbearer_expected_audience, KafkaConfig.sasl_oauthbearer_allow_unverified_audience),
            (KafkaConfig.sasl_oauthbearer_expected_issuer, KafkaConfig.sasl_oauthbearer_allow_unverified_issuer),
        ):
            if not self.value(expected) and not self.value(allowed):
                raise self.invalid(
                    expected,
                    "is not set, so that a token that was made for another service would be accepted. Set it, or set "
                    f"{allowed.name} to true to accept such tokens",
                )
        return ClaimRules(
            audiences=self.value(KafkaConfig.sasl_oauthbearer_expected_audience),
            issuer=self.value(KafkaConfig.sasl_oauthbearer_expected_issuer),
            subject_claim=subject,
            scope_claim=scope,
            clock_skew_ms=max(0, self.value(KafkaConfig.sasl_oauthbearer_clock_skew_seconds)) * 1000,
        )
