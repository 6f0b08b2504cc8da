/**
 * Real Kafka clusters with faults for tests in TypeScript, by the control port of `kraft test-server`.
 *
 * This is one file without dependencies: copy it into your project. The program is found on PATH, or named by the variable
 * KRAFT; with KRAFT_CONTROL=HOST:PORT, a server that runs already is used. The words of faults, actions and waits are those
 * of docs/testing-api.json. A refused request rejects with `Refused`.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** The words of a request, such as `{ api: "Produce", error: "REQUEST_TIMED_OUT", times: 1 }`. */
export type Words = Readonly<Record<string, unknown>>;

/** A partition: a topic and a number. */
export type Partition = readonly [topic: string, partition: number];

/** A node by its id, or by the role that it has when the action happens. */
export type Target =
  | { node: number }
  | { leader_of: Partition }
  | { coordinator_of: string }
  | { controller: true };

export type Action = "kill" | "pause" | "restart" | "resume" | "start" | "stop";

/** `Symbol.asyncDispose`, which `await using` calls, and which runtimes before Node 20.5 do not have. */
const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");

/** The server refuses a request. `status` is that of the HTTP response. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
    this.name = "Refused";
  }
}

/** A test server. Its clusters end with `close`, or with this process. */
export class Server {
  private constructor(
    readonly control: string,
    private readonly lease: string,
    private readonly holdsLease: AbortController,
    private readonly child?: ChildProcess,
  ) {}

