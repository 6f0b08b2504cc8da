"""The partitions that members of a sticky group claim to own, and how conflicting claims are settled."""

from collections.abc import Mapping, Sequence

import attrs

from broker.client.consumer.group.assignors.assignor import NO_GENERATION, MemberSubscription, TopicRacks
from broker.client.types import TopicPartition


@attrs.frozen
class Claim:
    """The partitions that a member claims to own, and the generation of that assignment."""

    owned: Sequence[TopicPartition]
    generation: int = NO_GENERATION


@attrs.frozen
class Ownership:
    """The owner of each claimed partition: the claim of the latest generation counts.

    A partition that several members claim in the same generation has no owner. `former` has the owners in earlier
    generations than the latest one.
    """

    owners: Mapping[TopicPartition, str]
    former: Mapping[TopicPartition, str]


def settle_claims(
    topics: TopicRacks, members: Mapping[str, MemberSubscription], claims: Mapping[str, Claim]
) -> Ownership:
    """Settles the claims of partitions that exist."""
    latest = max((claim.generation for claim in claims.values()), default=NO_GENERATION)
    best: dict[TopicPartition, tuple[int, list[str]]] = {}
    former: dict[TopicPartition, tuple[int, str]] = {}
    for member in sorted(members):
        generation = claims[member].generation
        for partition in dict.fromkeys(claims[member].owned):
            if not 0 <= partition.partition < len(topics.get(partition.topic, ())):
                continue
            known, claimants = best.get(partition, (generation, []))
            if generation > known:
                claimants = []
            if generation >= known:
                best[partition] = generation, [*claimants, member]
            if generation < latest and generation > former.get(partition, (NO_GENERATION - 1, ""))[0]:
                former[partition] = generation, member
    owners = {partition: claimants[0] for partition, (_, claimants) in best.items() if len(claimants) == 1}
    return Ownership(owners, {partition: member for partition, (_, member) in former.items()})
