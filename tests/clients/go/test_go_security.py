"""franz-go against each way of authentication: right credentials work, wrong ones are refused with a reason."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.secured_node import WAYS, Credentials, SecuredNode, Way, create_user_and_topic, secured_node

SOURCES = Path(__file__).parent
TOPIC = "written-from-go"
TIMEOUT_S = 15
# A part of franz-go's error for each kind of wrong credential.
REFUSALS = {
    "SSL": "x509: certificate signed by unknown authority",
    "MTLS": "tls: ",  # Go tells an alert from the node apart by its number: unknown certificate authority
    "PLAIN": "SASL_AUTHENTICATION_FAILED",
    "SCRAM-SHA-256": "SASL_AUTHENTICATION_FAILED",
    "SCRAM-SHA-512": "SASL_AUTHENTICATION_FAILED",
    "OAUTHBEARER": "SASL_AUTHENTICATION_FAILED",
}


@pytest.fixture(scope="module")
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled client."""
    if not request.config.getoption("--go-clients"):
        pytest.skip("needs Go and its proxy: make test-go-clients")
    if shutil.which("go") is None:
        pytest.skip("the tests of franz-go are skipped: no go on PATH")
    built = tmp_path_factory.mktemp("go") / "security_client"
    done = subprocess.run(
        ["go", "build", "-o", str(built), "."], cwd=SOURCES, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return built


@pytest.fixture(scope="module")
def node(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    with secured_node(tmp_path_factory.mktemp("secured")) as secured:
        create_user_and_topic(secured, TOPIC)
        yield secured


def write_and_read(program: Path, node: SecuredNode, way: Way, credentials: Credentials) -> dict[str, str]:
    """The output of the program: the value that it wrote and read, or its error."""
    settings = {
        "servers": [node.address(way)],
        "topic": TOPIC,
        "value": f"by {way}",
        "ca": str(credentials.trusted) if way.has_tls else "",
        "key_pair": "" if credentials.key_pair is None else str(credentials.key_pair.file),
        "mechanism": way.mechanism,
        "user": credentials.user,
        "password": credentials.password,
        "token": credentials.token,
        "timeout_ms": TIMEOUT_S * 1000,
    }
    done = subprocess.run(
        [program], input=json.dumps(settings), capture_output=True, text=True, timeout=2 * TIMEOUT_S, check=True
    )
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_right_credentials_work(program: Path, node: SecuredNode, way: Way) -> None:
    assert write_and_read(program, node, way, node.right(way)) == {"value": f"by {way}"}


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_wrong_credentials_are_refused(program: Path, node: SecuredNode, way: Way) -> None:
    answer = write_and_read(program, node, way, node.wrong(way))
    assert REFUSALS[way.mechanism or way.listener] in answer["error"]
