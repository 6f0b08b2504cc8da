"""A KRaft-style replicated log on Trio. Imports nothing of the project, and can be read without knowing Kafka.

`kraft.env` is the seam between a node and the world; `kraft.replicated_log` is what a state machine sees of the log;
`kraft.log` keeps one node's copy durable. `kraft.core` holds the rules by which several nodes agree, and `kraft.driver`
runs them over `kraft.rpc`. `kraft.recovery` is how a replica begins, `kraft.description` what it tells of itself.

A dictionary on three replicas:

    import tempfile, trio
    from kraft.core import QuorumConfig, ReplicaKey, Voter, VoterSet
    from kraft.driver import DriverConfig, Quorum
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
                config = DriverConfig(QuorumConfig(voter.key, voter.address), "toy", voters)
                quorums.append(await Quorum.open(env, f"{directory}/{voter.node_id}", config))
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
