"""Takes the replicas off one broker, and leaves all others where they are."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from broker.cli.commands.replica_spread import Replicas, TooFewBrokers
from broker.client.types import TopicPartition


def evacuate(
    current: Replicas,
    broker: int,
    targets: Collection[int],
    racks: Mapping[int, str | None],
    sizes: Mapping[TopicPartition, int],
) -> dict[TopicPartition, list[int]]:
    """The new replicas of the partitions that have one on `broker`, with another one of `targets` in its place.

    That is one in a rack without a replica of the partition if there is one; of these the one with the fewest replicas,
    then with the fewest bytes. Where the broker was the preferred leader, the replica that is preferred by the fewest
    partitions takes its place. Raises TooFewBrokers.
    """
    load: Counter[int] = Counter(each for replicas in current.values() for each in replicas)
    size_bytes: Counter[int] = Counter()
    for partition, replicas in current.items():
        size_bytes.update(dict.fromkeys(replicas, sizes.get(partition, 0)))
    leads: Counter[int] = Counter(replicas[0] for replicas in current.values())
    plan = {}
    # The largest first, so that small ones even out what is left.
    for partition in sorted(current, key=lambda partition: (-sizes.get(partition, 0), partition)):
        replicas = current[partition]
        if broker not in replicas:
            continue
        rest = [each for each in replicas if each != broker]
        possible = [each for each in targets if each not in replicas]
        if not possible:
            name, number = f"{partition.topic}-{partition.partition}", len(replicas)
            message = f"{name} has {number} replicas, and no other broker may have one: {len(targets)} may"
            raise TooFewBrokers(message, partition, len(targets))
        used = {racks.get(each) for each in rest}
        chosen = min(possible, key=lambda each: (racks.get(each) in used, load[each], size_bytes[each], each))
        load[chosen] += 1
        size_bytes[chosen] += sizes.get(partition, 0)
        plan[partition] = hand_over(replicas, broker, [*rest, chosen], leads)
    return plan


def hand_over(replicas: Sequence[int], broker: int, others: Sequence[int], leads: Counter[int]) -> list[int]:
    """`others`, with one of them in front where `broker` was: the one that is preferred by the fewest partitions."""
    if replicas[0] != broker:
        return list(others)
    first = min(others, key=lambda each: (leads[each], others.index(each)))
    leads[first] += 1
    return [first, *(each for each in others if each != first)]


def in_fewer_racks(before: Replicas, after: Replicas, racks: Mapping[int, str | None]) -> list[TopicPartition]:
    """The partitions that are in fewer racks afterwards than before."""

    def number(replicas: Sequence[int]) -> int:
        return len({racks.get(each) for each in replicas})

    return [partition for partition in after if number(after[partition]) < number(before[partition])]
