import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import { Kafka, logLevel, type Producer } from "kafkajs";

import { Refused, Server, type Cluster } from "./kraft-testing.js";

let server: Server;
/** What a test leaves to be closed, in the reverse order. */
let opened: (() => Promise<void>)[] = [];

before(async () => {
  server = await Server.start();
});

afterEach(async () => {
  for (const close of opened.reverse()) await close();
  opened = [];
});

after(() => server.close());

async function newCluster(nodes: number): Promise<Cluster> {
  const cluster = await server.cluster({ nodes });
  opened.push(() => cluster.close());
  return cluster;
}

async function newShop(cluster: Cluster): Promise<Producer> {
  const kafka = new Kafka({ clientId: "shop", brokers: cluster.brokers, logLevel: logLevel.NOTHING });
  const producer = kafka.producer({ retry: { initialRetryTime: 50, retries: 20 } });
  await producer.connect();
  opened.push(() => producer.disconnect());
  return producer;
}

function write(producer: Producer, topic: string, value: string): Promise<unknown> {
  return producer.send({ topic, messages: [{ value }] });
}

async function values(cluster: Cluster, topic: string): Promise<string[]> {
  return (await cluster.records(topic)).map((record) => String(record.value));
}

test("a refused order is written once", async () => {
  const cluster = await newCluster(1);
  const topic = await cluster.topic("orders");
  const shop = await newShop(cluster);
  const fault = await cluster.fault({ api: "Produce", topic, error: "NOT_LEADER_OR_FOLLOWER", times: 1 });
  await write(shop, topic, "one order");
  await fault.end();
  assert.equal(fault.fired, 1);
  const requests = await cluster.requests({ api: "Produce", client_id: "shop" });
  assert.deepEqual(
    requests.map((request) => request.errors.map((each) => each.error)),
    [["NOT_LEADER_OR_FOLLOWER"], []],
  );
  assert.deepEqual(await values(cluster, topic), ["one order"]);
});

test("an order whose answer is lost is written twice without idempotence", async () => {
  const cluster = await newCluster(1);
  const topic = await cluster.topic("orders");
  const shop = await newShop(cluster);
  const fault = await cluster.fault({ api: "Produce", topic, lose_answer: true, times: 1 });
  await write(shop, topic, "one order");
  await fault.wait("fired");
  assert.deepEqual(await values(cluster, topic), ["one order", "one order"]);
});

test("no order is lost when the leader dies", async () => {
  const cluster = await newCluster(3);
  const topic = await cluster.topic("orders", { replicas: 3 });
  const shop = await newShop(cluster);
  await write(shop, topic, "before");
  const killed = await cluster.act("kill", { leader_of: [topic, 0] });
  await write(shop, topic, "after");
  assert.deepEqual(await cluster.act("start"), killed);
  await cluster.waitFor({ in_sync: topic });
  assert.deepEqual(await values(cluster, topic), ["before", "after"]);
});

test("an order is acknowledged after the link is whole", async () => {
  const cluster = await newCluster(1);
  const topic = await cluster.topic("orders");
  const shop = await newShop(cluster);
  await write(shop, topic, "before");
  const link = await cluster.link({ client_id: "shop", leader_of: [topic, 0], direction: "out", cut: true });
  let isAcknowledged = false;
  const acknowledged = write(shop, topic, "meanwhile").then(() => (isAcknowledged = true));
  await link.wait("held");
  assert.deepEqual(await values(cluster, topic), ["before", "meanwhile"]);
  assert.equal(isAcknowledged, false);
  await link.end();
  await acknowledged;
});

test("wrong words are refused", async () => {
  const cluster = await newCluster(1);
  await assert.rejects(
    cluster.fault({ api: "Prodduce", hold: true }),
    (error) => error instanceof Refused && error.status === 400,
  );
});
