/**
 * The line to a hub, over as many connections as it takes, at most one at a time.
 *
 * ```
 * connecting ── welcome ──▶ open ── lost ──▶ waiting ── in time ──▶ connecting      closed: by `close`, or refused for good
 * ```
 */

import { HubError } from "./errors.js";
import { deferred, handled, now } from "./waiting.js";

/**
 * @import { Backoff as Bounds, Options, Socket, Statistics, Welcome } from "../hub.js"
 * @import { Reports } from "./reports.js"
 * @import { Tokens } from "./tokens.js"
 * @import { Deferred } from "./waiting.js"
 * @typedef {object} Part A part of the client, called at the events of the line.
 * @property {(welcome: Welcome) => void} [opened] There is a connection: send over it what is still valid.
 * @property {() => void} [lost] It is lost.
 * @property {(error: Error) => void} [finish] The client has ended: reject all that wait. Called once.
 * @typedef {Required<Part> & {heard: (message: any, characters: number) => void}} Owner
 */

const SUBPROTOCOL = "hub.v1.json";

/** `readyState` of a socket that sends; the name is not on every implementation of WebSocket. */
const OPEN = 1;

/** How long `close()` waits for the hub's answer, milliseconds. */
const CLOSE_MS = 2_000;

export class Line {
  connections = 0;
  confirmations = new Confirmations();
  #url;
  #options;
  #WebSocket;
  #tokens;
  #reports;
  #owner;
  #backoff;
  /** @type {Statistics["state"]} */ #state = "connecting";
  #dialled = 0; // attempts: a token for an earlier one is ignored
  /** @type {Socket | null} Of the connection, as is all up to the timer. */
  #socket = null;
  /** @type {Welcome | null} */ #welcome = null;
  #isHelloPending = false;
  #openedAt = 0;
  #receivedAt = 0;
  #pingedAt = 0; // 0: no pong is due
  #spared = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer;
  /** @type {Error | null} Why the line is closed. */
  #ended = null;
  /** @type {Deferred<Welcome>} */ #ready = handled(deferred());
  /** @type {Deferred<void>} */ #closed = deferred();
  #wake = () => this.#woken();

