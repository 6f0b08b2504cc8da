"""A replicated log on Trio, with KRaft's form of Raft. It imports no other package of the project and nothing of Kafka.

- `kraft.env` provides the disk, the clock, random numbers and the trace.
- `kraft.replicated_log` is the interface between the log and a state machine.
- `kraft.core` holds Raft's rules without I/O, and `kraft.raft_node` runs them over `kraft.log` and `kraft.rpc`.
- `kraft.log` stores the log, its snapshots, and the epoch and vote of one replica.
- `kraft.recovery` formats and recovers a replica's directory, `kraft.description` describes the quorum.

This example is a dictionary on three replicas:

    import tempfile, trio
    from kraft.core import QuorumConfig, ReplicaKey, Voter, VoterSet
    from kraft.raft_node import RaftNodeConfig, RaftNode
    from kraft.env import real_env

    class Store:  # a state machine: a dictionary
        def __init__(self): self.data = {}
        def handle_commit(self, batches):
            for batch in batches:
                self.data.update(record.decode().split("=") for record in batch.records)
        def handle_leader_change(self, leadership): print("leader:", leadership.leader_id)

    async def main(directory):
        ports = [await trio.open_tcp_listeners(0, host="127.0.0.1") for _ in range(3)]
        voters = VoterSet(tuple(
            Voter(ReplicaKey(node_id), f"127.0.0.1:{listeners[0].socket.getsockname()[1]}")
            for node_id, listeners in enumerate(ports)))
        stores, quorums = [Store() for _ in range(3)], []
        async with trio.open_nursery() as nursery:
            for voter, listeners, store in zip(voters.voters, ports, stores):
                env = real_env(lambda kind, /, **fields: None)
                config = RaftNodeConfig(QuorumConfig(voter.key, voter.address), "toy", voters)
                quorums.append(await RaftNode.open(env, f"{directory}/{voter.node_id}", config))
                quorums[-1].register(store)
                nursery.start_soon(trio.serve_listeners, quorums[-1].serve, listeners)
                await nursery.start(quorums[-1].run)
            while not (leaders := [each for each in quorums if each.leadership.leader_id == each.node_id]):
                await trio.sleep(0.01)
            epoch = leaders[0].leadership.epoch
            await leaders[0].wait_committed(epoch, leaders[0].append(epoch, [b"color=blue", b"size=7"]))
            while not all(store.data == {"color": "blue", "size": "7"} for store in stores):
                await trio.sleep(0.01)
            print([store.data for store in stores])
            nursery.cancel_scope.cancel()

    with tempfile.TemporaryDirectory() as directory:
        trio.run(main, directory)
"""
