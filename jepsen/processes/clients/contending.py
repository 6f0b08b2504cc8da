"""Several clients that create, grow and delete the same few topics, and the final list of topics."""

from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from broker.wire.errors import ErrorCode
from jepsen.history import History, Operation
from jepsen.processes.clients.client import Client
from jepsen.values import SHARED_NAMES, Change

# The seconds for which a name is used. Operations of unknown outcome slow down the checker, so names are not reused.
_GENERATION_SECONDS: Final = 5.0
_NAMES: Final = 2
# The timeout of a request. The request may still be executed later.
_ANSWER_SECONDS: Final = 8.0
_LOOK_SECONDS: Final = 10.0
# Errors that reveal the state of the topic.
_DEFINITE_ERRORS: Final = (
    ErrorCode.NONE,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_PARTITIONS,
)


def contend(client: Client) -> None:
    """Create, grow and delete topics until the client has to stop."""
    admin = AdminClient(client.settings())
    while not client.stopping.is_set():
        client.pause()
        generation = int(client.now() // _GENERATION_SECONDS)
        name = f"{SHARED_NAMES}{generation}-{client.rng.randrange(_NAMES)}"
        function = client.rng.choice(("share-topic", "share-topic", "grow-topic", "drop-topic"))
        change = Change(name, client.rng.randint(1, 4))
        operation = client.history.invoke(client.plan.name, function, change)
        _complete(client.history, operation, admin)


def see_topics(client: Client) -> None:
    """Record the number of partitions of each topic, as one node knows them after recovery."""
    generations = int(client.now() // _GENERATION_SECONDS) + 1
    names = [f"{SHARED_NAMES}{generation}-{index}" for generation in range(generations) for index in range(_NAMES)]
    admin = AdminClient(client.settings())
    operations = [client.history.invoke(client.plan.name, "see-topic", Change(name)) for name in names]
    seen = admin.list_topics(timeout=_LOOK_SECONDS).topics
    for operation in operations:
        topic = seen.get(operation.value.name)
        client.history.ok(operation, None if topic is None else len(topic.partitions))


def _ask(admin: AdminClient, operation: Operation) -> object:
    """Raises KafkaException."""
    change = operation.value
    match operation.function:
        case "share-topic":
            topic = NewTopic(change.name, num_partitions=change.partitions)
            futures = admin.create_topics([topic], request_timeout=_ANSWER_SECONDS)
        case "grow-topic":
            futures = admin.create_partitions(
                [NewPartitions(change.name, change.partitions)], request_timeout=_ANSWER_SECONDS
            )
        case _:
            futures = admin.delete_topics([change.name], request_timeout=_ANSWER_SECONDS)
    return futures[change.name].result()


def _complete(history: History, operation: Operation, admin: AdminClient) -> None:
    """Record the outcome. If an error is certain, its name is the result."""
    try:
        _ask(admin, operation)
    except KafkaException as exception:
        error = exception.args[0]
        assert isinstance(error, KafkaError), "as librdkafka has it"
        if error.code() in _DEFINITE_ERRORS:
            history.ok(operation, ErrorCode(error.code()).name)
        else:
            history.info(operation, error.name())
        return
    history.ok(operation, ErrorCode.NONE.name)