  /** Starts a server, or connects to that of KRAFT_CONTROL. */
  static async start(): Promise<Server> {
    const running = process.env.KRAFT_CONTROL;
    if (running) return Server.connect(running);
    // It ends when its standard input is closed, also if this process is killed.
    const child = spawn(process.env.KRAFT ?? "kraft", ["test-server", "--nodes", "1"], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const failed = once(child, "exit").then(([code]) => {
      throw new Error(`kraft test-server has ended with code ${code}`);
    });
    const lines = createInterface({ input: child.stdout });
    const [line] = (await Promise.race([once(lines, "line"), failed])) as [string];
    failed.catch(() => {}); // its end is no failure from here on
    return Server.connect((JSON.parse(line) as { control: string }).control, child);
  }

  private static async connect(control: string, child?: ChildProcess): Promise<Server> {
    // The response goes on for as long as this process does; the clusters of the lease end with it.
    const holdsLease = new AbortController();
    const response = await fetch(`http://${control}/leases`, { method: "POST", signal: holdsLease.signal });
    const { value } = await response.body!.getReader().read();
    const { lease } = JSON.parse(new TextDecoder().decode(value)) as { lease: string };
    return new Server(control, lease, holdsLease, child);
  }

  /** Sends a request. Rejects with `Refused`. */
  async request<Answer>(method: string, path: string, body?: Words): Promise<Answer> {
    const response = await fetch(`http://${this.control}${path}`, {
      method,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const answer: unknown = await response.json();
    if (!response.ok) throw new Refused(response.status, (answer as { error: string }).error);
    return answer as Answer;
  }

  /** Makes a cluster that serves. The words are `nodes`, `security`, `config`, `log_level` and `seed`. */
  async cluster(words: Words = {}): Promise<Cluster> {
    return new Cluster(this, await this.request("POST", "/clusters", { lease: this.lease, ...words }));
  }

  /** Ends the clusters, and the server if `start` has started it. */
  async close(): Promise<void> {
    this.holdsLease.abort();
    if (this.child === undefined || this.child.exitCode !== null) return;
    const ended = once(this.child, "exit");
    this.child.stdin!.end();
    await ended;
  }

  [asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** A committed record of a topic. */
export interface ClusterRecord {
  partition: number;
  offset: number;
  key: Buffer | null;
  value: Buffer | null;
}

/** A request that a node has got. The errors are those of its answer, by Kafka's names. */
export interface ServedRequest {
  api: string;
  client_id: string;
  node: number;
  outcome: "pending" | "answered" | "unanswered" | "closed";
  fault: string | null;
  errors: { error: string }[];
}

/** An event that a node has reported, or that was done to a node. */
export interface TimelineEvent {
  seconds: number;
  node: number | null;
  event: string;
  level: string;
  fields: Words;
}

interface Described {
  name: string;
  bootstrap_servers: string;
  clients: Record<string, Record<string, string>>;
}

/** A cluster, until `close`. */
export class Cluster {
  readonly name: string;
  /** The addresses of the nodes. */
  readonly brokers: string[];
  /** The settings of a secured cluster by the name of a client, such as "java". */
  readonly clients: Record<string, Record<string, string>>;

  constructor(
    private readonly server: Server,
    described: Described,
  ) {
    this.name = described.name;
    this.brokers = described.bootstrap_servers.split(",");
    this.clients = described.clients;
  }

  /** Sends a request about this cluster, such as `request("POST", "/changes", {...})`. */
  request<Answer>(method: string, resource: string, body?: Words): Promise<Answer> {
    return this.server.request(method, `/clusters/${this.name}${resource}`, body);
  }

  /** Creates a topic with a unique name, which is returned. The words are `partitions`, `replicas` and `config`. */
  async topic(name: string, words: Words = {}): Promise<string> {
    return (await this.request<{ name: string }>("POST", "/topics", { name, ...words })).name;
  }

  /** Does something to a node. Without a target, `start`, `resume` and `stop` take all nodes. Returns their ids. */
  async act(action: Action, target?: Target): Promise<number[]> {
    return (await this.request<{ nodes: number[] }>("POST", "/actions", { action, ...target })).nodes;
  }

  /** Waits for conditions, such as `{ in_sync: topic }`. */
  async waitFor(words: Words): Promise<void> {
    await this.request("POST", "/waits", words);
  }

  /** Causes an event of Kafka, such as `{ change: "move_leader", topic }`. */
  change(words: Words): Promise<Words> {
    return this.request("POST", "/changes", words);
  }

  /** All committed records of a topic, by partition and offset. */
  async records(topic: string): Promise<ClusterRecord[]> {
    type Encoded = { partition: number; offset: number; key: string | null; value: string | null };
    const decoded = (text: string | null) => (text === null ? null : Buffer.from(text, "base64"));
    const { records } = await this.request<{ records: Encoded[] }>("GET", `/topics/${topic}/records`);
    return records.map((each) => ({ ...each, key: decoded(each.key), value: decoded(each.value) }));
  }

  /** The history: the latest requests that match the words, of all nodes. */
  async requests(words: Words): Promise<ServedRequest[]> {
    return (await this.request<{ requests: ServedRequest[] }>("POST", "/requests", words)).requests;
  }

  /** The timeline. */
  async events(): Promise<TimelineEvent[]> {
    return (await this.request<{ events: TimelineEvent[] }>("GET", "/events")).events;
  }

  /** Begins a fault of the protocol, such as `{ api: "Produce", topic, lose_answer: true, times: 1 }`. */
  fault(words: Words): Promise<Fault> {
    return this.begin("/faults", words);
  }

  /** Begins a fault of links, such as `{ client_id: "shop", leader_of: [topic, 0], cut: true }`. */
  link(words: Words): Promise<Fault> {
    return this.begin("/links", words);
  }

  /** Begins a fault of disks, such as `{ node: 1, full: true }`. */
  disk(words: Words): Promise<Fault> {
    return this.begin("/disks", words);
  }

  /** Begins a fault of clocks, such as `{ node: 1, offset_ms: -3600000 }`. */
  clock(words: Words): Promise<Fault> {
    return this.begin("/clocks", words);
  }

  async close(): Promise<void> {
    await this.request("DELETE", "");
  }

  [asyncDispose](): Promise<void> {
    return this.close();
  }

  private async begin(resource: string, words: Words): Promise<Fault> {
    return new Fault(this, await this.request("POST", resource, words));
  }
}

interface Counts {
  id: string;
  fired: number;
  held: number;
  ended: boolean;
}

/** A fault, in force until `end` or the end of the cluster. `fired` and `held` are of the last request about it. */
export class Fault {
  constructor(
    private readonly cluster: Cluster,
    private counts: Counts,
  ) {}

  get fired(): number {
    return this.counts.fired;
  }

  get held(): number {
    return this.counts.held;
  }

  /** Waits until it has fired, or has held requests or connections, so often. */
  async wait(wait: "fired" | "held", count = 1): Promise<void> {
    await this.send("POST", { wait, count });
  }

  /** Releases the requests that it holds now. */
  async release(): Promise<void> {
    await this.send("POST", { release: true });
  }

  async end(): Promise<void> {
    await this.send("DELETE");
  }

  [asyncDispose](): Promise<void> {
    return this.end();
  }

  private async send(method: string, body?: Words): Promise<void> {
    this.counts = await this.cluster.request(method, `/faults/${this.counts.id}`, body);
  }
}