  /** @param {string} url @param {Settled} options @param {Tokens} tokens @param {Reports} reports @param {Owner} owner */
  constructor(url, options, tokens, reports, owner) {
    this.#url = url;
    this.#options = options;
    this.#WebSocket = options.WebSocket ?? globalThis.WebSocket;
    if (!this.#WebSocket) throw new TypeError("no WebSocket here: Node 22 has one; else pass one as the option WebSocket");
    this.#tokens = tokens;
    this.#reports = reports;
    this.#owner = owner;
    this.#backoff = new Backoff(options.backoff);
  }

  get state() { return this.#state; }

  get isOpen() { return this.#state === "open"; }

  /** Whether the socket sends: an open connection may be about to end. */
  get isSending() { return this.isOpen && this.#socket !== null && this.#socket.readyState === OPEN; }

  /** The hub's greeting; null without a connection. */
  get welcome() { return this.#welcome; }

  /** Bytes that the socket has not sent yet. */
  get bufferedBytes() { return this.#socket?.bufferedAmount ?? 0; }

  /** A promise that the hub has greeted, and answered the hello. */
  get ready() { return this.#ready.promise; }

  /** A promise that the line is closed, and its connection has ended. */
  get closed() { return this.#closed.promise; }

  assertNotClosed() {
    if (this.#state === "closed") throw this.#ended;
  }

  /** Make the first connection; the owner has all its parts. */
  begin() {
    globalThis.addEventListener?.("online", this.#wake);
    globalThis.document?.addEventListener("visibilitychange", this.#wake);
    this.#dial();
  }

  /** @param {object} message */
  send(message) {
    this.#socket?.send(JSON.stringify(message));
  }

  /** @param {string} text */
  write(text) {
    this.#socket?.send(text);
  }

  /** Send a message that the hub confirms. @param {object} message @param {Settle} settle */
  ask(message, settle) {
    this.send({ ...message, request: this.confirmations.number(settle) });
  }

  /** The hub has rejected something without a request here: continue without the wishes of the hello. */
  refused() {
    if (this.#isHelloPending) this.#granted();
  }

  /** Make a connection; with a function for tokens, of a fresh token. */
  #dial() {
    this.#state = "connecting";
    this.#dialled += 1;
    if (!this.#tokens.isRenewable) return this.#connect(this.#tokens.lasting);
    const number = this.#dialled;
    const isCurrent = () => number === this.#dialled && this.#state === "connecting";
    this.#tokens.fresh().then((token) => {
      if (isCurrent()) this.#connect(token);
    }, (error) => {
      if (!isCurrent()) return;
      this.#state = "waiting";
      this.#reports.report(error);
      this.#retry();
    });
    return undefined;
  }

  /** @param {string} [token] */
  #connect(token) {
    const { name, queue, narrow, answerMs } = this.#options;
    /** @type {object} */
    let hello = { name, queue, token: token || undefined, narrow };
    const socket = new this.#WebSocket(this.#url, [SUBPROTOCOL]);
    this.#socket = socket;
    this.#receivedAt = this.#pingedAt = now(); // the attempt counts as a ping: no greeting in time, no connection
    this.#spared = false;
    socket.onmessage = (/** @type {{data: string}} */ event) => {
      this.#received(event.data, hello);
      if (this.#welcome !== null) hello = {}; // the token is forgotten
    };
    socket.onclose = (/** @type {{code: number, reason: string}} */ event) => this.#lost(event.code, event.reason);
    // Some implementations report a failed attempt by `error` alone; where `close` follows it comes first.
    socket.onerror = () => setTimeout(() => this.#abandon(socket, "connection failed"), 0);
    this.#watch(answerMs);
  }

  /** @param {string} text @param {object} hello To send after the greeting. */
  #received(text, hello) {
    this.#receivedAt = now();
    this.#pingedAt = 0;
    try {
      const message = JSON.parse(text);
      if (message.type === "welcome") this.#welcomed(message, hello);
      else this.#owner.heard(message, text.length);
    } catch (error) {
      const reason = error instanceof Error ? error.message : error;
      this.#reports.report(new HubError(1007, `the hub sent something not understood: ${reason}`));
    }
  }

  /** @param {Welcome} message @param {object} hello */
  #welcomed(message, hello) {
    const first = this.#welcome === null;
    this.#welcome = message;
    if (!first) return this.#granted();
    this.#openedAt = now();
    // A hub with users accepts only small messages before a hello.
    this.#isHelloPending = [...Object.values(hello), message.anonymous].some((reason) => reason !== undefined);
    if (this.#isHelloPending) this.send({ type: "hello", ...hello });
    this.#state = "open";
    this.connections += 1;
    this.#owner.opened(message);
    return this.#isHelloPending ? undefined : this.#granted();
  }

  #granted() {
    const welcome = /** @type {Welcome} */ (this.#welcome);
    this.#isHelloPending = false;
    this.#tokens.granted(welcome.until, (token, settle) => this.ask({ type: "token", token }, settle));
    this.#ready.resolve(welcome);
    this.#reports.emit("open", welcome);
  }

  /** Send a ping now, unless a pong is due already. */
  #ping() {
    if (this.#pingedAt !== 0) return;
    this.#pingedAt = now();
    this.#spared = false;
    this.send({ type: "ping", request: this.confirmations.number() });
    this.#watch(this.#options.answerMs);
  }

  /** @param {number} leftMs */
  #watch(leftMs) {
    clearTimeout(this.#timer);
    const delayMs = Math.min(leftMs, this.#options.silenceMs); // a message meanwhile starts the next silence
    const dueAt = now() + delayMs;
    this.#timer = setTimeout(() => this.#check(now() - dueAt), delayMs);
  }

  /** A late check does not judge: the pong may be queued. @param {number} lateMs */
  #check(lateMs) {
    const { silenceMs, answerMs } = this.#options;
    if (this.#pingedAt === 0) {
      const leftMs = this.#receivedAt + silenceMs - now();
      if (leftMs <= 0) this.#ping();
      else this.#watch(leftMs);
    } else if (now() < this.#pingedAt + answerMs) {
      this.#watch(this.#pingedAt + answerMs - now());
    } else if (lateMs > answerMs && !this.#spared) {
      this.#spared = true;
      this.#watch(answerMs);
    } else {
      this.#abandon(this.#socket, `no answer from the hub for ${answerMs} ms`);
    }
  }

  /** @param {Socket | null} socket @param {string} reason */
  #abandon(socket, reason) {
    if (socket === null || socket !== this.#socket) return;
    this.#lost(1006, reason);
    socket.close();
  }

  /** @param {number} code @param {string} reason */
  #lost(code, reason) {
    const socket = /** @type {Socket} */ (this.#socket);
    const isGranted = this.#welcome !== null && !this.#isHelloPending;
    socket.onmessage = socket.onclose = null;
    socket.onerror = () => {};
    clearTimeout(this.#timer);
    this.#socket = this.#welcome = null;
    this.#isHelloPending = false;
    if (this.#state === "closed") return this.#over(code, reason);
    if (this.#state === "open") {
      if (isGranted) this.#ready = handled(deferred());
      this.#backoff.lived(now() - this.#openedAt);
    }
    this.#state = "waiting";
    this.confirmations.lose(new HubError(1006, "connection lost before the hub confirmed; it may have taken it"));
    this.#owner.lost();
    this.#reports.emit("close", code, reason);
    if (this.#tokens.isFinal(code)) this.#giveUp(new HubError(code, reason));
    else this.#retry(retryAfterMs(code, reason));
    return undefined;
  }

  /** @param {number | null} [askedMs] */
  #retry(askedMs) {
    if (this.#state !== "waiting") return; // a listener closed the client
    this.#reports.emit("reconnecting", this.#backoff.wait(() => this.#dial(), askedMs));
  }

  /** The network or the reader is back: connect soon when waiting, else ping the hub. */
  #woken() {
    if (globalThis.document?.visibilityState === "hidden") return;
    if (this.#state === "waiting") {
      this.#backoff.restart();
      this.#retry();
    } else if (this.#state === "open") {
      this.#ping();
    }
  }

  /** Close for good. */
  close() {
    this.#cease(new HubError(1000, "this client is closed"));
    const socket = this.#socket;
    if (socket === null) return this.#over(1000, "");
    clearTimeout(this.#timer);
    socket.onmessage = null;
    socket.close(1000, "");
    /** @type {unknown} */
    const timer = setTimeout(() => this.#abandon(socket, "no answer to the close"), CLOSE_MS);
    /** @type {{unref?: () => void}} */ (timer).unref?.(); // Node does not wait for it
    return undefined;
  }

  /** @param {Error} error */
  #giveUp(error) {
    if (this.#state === "closed") return; // a listener has closed the client
    this.#cease(error);
    this.#closed.resolve();
    this.#reports.report(error);
  }

  /** @param {Error} error */
  #cease(error) {
    this.#state = "closed";
    this.#ended = error;
    this.#backoff.stop();
    globalThis.removeEventListener?.("online", this.#wake);
    globalThis.document?.removeEventListener("visibilitychange", this.#wake);
    this.confirmations.lose(error);
    this.#owner.finish(error);
    this.#ready.reject(error);
    this.#ready = handled(deferred());
    this.#ready.reject(error);
  }

  /** @param {number} code @param {string} reason */
  #over(code, reason) {
    this.#reports.emit("close", code, reason);
    this.#closed.resolve();
  }
}

// How long a client waits before it dials again.

/** A connection that lived this long was a good one: the backoff starts from its base again, milliseconds. */
const SETTLED_MS = 5_000;

/** Until a client has waited so long since its last good connection, it waits for the other at most at a time, if not for its base. */
const EARLY_MS = 60_000;
const EARLY_CAP_MS = 5_000;

/** Codes of a hub that may say when to come back: it stops, or is full. */
const NOT_NOW = [1001, 1013];

/** The longest wait that a hub can ask for, milliseconds. */
const RETRY_MS = 3_600_000;

/** Full jitter: anything between nothing and the doubling bound, so that a thousand clients do not return as one. */
class Backoff {
  #bounds;
  #attempts = 0;
  #waitedMs = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer;

  /** @param {Required<Bounds>} bounds */
  constructor(bounds) {
    this.#bounds = bounds;
  }

  /**
   * Call `dial` in time, and return in how many milliseconds that is.
   * @param {() => void} dial
   * @param {number | null} [askedMs] How long the hub asks to wait.
   */
  wait(dial, askedMs = null) {
    const { baseMs, capMs, random } = this.#bounds;
    const mostMs = this.#waitedMs >= EARLY_MS ? capMs : Math.min(capMs, Math.max(EARLY_CAP_MS, baseMs));
    const delayMs = askedMs ?? random() * Math.min(mostMs, baseMs * 2 ** this.#attempts);
    if (askedMs === null) {
      this.#attempts += 1;
      this.#waitedMs += delayMs;
    }
    this.#timer = setTimeout(dial, delayMs);
    return delayMs;
  }

  /** A connection has ended that was there for so long. @param {number} ms */
  lived(ms) {
    if (ms >= SETTLED_MS) this.#attempts = this.#waitedMs = 0;
  }

  /** Wait no longer; the next wait is as the first one. */
  restart() {
    this.stop();
    this.#attempts = this.#waitedMs = 0;
  }

  stop() {
    clearTimeout(this.#timer);
  }
}

// How long a hub asks to wait before coming back, milliseconds; null if the reason of its close does not say so.
/** @param {number} code @param {string} reason */
function retryAfterMs(code, reason) {
  const found = NOT_NOW.includes(code) ? /; retry after (\d{1,6}(?:\.\d{1,3})?) s$/.exec(reason) : null;
  return found && Math.min(Number(found[1]) * 1_000, RETRY_MS);
}

// What the hub is to confirm, by its number.

/**
 * @typedef {{text?: string, offset?: number, until?: number}} Answer
 *   What a hub confirms with. `offset`: Of the journal. `until`: How many seconds a fresh token holds.
 * @typedef {(error: Error | null, lost: boolean, answer: Answer) => void} Settle Called with what has become of it: `lost`
 *   says that the connection was.
 */

class Confirmations {
  #last = 0;
  /** @type {Map<number, Settle>} By number. */
  #waiting = new Map();

  get size() { return this.#waiting.size; }

  /** The next number, without a waiting caller unless there is `settle`. @param {Settle} [settle] */
  number(settle) {
    this.#last += 1;
    if (settle) this.#waiting.set(this.#last, settle);
    return this.#last;
  }

  // Returns whether somebody has waited for it.
  /** @param {number} number @param {Error | null} error @param {Answer} [answer] */
  settle(number, error, answer = {}) {
    const settle = this.#waiting.get(number);
    if (settle === undefined) return false;
    this.#waiting.delete(number);
    settle(error, false, answer);
    return true;
  }

  /** The connection is lost: it is unknown what the hub has read. @param {Error} error */
  lose(error) {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const settle of waiting) settle(error, true, {});
  }
}

// Where a hub is.

/** The URL of a hub, which may be relative to that of a module. @param {string} url @param {string} base */
export function endpoint(url, base) {
  const target = new URL(url, base);
  target.protocol = target.protocol.replace(/^http/, "ws");
  target.hash = "";
  if (target.pathname === "/") target.pathname = "/v1/hub";
  if (!/^wss?:$/.test(target.protocol)) throw new TypeError(`not the URL of a hub: ${target}`);
  return target.href;
}

// The options of a client, and their defaults.

/**
 * @typedef {Required<Pick<Options, "outboundBytes" | "silenceMs" | "answerMs">> & Options & {backoff: Required<Bounds>}} Settled
 */

const DEFAULTS = Object.freeze({
  name: undefined,
  queue: undefined,
  token: undefined,
  narrow: undefined,
  outboundBytes: 16 * 1024 * 1024, // the largest message that a hub takes must fit
  silenceMs: 20_000, // the hub's own figures
  answerMs: 10_000,
  backoff: Object.freeze({ baseMs: 100, capMs: 30_000, random: Math.random }),
});

/** @param {Options} options @returns {Settled} */
export function settled(options) {
  return { ...DEFAULTS, ...options, backoff: { ...DEFAULTS.backoff, ...options.backoff } };
}
