/** Types of hub.js, which documents each call; units are in the names. */

export interface Message {
  readonly topic: string;
  readonly value: any;
  /** With labels or names: this field and the next two. */
  readonly labels?: readonly string[];
  /** Name of the publisher; empty without one. */
  readonly sender?: string;
  /** Name whose owner alone receives it; empty without one. */
  readonly to?: string;
  /** Of a subscription to the journal: this field and the next two. */
  readonly offset?: number;
  readonly time?: Date;
  /** The epoch of the journal at that offset: keep both, and give both. */
  readonly epoch?: number;
}

/** Messages with all of these; labels or a sender are required. */
export interface Rule {
  labels?: readonly string[];
  /** Prefix of their topics. */
  prefix?: string;
  /** Name of their publisher. */
  sender?: string;
}

/** Messages to the owner of a name that this client has claimed. */
export interface Addressed {
  to: string;
}

/** A subscription: prefixes, a rule, or messages to a name. */
export type Wanted = string | readonly string[] | Rule | Addressed;

/** Labels and names of a message. */
export interface Beside {
  labels?: readonly string[];
  sender?: string;
  to?: string;
}

/** A message of the hub's journal. */
export interface JournalRecord extends Message {
  readonly offset: number;
  /** When the hub received it. */
  readonly time: Date;
}

/** Start in the hub's journal: `fromOffset` or `fromTime`; with `recorded` alone, its end. */
export interface From {
  fromOffset?: number;
  /** Epoch of that offset; without it, lost records before it are not noticed. */
  epoch?: number;
  /** The first record that is not older. */
  fromTime?: Date;
  /** Name or id of another hub of the mesh, whose journal is followed. */
  hub?: string;
  /** Follow the journal; without a start, from its end. */
  recorded?: boolean;
}

/** A message of a named consumer. */
export interface ConsumedMessage extends JournalRecord {
  /** Deliveries since the start of the hub, plus failures before. */
  readonly deliveries: number;
  /** The message is processed. */
  ack(): void;
  /** Not now: deliver it again after so many seconds (0), with one more failure. The promise resolves when the hub has it;
   *  buffered messages of its key are dropped here by then. */
  nak(options?: { delayS?: number }): Promise<void>;
  /** Still working: restart the redelivery timeout of it and of buffered messages of its key. */
  inProgress(): void;
}

/** The terms of a consumer, see docs/consumers.md; absent ones stay as they are. */
export interface ConsumeOptions {
  /** Start of a new consumer; default: the next recorded message. */
  fromOffset?: number;
  /** The same by time: the first record that is not older. */
  fromTime?: Date;
  key?: "topic" | "all" | "none" | `field:${string}`;
  redeliverS?: number;
  deliveries?: number;
  deadLetters?: string;
  /** Limit of messages not yet acknowledged. Default 256. */
  prefetch?: number;
}

export interface ReadOptions {
  /** The first offset. Default 0. */
  start?: number;
  /** Epoch of that offset: if records before it are lost, `first` of error 4011 is where other records begin. */
  epoch?: number;
  /** Instead of `start`: the first record that is not older. */
  startTime?: Date;
  /** Stop before this offset. Default: the end of the journal at the first request. */
  end?: number;
  /** Name or id of another hub of the mesh. Default: the connected hub. */
  hub?: string;
  /** Fields of each record; others are absent. Default: all. */
  columns?: readonly ("offset" | "time" | "topic" | "value")[];
}

/** The send queue of a client in the hub, as requested or as granted. */
export interface Queue {
  messages: number;
  bytes: number;
  overflow: "drop-oldest" | "drop-newest" | "disconnect";
}

/** The hub's greeting. */
export interface Welcome {
  /** 32 hexadecimal digits. */
  hub: string;
  name: string;
  software: string;
  queue: Queue;
  /** The largest message the hub takes, bytes. */
  frame: number;
  /** Id of the hub's journal, 32 hexadecimal digits; absent without one. */
  journal?: string;
  /** Seconds until the token expires; absent for never. */
  until?: number;
  /** The user of this client; absent without users. */
  user?: string;
  /** The role of clients without a token; absent without users, or if they are rejected. */
  anonymous?: string;
}

