"""The assignor `roundrobin`: all partitions in order, dealt to the members in order."""

from collections.abc import Mapping

from broker.client.consumer.group.assignors.assignor import (
    Assignments,
    LastAssignment,
    MemberSubscription,
    TopicRacks,
    partitions_of,
    sorted_members,
)


class RoundRobinAssignor:
    """See the module's docstring. A member that is not subscribed to a partition's topic is passed over."""

    name = "roundrobin"
    is_cooperative = False

    def user_data(self, last: LastAssignment | None) -> bytes | None:
        return None

    def assign(self, topics: TopicRacks, members: Mapping[str, MemberSubscription]) -> Assignments:
        assignments: Assignments = {member: [] for member in members}
        order = sorted_members(members)
        subscribed = {member: frozenset(subscription.topics) for member, subscription in members.items()}
        wanted = sorted(name for name in topics if any(name in names for names in subscribed.values()))
        at = 0
        for partition in partitions_of(topics, wanted):
            while partition.topic not in subscribed[order[at % len(order)]]:
                at += 1
            assignments[order[at % len(order)]].append(partition)
            at += 1
        return assignments
