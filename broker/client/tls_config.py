"""The TLS of a client from its config keys: those of Kafka's Java clients, and those of librdkafka."""

import logging
import ssl
from typing import Final

import attrs

from broker.client.config import ClientConfig
from broker.client.connection_security import PLAINTEXT, ConnectionSecurity
from broker.client.errors import ConfigError
from broker.security.tls.context_source import ContextSource
from broker.security.tls.contexts import client_context
from broker.security.tls.settings import PEM, StoreSettings, TlsConfigError, TlsSettings, read_settings

_log: Final = logging.getLogger(__name__)


def connection_security(config: ClientConfig) -> ConnectionSecurity:
    """How a client's connections are secured. Raises ConfigError, also for certificates that cannot be read."""
    if config.security_protocol not in ("SSL", "SASL_SSL"):
        return PLAINTEXT
    try:
        return ConnectionSecurity(_RefreshedContext(_settings(config)))
    except TlsConfigError as error:
        raise ConfigError(str(error)) from error


class _RefreshedContext:
    """Gives the context of new connections, with certificates that were replaced in their files."""

    def __init__(self, settings: TlsSettings) -> None:
        self._source = ContextSource(client_context, settings)

    def __call__(self) -> ssl.SSLContext:
        try:
            self._source.refresh()
        except TlsConfigError as error:
            _log.warning("certificates that have changed are not used: %s", error)
        return self._source.context()


def _settings(config: ClientConfig) -> TlsSettings:
    texts = {
        "ssl.key.password": config.ssl_key_password,
        "ssl.keystore.type": config.ssl_keystore_type,
        "ssl.keystore.location": config.ssl_keystore_location,
        "ssl.keystore.password": config.ssl_keystore_password,
        "ssl.keystore.key": config.ssl_keystore_key,
        "ssl.keystore.certificate.chain": config.ssl_keystore_certificate_chain,
        "ssl.truststore.type": config.ssl_truststore_type,
        "ssl.truststore.location": config.ssl_truststore_location,
        "ssl.truststore.password": config.ssl_truststore_password,
        "ssl.truststore.certificates": config.ssl_truststore_certificates,
        "ssl.enabled.protocols": ",".join(config.ssl_enabled_protocols),
        "ssl.cipher.suites": ",".join(config.ssl_cipher_suites),
        "ssl.endpoint.identification.algorithm": config.ssl_endpoint_identification_algorithm,
    }
    settings = read_settings(texts.get)
    return attrs.evolve(
        settings,
        key_store=_librdkafka_key_store(config) or settings.key_store,
        trust_store=_librdkafka_trust_store(config) or settings.trust_store,
        verifies_server=config.enable_ssl_certificate_verification,
    )


def _librdkafka_key_store(config: ClientConfig) -> StoreSettings | None:
    """The certificate and key of librdkafka's keys; None if they are not set."""
    chain, key = config.ssl_certificate_location, config.ssl_key_location
    chain_pem, key_pem = config.ssl_certificate_pem, config.ssl_key_pem
    if not (chain or key or chain_pem or key_pem):
        return None
    if config.ssl_keystore_location or config.ssl_keystore_key:
        raise TlsConfigError("ssl.keystore... and ssl.certificate... are two ways to give a certificate; give one")
    if bool(chain or chain_pem) != bool(key or key_pem) or bool(chain) != bool(key):
        raise TlsConfigError(
            "a client's certificate takes ssl.certificate.location and ssl.key.location, or ssl.certificate.pem and"
            " ssl.key.pem"
        )
    return StoreSettings(
        "ssl.certificate",
        type=PEM,
        location=chain,
        certificates=chain_pem,
        key=key_pem,
        key_password=config.ssl_key_password,
        key_location=key,
    )


def _librdkafka_trust_store(config: ClientConfig) -> StoreSettings | None:
    """The trusted authorities of librdkafka's keys; None if they are not set."""
    if not (config.ssl_ca_location or config.ssl_ca_pem):
        return None
    if config.ssl_truststore_location or config.ssl_truststore_certificates:
        raise TlsConfigError("ssl.truststore... and ssl.ca... are two ways to give trusted authorities; give one")
    return StoreSettings(
        "ssl.ca", type=PEM, location=config.ssl_ca_location or None, certificates=config.ssl_ca_pem or None
    )
