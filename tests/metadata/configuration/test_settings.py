import attrs
import pytest

from metadata.configuration import BROKER_CONFIGS, BrokerConfigs
from metadata.configuration.settings import from_key, settings_from

NODE = {"node.id": "1", "process.roles": "broker,controller"}


@attrs.frozen(kw_only=True)
class Settings:
    path: str
    threads: int = from_key(BrokerConfigs.log_cleaner_threads)
    policy: tuple[str, ...] = from_key(BrokerConfigs.log_cleanup_policy, converter=tuple)


def test_settings_have_the_defaults_of_their_keys() -> None:
    assert Settings(path="/a") == Settings(path="/a", threads=1, policy=("delete",))


def test_settings_from_a_config_have_the_values_of_their_keys() -> None:
    config = BrokerConfigs(BROKER_CONFIGS.parse(NODE | {"log.cleaner.threads": "3", "log.cleanup.policy": "compact"}))
    assert settings_from(Settings, config, path="/a") == Settings(path="/a", threads=3, policy=("compact",))


def test_a_setting_of_a_required_key_has_no_default() -> None:
    @attrs.frozen
    class Identity:
        node_id: int = from_key(BrokerConfigs.node_id)

    with pytest.raises(TypeError, match="node_id"):
        Identity()
    assert settings_from(Identity, BrokerConfigs(BROKER_CONFIGS.parse(NODE))).node_id == 1
