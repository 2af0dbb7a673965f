/**
 * Talk to a topichub from a browser or from Node, over the WebSocket protocol `hub.v1.json`.
 *
 *     import { connect } from "http://127.0.0.1:7401/hub.js";
 *     const client = connect("ws://127.0.0.1:7401/v1/hub", { name: "my-page" });
 *     client.subscribe("/zeek/", ({ topic, value }) => console.log(topic, value));
 *     client.publish("/demo/hello", { from: "a browser" });
 *
 *     client.serve("/sum", ({ value }) => value.reduce((one, other) => one + other));
 *     console.log(await client.request("/sum", [1, 2, 3]));
 *     const name = client.claim("org.example.Player", { labels: ["video"] });
 *     for await (const message of client.consume("billing", "/app/")) message.ack();
 *     const store = client.store("status");
 *     await store.put("sensor-7", { state: "up" }, { expiresS: 60 });
 *     for await (const { key, value } of store.watch("sensor-")) console.log(key, value);
 *
 *     connect("wss://hub.example.org/", { token: async () => (await fetch("/my/token")).text() });
 *
 *     client.subscribe({ labels: ["door", "urgent"] }, ({ topic, value, labels }) => console.log(topic, value, labels));
 *     client.publish("/house/door", "open", { labels: ["urgent", "door", "north"] });
 *
 * Owner of state: the `Client`, which is a `Line` (at most one socket: a new one is made only after the last was let go, and
 * events of a socket let go are ignored) and what is said over it, each part with its own: `Subscriptions`, `Publishing`,
 * `Requests`, `Services`, `Names`, `JournalAccess`.
 *
 * Invariants: what is published leaves in the order of the calls, over all topics. A prefix is sent to the hub once
 * however many subscriptions share it. After `close()` nothing is sent, called or opened again.
 *
 * Delivery: at most once. What is published without a connection waits, bounded, for the next one; what was given to a
 * socket that then breaks may be lost, and is never sent twice: `{confirm: true}` tells which.
 *
 * Cost: one JSON text a batch, one map lookup a batch to find its subscriptions, one call a message.
 *
 * Not here: the binary form `hub.v1.msgpack`, but for the keys and values of stores: JSON would lose their types, so they
 * travel as base64 of msgpack.
 *
 * This is the one module to import. It is made of those in `client`; a hub serves all of them as one file, `/hub.js`, so
 * that there is one address to load, and one file to copy.
 */

import { Client } from "./client/client.js";
import { endpoint } from "./client/line.js";

export { HubError, RequestError } from "./client/errors.js";
export {
  Address, Count, Enum, Extension, Port, PreciseDate, Real, Subnet, Table, Timespan, Timestamp,
} from "./client/values/types.js";
export { untyped } from "./client/values/packing.js";

/**
 * Connect to a hub, now and whenever the connection is lost, until `close()`.
 * @param {string} [url] `ws:`, `wss:`, `http:` or `https:`; relative to the hub that served this module; a bare host
 *     gets the path `/v1/hub`.
 * @param {import("./hub.js").Options} [options] @returns {import("./hub.js").Client}
 * @throws {TypeError} The URL is none, or there is no WebSocket here and none was given.
 */
export function connect(url = "/", options = {}) {
  return new Client(endpoint(url, import.meta.url), options);
}
