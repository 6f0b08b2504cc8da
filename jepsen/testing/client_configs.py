"""Configurations of clients for a test cluster, in each client's own words.

The files of a secured cluster (`broker.cli.local_security`) are the source: the user is the administrator.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker.cli.local_security import LocalSecurity, read_client_files

# The keyword arguments of kafka-python for librdkafka's keys.
_KAFKA_PYTHON: Final = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}


def client_configs(directory: str, servers: str, security: LocalSecurity) -> dict[str, dict[str, str]]:
    """The configuration of each client by the client's name. `directory` is that of the cluster."""
    plain = {"bootstrap.servers": servers}
    files: Mapping[str, dict[str, str]] = {}
    if security is not LocalSecurity.PLAINTEXT:
        files = {Path(path).stem: _read(text) for path, text in read_client_files(directory)}
    librdkafka = files.get("librdkafka", plain)
    keywords = {_KAFKA_PYTHON[key]: value for key, value in librdkafka.items()}
    return {
        "confluent-kafka": librdkafka,
        "kafka-python": keywords,
        "aiokafka": keywords,
        "kraft": files.get("kraft", plain),
        "java": files.get("java", plain),
    }


def _read(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {key: value for key, _, value in (line.partition("=") for line in lines)}