export interface Backoff {
  /** Bound of the first delay, milliseconds; doubles with each attempt. Default 100. */
  baseMs?: number;
  /** Bound of all delays, milliseconds. Default 30,000. */
  capMs?: number;
  /** 0 to 1; each delay is a random part of its bound. Default `Math.random`. */
  random?: () => number;
}

/** The part of WebSocket that is used; browsers, Node and the `ws` package have it. */
export interface Socket {
  readonly readyState: number;
  readonly bufferedAmount: number;
  onmessage: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  send(text: string): void;
  close(code?: number, reason?: string): void;
}

export interface Options {
  /** The client's name in the hub's logs and in `hub top`, at most 64 bytes. */
  name?: string;
  /** The requested send queue. Default: that of the hub. */
  queue?: Partial<Queue>;
  /** What is shown to the hub for who this is, or a function that gives it: for each connection, and again before it
   *  ends. Without a function, a hub that does not know it (4401) ends the client. */
  token?: string | (() => string | Promise<string>);
  /** Whether a subscription to more than is permitted is reduced to the permitted part. Default: it is rejected. */
  narrow?: boolean;
  /** A WebSocket constructor, where there is no global one. */
  WebSocket?: new (url: string, protocols: string[]) => Socket;
  /** Limit of the outbound buffer, roughly bytes. Default 16 MiB; over it `publish` fails with code 1013. */
  outboundBytes?: number;
  /** Silence after which a ping is sent, milliseconds. Default 20,000. */
  silenceMs?: number;
  /** Time limit of a greeting or a pong, milliseconds. Default 10,000; then the connection is closed. */
  answerMs?: number;
  backoff?: Backoff;
}

export interface StreamOptions extends From {
  /** Limit of buffered messages. Default 8,192; over it the oldest are dropped; a journal is read no further. */
  bufferMessages?: number;
  /** Limit of their JSON text, characters. Default 64 MiB; likewise. */
  bufferBytes?: number;
}

export interface RequestOptions {
  /** Time limit of the reply, milliseconds. Default 30,000, at most 3,600,000. */
  timeoutMs?: number;
  /** Whether `topic` is the name of a service. */
  service?: boolean;
}

/** A service name that the hub knows. */
export interface KnownName {
  readonly name: string;
  readonly labels: readonly string[];
  /** Id of the client at its hub. */
  readonly owner: number;
  /** Id of that hub, 32 hexadecimal digits. */
  readonly hub: string;
}

/** What `claim` returns. */
export interface ClaimedName {
  readonly name: string;
  readonly labels: readonly string[];
  readonly queue: boolean;
  readonly owned: boolean;
  readonly standing: "asked" | "queued" | "owned" | "ended";
  readonly reason: string;
  readonly confirmed: Promise<void>;
  whenOwned(): Promise<void>;
  release(): Promise<void>;
}

/** What `serve` returns. */
export interface Service {
  readonly prefixes: readonly string[];
  readonly confirmed: Promise<void>;
  close(): Promise<void>;
}

export interface Subscription {
  readonly prefixes: readonly string[];
  readonly active: boolean;
  readonly confirmed: Promise<void>;
  unsubscribe(): Promise<void>;
}

export interface MessageStream extends AsyncIterableIterator<Message> {
  /** Messages dropped by a full buffer; of a journal, records deleted before they were read. */
  readonly dropped: number;
  readonly confirmed: Promise<void>;
  return(): Promise<IteratorResult<Message>>;
}

/** What a store holds, or its key: these, and arrays and maps of them. Whole numbers are integers, others reals. */
export type StoreValue =
  | null | boolean | number | bigint | string | Real | Count | Address | Subnet | Port | Enum | Timestamp | Timespan
  | Uint8Array | Date | Extension | readonly StoreValue[] | Set<StoreValue> | Map<StoreValue, StoreValue>
  | { readonly [key: string]: StoreValue | undefined };

export interface Expiring {
  /** Lifetime of the entry, seconds. Default: unlimited; after a calculation, as before. */
  expiresS?: number;
}

/** One entry of a store. */
export interface StoreEntry {
  readonly key: any;
  readonly value: any;
  /** The number of its last change: for `ifVersion`. */
  readonly version: number;
  /** Seconds until it expires; null: never. */
  readonly expiresS: number | null;
}

