"""Principals, TLS, delegation tokens and SASL (BrokerSecurityConfigs, SslConfigs and SaslConfigs in Kafka)."""

from metadata.configuration.definition import ConfigValues, key
from metadata.configuration.validators import at_least, between, no_empty_elements, one_of, one_of_ignoring_case
from metadata.configuration.vocabulary import (
    BOOLEAN,
    CLASS,
    DAY_MS,
    DOUBLE,
    HIGH,
    HOUR_MS,
    INT,
    KIB,
    LIST,
    LISTENER,
    LONG,
    LOW,
    MECHANISM,
    MEDIUM,
    PASSWORD,
    PER_BROKER,
    SHORT,
    STRING,
)


# Each key: type, default, validator, importance; then its documentation, and where it may change in a running broker.
# fmt: off
class SecurityConfigs(ConfigValues):
    """TLS, SASL and delegation tokens."""

    principal_builder_class = key(CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", None, MEDIUM,
        "The class that makes a principal of an authenticated connection.", PER_BROKER, takes_effect=False)
    connections_max_reauth_ms = key(LONG, 0, None, MEDIUM,
        "A SASL connection has to authenticate again after at most this many ms (KIP-368); 0 is never.",
        scope=MECHANISM)
    security_providers = key(STRING, None, None, LOW,
        "Classes that add Java security providers.", takes_effect=False)
    ssl_client_auth = key(STRING, "none", one_of("required", "requested", "none"), MEDIUM,
        "Whether clients have to, may, or do not show a certificate.", PER_BROKER)
    ssl_principal_mapping_rules = key(STRING, "DEFAULT", None, LOW,
        "Rules that turn a certificate's distinguished name into a short name.")
    ssl_allow_dn_changes = key(BOOLEAN, False, None, LOW,
        "Whether a new key store may have another distinguished name.", takes_effect=False)
    ssl_allow_san_changes = key(BOOLEAN, False, None, LOW,
        "Whether a new key store may lack subject alternative names of the old one.", takes_effect=False)
    ssl_protocol = key(STRING, "TLSv1.3", None, MEDIUM,
        "The TLS version of a new context.", PER_BROKER, takes_effect=False)
    ssl_provider = key(STRING, None, None, MEDIUM,
        "The Java security provider for TLS.", PER_BROKER, takes_effect=False)
    ssl_enabled_protocols = key(LIST, ("TLSv1.2", "TLSv1.3"), no_empty_elements, MEDIUM,
        "TLS versions that are accepted.", PER_BROKER)
    ssl_cipher_suites = key(LIST, (), no_empty_elements, MEDIUM,
        "Cipher suites that are accepted; empty is the library's own choice.", PER_BROKER)
    ssl_keystore_type = key(STRING, "JKS", None, MEDIUM,
        "Format of the key store: JKS, PKCS12 or PEM.", PER_BROKER, scope=LISTENER)
    ssl_keystore_location = key(STRING, None, None, MEDIUM,
        "File of the key store.", PER_BROKER, scope=LISTENER)
    ssl_keystore_password = key(PASSWORD, None, None, MEDIUM,
        "Password of the key store.", PER_BROKER, scope=LISTENER)
    ssl_key_password = key(PASSWORD, None, None, MEDIUM,
        "Password of the private key.", PER_BROKER, scope=LISTENER)
    ssl_keystore_key = key(PASSWORD, None, None, MEDIUM,
        "The private key itself, as PEM.", PER_BROKER, scope=LISTENER)
    ssl_keystore_certificate_chain = key(PASSWORD, None, None, MEDIUM,
        "The certificate chain itself, as PEM.", PER_BROKER, scope=LISTENER)
    ssl_truststore_type = key(STRING, "JKS", None, MEDIUM,
        "Format of the trust store: JKS, PKCS12 or PEM.", PER_BROKER, scope=LISTENER)
    ssl_truststore_location = key(STRING, None, None, MEDIUM,
        "File of the trust store.", PER_BROKER, scope=LISTENER)
    ssl_truststore_password = key(PASSWORD, None, None, MEDIUM,
        "Password of the trust store.", PER_BROKER, scope=LISTENER)
    ssl_truststore_certificates = key(PASSWORD, None, None, MEDIUM,
        "The trusted certificates themselves, as PEM.", PER_BROKER, scope=LISTENER)
    ssl_keymanager_algorithm = key(STRING, "SunX509", None, MEDIUM,
        "The Java algorithm of the key manager.", PER_BROKER, takes_effect=False)
    ssl_trustmanager_algorithm = key(STRING, "PKIX", None, MEDIUM,
        "The Java algorithm of the trust manager.", PER_BROKER, takes_effect=False)
    ssl_endpoint_identification_algorithm = key(STRING, "https", None, LOW,
        "How a server's name is checked against its certificate; empty checks nothing.", PER_BROKER)
    ssl_secure_random_implementation = key(STRING, None, None, LOW,
        "The Java source of randomness for TLS.", PER_BROKER, takes_effect=False)
    ssl_engine_factory_class = key(CLASS, None, None, LOW,
        "The class that makes TLS engines.", PER_BROKER, takes_effect=False)
    delegation_token_secret_key = key(PASSWORD, None, None, MEDIUM,
        "Secret that signs delegation tokens (KIP-48); the same on every node.")
    delegation_token_max_lifetime_ms = key(LONG, 7 * DAY_MS, at_least(1), MEDIUM,
        "Longest time in ms that a delegation token lasts, renewals included.")
    delegation_token_expiry_time_ms = key(LONG, DAY_MS, at_least(1), MEDIUM,
        "Time in ms after which a delegation token expires unless it is renewed.")
    delegation_token_expiry_check_interval_ms = key(LONG, HOUR_MS, at_least(1), LOW,
        "How often in ms expired delegation tokens are looked for.")
    sasl_mechanism_controller_protocol = key(STRING, "GSSAPI", None, HIGH,
        "SASL mechanism towards controllers: PLAIN or OAUTHBEARER.")
    sasl_mechanism_inter_broker_protocol = key(STRING, "GSSAPI", None, MEDIUM,
        "SASL mechanism between brokers.", PER_BROKER)
    sasl_enabled_mechanisms = key(LIST, ("GSSAPI",), no_empty_elements, MEDIUM,
        "SASL mechanisms that are offered.", PER_BROKER)
    sasl_jaas_config = key(PASSWORD, None, None, MEDIUM,
        "Login module and its options, in the form of a JAAS file.", PER_BROKER, scope=MECHANISM)
    sasl_server_callback_handler_class = key(CLASS, None, None, MEDIUM,
        "The class that answers a SASL server's questions: one of Kafka's two for OAUTHBEARER.", scope=MECHANISM)
    sasl_server_max_receive_size = key(INT, 512 * KIB, None, MEDIUM,
        "Largest SASL message that is accepted before authentication.")
    sasl_client_callback_handler_class = key(CLASS, None, None, MEDIUM,
        "The class that answers a SASL client's questions.", takes_effect=False)
    sasl_login_class = key(CLASS, None, None, MEDIUM,
        "The class that logs in.", scope=MECHANISM, takes_effect=False)
    sasl_login_callback_handler_class = key(CLASS, None, None, MEDIUM,
        "The class that answers a login's questions.", scope=MECHANISM, takes_effect=False)
    sasl_kerberos_principal_to_local_rules = key(LIST, ("DEFAULT",), no_empty_elements, MEDIUM,
        "Rules that turn a Kerberos principal into a short name; the first that fits counts.", PER_BROKER,
        takes_effect=False)
    sasl_kerberos_service_name = key(STRING, None, None, MEDIUM,
        "The Kerberos principal that the broker runs as.", PER_BROKER, takes_effect=False)
    sasl_kerberos_kinit_cmd = key(STRING, "/usr/bin/kinit", None, MEDIUM,
        "Path of kinit.", PER_BROKER, takes_effect=False)
    sasl_kerberos_ticket_renew_window_factor = key(DOUBLE, 0.8, None, MEDIUM,
        "Share of a ticket's life after which it is renewed.", PER_BROKER, takes_effect=False)
    sasl_kerberos_ticket_renew_jitter = key(DOUBLE, 0.05, None, MEDIUM,
        "Share of random time that is added to the renewal.", PER_BROKER, takes_effect=False)
    sasl_kerberos_min_time_before_relogin = key(LONG, 60_000, None, MEDIUM,
        "Least time in ms between two logins.", PER_BROKER, takes_effect=False)
    sasl_login_refresh_window_factor = key(DOUBLE, 0.8, None, MEDIUM,
        "Share of the time that a credential lasts after which it is refreshed.", PER_BROKER)
    sasl_login_refresh_window_jitter = key(DOUBLE, 0.05, None, MEDIUM,
        "Share of random time that is added to the refresh.", PER_BROKER)
    sasl_login_refresh_min_period_seconds = key(SHORT, 60, None, MEDIUM,
        "Least time in seconds between two refreshes.", PER_BROKER)
    sasl_login_refresh_buffer_seconds = key(SHORT, 300, None, MEDIUM,
        "Time in seconds that is kept before a credential expires.", PER_BROKER)
    sasl_login_connect_timeout_ms = key(INT, None, None, LOW,
        "How long in ms connecting to an identity provider may take.")
    sasl_login_read_timeout_ms = key(INT, None, None, LOW,
        "How long in ms reading from an identity provider may take.")
    sasl_login_retry_backoff_max_ms = key(LONG, 10_000, None, LOW,
        "Longest pause in ms between two tries at an identity provider.")
    sasl_login_retry_backoff_ms = key(LONG, 100, None, LOW,
        "First pause in ms between two tries at an identity provider.")
    sasl_oauthbearer_jwt_retriever_class = key(CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever", None, MEDIUM,
        "The class that gets tokens.", takes_effect=False)
    sasl_oauthbearer_jwt_validator_class = key(CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator", None, MEDIUM,
        "The class that checks tokens.")
    sasl_oauthbearer_scope = key(STRING, None, None, MEDIUM,
        "Scope that is asked for.")
    sasl_oauthbearer_client_credentials_client_id = key(STRING, None, None, MEDIUM,
        "Client id of the client credentials grant.")
    sasl_oauthbearer_client_credentials_client_secret = key(PASSWORD, None, None, MEDIUM,
        "Client secret of the client credentials grant.")
    sasl_oauthbearer_assertion_algorithm = key(STRING, "RS256", one_of_ignoring_case("ES256", "RS256"), MEDIUM,
        "Algorithm that signs assertions.", takes_effect=False)
    sasl_oauthbearer_assertion_claim_aud = key(STRING, None, None, MEDIUM,
        "Audience of an assertion.", takes_effect=False)
    sasl_oauthbearer_assertion_claim_exp_seconds = key(INT, 300, between(0, 86_400), LOW,
        "Life in seconds of an assertion.", takes_effect=False)
    sasl_oauthbearer_assertion_claim_iss = key(STRING, None, None, MEDIUM,
        "Issuer of an assertion.", takes_effect=False)
    sasl_oauthbearer_assertion_claim_jti_include = key(BOOLEAN, False, None, MEDIUM,
        "Whether an assertion carries an id of its own.", takes_effect=False)
    sasl_oauthbearer_assertion_claim_nbf_seconds = key(INT, 60, between(0, 3600), LOW,
        "How many seconds in the past an assertion begins.", takes_effect=False)
    sasl_oauthbearer_assertion_claim_sub = key(STRING, None, None, MEDIUM,
        "Subject of an assertion.", takes_effect=False)
    sasl_oauthbearer_assertion_file = key(STRING, None, None, MEDIUM,
        "File that holds a ready assertion.", takes_effect=False)
    sasl_oauthbearer_assertion_private_key_file = key(STRING, None, None, MEDIUM,
        "File of the private key that signs assertions.", takes_effect=False)
    sasl_oauthbearer_assertion_private_key_passphrase = key(PASSWORD, None, None, MEDIUM,
        "Passphrase of that private key.", takes_effect=False)
    sasl_oauthbearer_assertion_template_file = key(STRING, None, None, MEDIUM,
        "File with further headers and claims of an assertion.", takes_effect=False)
    sasl_oauthbearer_scope_claim_name = key(STRING, "scope", None, LOW,
        "Name of the claim that holds the scope.")
    sasl_oauthbearer_sub_claim_name = key(STRING, "sub", None, LOW,
        "Name of the claim that holds the subject.")
    sasl_oauthbearer_token_endpoint_url = key(STRING, None, None, MEDIUM,
        "Where tokens come from.")
    sasl_oauthbearer_jwks_endpoint_url = key(STRING, None, None, MEDIUM,
        "Where the keys that check tokens come from.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms = key(LONG, HOUR_MS, None, LOW,
        "How often in ms those keys are fetched again.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = key(LONG, 100, None, LOW,
        "First pause in ms between two tries to fetch the keys.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = key(LONG, 10_000, None, LOW,
        "Longest pause in ms between two tries to fetch the keys.")
    sasl_oauthbearer_clock_skew_seconds = key(INT, 30, None, LOW,
        "How many seconds the clocks of broker and identity provider may differ.")
    sasl_oauthbearer_expected_audience = key(LIST, (), no_empty_elements, HIGH,
        "Audiences of which a token has to name one.")
    sasl_oauthbearer_expected_issuer = key(STRING, None, None, HIGH,
        "Issuer that a token has to name.")
    sasl_oauthbearer_allow_unverified_audience = key(BOOLEAN, False, None, MEDIUM,
        "Whether sasl.oauthbearer.expected.audience may be left out, so that tokens for any audience are accepted.")
    sasl_oauthbearer_allow_unverified_issuer = key(BOOLEAN, False, None, MEDIUM,
        "Whether sasl.oauthbearer.expected.issuer may be left out, so that tokens of any issuer are accepted.")
# fmt: on
