"""The controller mutation rate of KIP-599: a token bucket, strict for clients that know its error."""

import attrs
import pytest

from broker.quota import MutationQuotas, MutationUse, QuotaWindows, TokenBucket
from metadata.image import MetadataDelta, MetadataImage
from metadata.records import ClientQuotaRecord, QuotaEntity
from tests.broker.quota.test_client_quotas import session_of

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
STRICT_FROM = {CREATE_TOPICS: 6, DELETE_TOPICS: 5, CREATE_PARTITIONS: 3}
ALICE: QuotaEntity = (("user", "alice"),)


@attrs.define
class Mutations:
    """Quotas with a burst of 10 seconds, and their clock."""

    now_ms: float = 0.0
    quotas: MutationQuotas = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.quotas = MutationQuotas(QuotaWindows(10, 1), lambda: self.now_ms)

    def set(self, entity: QuotaEntity, value: float | None) -> None:
        delta = MetadataDelta(MetadataImage())
        record = ClientQuotaRecord(
            entity=entity, key="controller_mutation_rate", value=value or 0.0, remove=value is None
        )
        delta.replay([record])
        self.quotas.publish(delta, delta.apply(0))

    def charge(
        self, count: int, user: str = "alice", *, api_key: int = CREATE_TOPICS, version: int = 7
    ) -> tuple[bool, int]:
        return self.quotas.charge(session_of(user), "app", api_key, version, count)


def test_token_bucket_refills_up_to_its_burst() -> None:
    bucket = TokenBucket()
    assert bucket.tokens(5, 50, 0) == 50
    bucket.take(60)
    assert bucket.delay_ms(5, 50, 0) == 2000
    assert bucket.tokens(5, 50, 3000) == 5
    assert bucket.tokens(5, 50, 60_000) == 50


@pytest.mark.parametrize("api_key", STRICT_FROM)
def test_strict_quota_refuses_once_the_bucket_is_exhausted_and_not_before(api_key: int) -> None:
    """One change may take more tokens than there are, so that a large one is possible at all."""
    mutations = Mutations()
    mutations.set(ALICE, 2)
    version = STRICT_FROM[api_key]
    assert mutations.charge(30, api_key=api_key, version=version) == (True, 0)
    assert mutations.charge(1, api_key=api_key, version=version) == (False, 5000)
    mutations.now_ms += 4000
    assert mutations.charge(1, api_key=api_key, version=version) == (False, 1000)
    mutations.now_ms += 1000
    assert mutations.charge(1, api_key=api_key, version=version) == (True, 0)


@pytest.mark.parametrize("api_key", STRICT_FROM)
def test_permissive_quota_of_earlier_versions_pauses_the_client(api_key: int) -> None:
    mutations = Mutations()
    mutations.set(ALICE, 2)
    version = STRICT_FROM[api_key] - 1
    assert mutations.charge(20, api_key=api_key, version=version) == (True, 0)
    assert mutations.charge(4, api_key=api_key, version=version) == (True, 2000)
    assert mutations.charge(2, api_key=api_key, version=version) == (True, 3000)


def test_users_have_buckets_of_their_own_and_removal_ends_the_limit() -> None:
    mutations = Mutations()
    mutations.set((("user", None),), 1)
    assert mutations.charge(11) == (True, 0)
    assert mutations.charge(1) == (False, 1000)
    assert mutations.charge(1, "bob") == (True, 0)
    mutations.set((("user", None),), None)
    assert mutations.charge(1000) == (True, 0)


def test_changed_quota_keeps_the_debt() -> None:
    mutations = Mutations()
    mutations.set(ALICE, 1)
    assert mutations.charge(20) == (True, 0)
    mutations.set(ALICE, 10)
    assert mutations.charge(1) == (False, 1000)


def test_full_buckets_are_forgotten() -> None:
    mutations = Mutations()
    mutations.set((("client-id", None),), 100)
    for number in range(5000):
        mutations.now_ms += 10
        mutations.quotas.charge(session_of("alice"), str(number), CREATE_TOPICS, 7, 100)
    assert len(mutations.quotas._buckets) <= 2048


def test_tokens_of_clients_that_changed_metadata_are_told() -> None:
    mutations = Mutations()
    mutations.set(ALICE, 2)
    mutations.charge(23)
    mutations.now_ms += 500
    assert mutations.quotas.uses() == [MutationUse("alice", None, 2, -2)]
    mutations.now_ms += 60_000
    assert mutations.quotas.uses() == []