/** State of a store. */
export interface StoreState {
  /** A store that has lost its entries begins another one, with a higher number. */
  readonly epoch: number;
  /** Of its last change. */
  readonly number: number;
  readonly entries: number;
  /** Of all entries in memory, about. */
  readonly bytes: number;
}

/** One change of a store. */
export interface StoreChange {
  readonly kind: "put" | "erase" | "expire" | "clear";
  /** null for `clear`. */
  readonly key: any;
  /** null for entries that are gone. */
  readonly value: any;
  /** The value before; null if there was none. */
  readonly old: any;
  /** The number of the change. */
  readonly version: number;
  /** The user, or else the name of the client, that requested it; null if unknown. */
  readonly publisher: string | null;
  /** Whether the entry existed at the start of the watch. */
  readonly present: boolean;
  /** Whether more of the same state follows: with the next change that is not partial, it is one that the store had. */
  readonly partial: boolean;
}

/** What `watch` returns. */
export interface StoreWatch extends AsyncIterableIterator<StoreChange> {
  readonly confirmed: Promise<void>;
  return(): Promise<IteratorResult<StoreChange>>;
}

/** What `replica` returns. */
export interface StoreReplica {
  readonly confirmed: Promise<void>;
  readonly size: number;
  readonly number: number;
  /** Seconds. */
  readonly ageS: number;
  get(key: StoreValue, fallback?: any): any;
  version(key: StoreValue): number;
  has(key: StoreValue): boolean;
  items(): IterableIterator<[any, any]>;
  atLeast(version: number, options?: { timeoutMs?: number }): Promise<StoreReplica>;
  close(): Promise<void>;
}

/** What `store` returns. Calculations return the new value. */
export interface Store {
  readonly name: string;
  readonly written: number;
  put(key: StoreValue, value: StoreValue, options?: Expiring & { ifVersion?: number | null }): Promise<number | null>;
  putNowait(key: StoreValue, value: StoreValue, options?: Expiring): void;
  putUnique(key: StoreValue, value: StoreValue, options?: Expiring): Promise<boolean>;
  erase(key: StoreValue, options?: { ifVersion?: number | null }): Promise<boolean>;
  clear(): Promise<void>;
  increment(key: StoreValue, by?: StoreValue, options?: Expiring): Promise<any>;
  decrement(key: StoreValue, by?: StoreValue, options?: Expiring): Promise<any>;
  append(key: StoreValue, text: string, options?: Expiring): Promise<string>;
  insert(key: StoreValue, member: StoreValue, value?: StoreValue, options?: Expiring): Promise<any>;
  remove(key: StoreValue, member: StoreValue, options?: Expiring): Promise<any>;
  push(key: StoreValue, element: StoreValue, options?: Expiring): Promise<any[]>;
  pop(key: StoreValue, options?: Expiring): Promise<any[]>;
  get(key: StoreValue, fallback?: any): Promise<any>;
  entry(key: StoreValue): Promise<StoreEntry | null>;
  exists(key: StoreValue): Promise<boolean>;
  index(key: StoreValue, index: StoreValue, fallback?: any): Promise<any>;
  keys(prefix?: string): Promise<any[]>;
  entries(prefix?: string): AsyncIterableIterator<StoreEntry>;
  state(): Promise<StoreState>;
  watch(prefix?: string): StoreWatch;
  replica(): StoreReplica;
}

export interface Statistics {
  readonly state: "connecting" | "open" | "waiting" | "closed";
  /** Id of the hub, while connected. */
  readonly hub: string | null;
  readonly connections: number;
  readonly receivedMessages: number;
  readonly receivedBatches: number;
  /** Dropped in the hub, as it reports. */
  readonly droppedMessages: number;
  /** Dropped in buffers of `messages()`. */
  readonly skippedMessages: number;
  readonly publishedMessages: number;
  readonly publishedBatches: number;
  /** Published, not sent, and lost by `close()`. */
  readonly discardedMessages: number;
  readonly errors: number;
  readonly prefixes: number;
  readonly unconfirmed: number;
  /** Requests without a reply yet. */
  readonly pendingRequests: number;
  readonly outboundBytes: number;
}

