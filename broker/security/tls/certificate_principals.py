"""The principal of a client that has shown a certificate, as DefaultKafkaPrincipalBuilder makes it."""

from broker.net.listener_security import ANONYMOUS, NotSecured
from broker.security.tls.distinguished_names import MalformedCertificate, subject_name
from broker.security.tls.principal_mapping import NoMatchingRule, PrincipalMapping


class CertificatePrincipals:
    """Maps the subjects of certificates by `ssl.principal.mapping.rules`. Raises InvalidRule."""

    def __init__(self, rules: str) -> None:
        self._mapping = PrincipalMapping(rules)

    def principal_of(self, certificate: bytes | None) -> str:
        """The principal of a client; without a certificate it is anonymous. Raises NotSecured."""
        if certificate is None:
            return ANONYMOUS
        try:
            return f"User:{self._mapping.short_name(subject_name(certificate))}"
        except MalformedCertificate as error:
            raise NotSecured(f"the subject of the client's certificate cannot be read: {error}") from error
        except NoMatchingRule as error:
            raise NotSecured(f"{error} (ssl.principal.mapping.rules)") from error
