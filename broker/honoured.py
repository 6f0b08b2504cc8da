"""Which configs the node acts upon. The others are read, checked and described, and have no effect yet.

One line per key, in one place: who makes a key work adds its line, and docs/compatibility.md tells the same story. A
start warns about every key that is set to something else than its default and is not here.
"""

HONOURED_BROKER_CONFIGS: frozenset[str] = frozenset(
    {
        "broker.id",
        "node.id",
        "process.roles",
    }
)

# A topic's key that is here has its synonyms in HONOURED_BROKER_CONFIGS too: they are its default.
HONOURED_TOPIC_CONFIGS: frozenset[str] = frozenset()
