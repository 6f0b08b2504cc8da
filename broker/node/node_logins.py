"""How a node authenticates by SASL to the listeners of other nodes."""

from random import Random

from broker.client.sasl_config import Credentials, client_exchange
from broker.client.sasl_login import SaslLogin
from broker.config import KafkaConfig
from broker.node.sasl_listeners import server_login_module
from broker.security.sasl.exchange import ClientExchange
from broker.security.sasl.jaas import JaasError
from broker.security.sasl.mechanisms import SCRAM_MECHANISMS
from broker.security.sasl.plain import PLAIN
from metadata.configuration import InvalidConfig


class NodeLogin:
    """Logs in to the listener `listener` of other nodes, with `sasl.mechanism.inter.broker.protocol`.

    As in Kafka, the name and the password are in the same login module as the users that the listener knows:
    `listener.name.<listener>.<mechanism>.sasl.jaas.config`. Raises InvalidConfig.
    """

    def __init__(self, config: KafkaConfig, listener: str, rng: Random) -> None:
        self._listener, self._rng = listener, rng
        self.login = SaslLogin(self._begin, rng.random)
        self.configure(config)

    def configure(self, config: KafkaConfig) -> None:
        """Use other credentials from now on. Raises InvalidConfig, and goes on as before."""
        mechanism = config.sasl_mechanism_inter_broker_protocol
        if mechanism not in (PLAIN, *SCRAM_MECHANISMS):
            raise InvalidConfig(f"sasl.mechanism.inter.broker.protocol={mechanism} is not supported between brokers")
        credentials = _credentials(config, self._listener, mechanism)
        self._start = client_exchange(mechanism, credentials, self._rng.randbytes)

    async def _begin(self) -> ClientExchange:
        return self._start()


def _credentials(config: KafkaConfig, listener: str, mechanism: str) -> Credentials:
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    module = server_login_module(config, listener, mechanism)
    if module is None:
        raise InvalidConfig(f"{name} has to have the username and the password with which this node logs in")
    try:
        username, password = module.credentials()
    except JaasError as error:
        raise InvalidConfig(f"{name}: {error}") from error
    return Credentials(username, password, module.is_token_login)