export interface Events {
  /** Connected, and the queue asked for is granted. */
  open: (welcome: Welcome) => void;
  /** A connection, or an attempt at one, ended. */
  close: (code: number, reason: string) => void;
  /** So many messages were lost in the hub, or records of its journal deleted before they were read, at this point of the stream. */
  dropped: (count: number) => void;
  /** Records of its journal from the offset `to` up to `from`, which were read, were lost with its power: what comes has their offsets. */
  cut: (offsets: { from: number; to: number }) => void;
  /** Refused by the hub, thrown by a callback, or not understood. Without a listener it goes to the console. */
  error: (error: Error) => void;
  /** The next attempt is so many milliseconds away. */
  reconnecting: (delayMs: number) => void;
}

export interface Client {
  ready(): Promise<Welcome>;
  on<E extends keyof Events>(event: E, listener: Events[E]): () => void;
  subscribe(what: Wanted, callback: (message: Message) => void, from?: From): Subscription;
  messages(what: Wanted, options?: StreamOptions): MessageStream;
  read(prefixes?: string | readonly string[], options?: ReadOptions): AsyncIterableIterator<JournalRecord>;
  publish(topic: string, value: unknown, options: Beside & { confirm: true }): Promise<void>;
  /** The promise is of the offset in the hub's journal. */
  publish(topic: string, value: unknown, options: Beside & { confirm: "recorded" }): Promise<number>;
  publish(topic: string, value: unknown, options?: Beside & { confirm?: false }): void;
  request(topic: string, value: unknown, options?: RequestOptions): Promise<any>;
  claim(name: string, options?: { labels?: readonly string[]; queue?: boolean }): ClaimedName;
  store(name: string, options?: { timeoutMs?: number }): Store;
  consume(name: string, prefixes?: string | readonly string[], options?: ConsumeOptions): AsyncGenerator<ConsumedMessage, never>;
  names(prefix?: string): Promise<KnownName[]>;
  serve(prefixes: string | readonly string[], answer: (request: Message) => unknown): Service;
  statistics(): Statistics;
  close(): Promise<void>;
}

export class HubError extends Error {
  /** A WebSocket close code, as in the protocol. */
  readonly code: number;
  /** With 4011: the oldest offset that the journal holds. */
  readonly first?: number;
  constructor(code: number, text: string, first?: number);
}

/** A request was answered, and not with a value. */
export class RequestError extends HubError {
  /** Its status, as in docs/requests.md. `code` is 4100 more. */
  readonly status: number;
  constructor(status: number, text: string);
}

/** A real that is whole: another value than the integer. */
export class Real extends Number {}

/** A whole number from 0 to 2^64 - 1. */
export class Count {
  readonly value: number | bigint;
  constructor(value: number | bigint);
}

/** An address of IPv4 or IPv6; `text` is its one short form. */
export class Address {
  readonly text: string;
  constructor(text: string);
}

/** A subnet, as 10.0.0.0/8. */
export class Subnet {
  readonly text: string;
  constructor(text: string);
}

export class Port {
  readonly text: string;
  readonly number: number;
  readonly protocol: "?" | "tcp" | "udp" | "icmp";
  constructor(number: number, protocol?: "?" | "tcp" | "udp" | "icmp");
}

/** The name of an enum value of Zeek. */
export class Enum {
  readonly text: string;
  constructor(name: string);
}

/** A moment, nanoseconds since 1970. */
export class Timestamp {
  readonly ns: bigint;
  constructor(ns: bigint | number);
  static of(date: Date): Timestamp;
  toDate(): Date;
}

/** A stretch of time, nanoseconds. */
export class Timespan {
  readonly ns: bigint;
  readonly ms: number;
  constructor(ns: bigint | number);
  static ofMs(ms: number): Timespan;
}

/** Zeek's table. A plain `Map`, like an object, is a map of msgpack. */
export class Table extends Map<any, any> {}

/** A time with nanoseconds since 1970. */
export class PreciseDate extends Date {
  ns: bigint;
  constructor(ns: bigint);
}

/** An extension of msgpack that is none of these. */
export class Extension {
  readonly code: number;
  readonly bytes: Uint8Array;
  constructor(code: number, bytes: Uint8Array);
}

/** A value of a store without types, as messages have it. */
export function untyped(value: any): any;

export function connect(url?: string, options?: Options): Client;
