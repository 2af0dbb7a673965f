/**
 * The line to a hub, over as many connections as it takes, at most one at a time.
 *
 * ```
 * connecting ── welcome ──▶ open ── lost ──▶ waiting ── in time ──▶ connecting      closed: by `close`, or refused for good
 * ```
 */

import { HubError } from "./errors.js";
import { TokenSource } from "./tokens.js";
import { deferred, handled, now } from "./waiting.js";

/**
 * @import { Backoff as Bounds, Options, Socket, Statistics, Welcome } from "../hub.js"
 * @import { Reports } from "./reports.js"
 * @import { Deferred } from "./waiting.js"
 */

/**
 * @typedef {object} Part One of the things that a client and its hub talk about, as the life of the line goes on.
 * @property {(welcome: Welcome) => void} opened There is a connection: say over it what still holds.
 * @property {() => void} lost It is lost.
 * @property {(error: Error) => void} finish The client does nothing any more: tell all who wait why. Once.
 * @typedef {object} More What there is to tell, beside that, to the one that has all parts.
 * @property {(message: any, characters: number) => void} heard
 * @property {(welcome: Welcome) => void} granted
 */

const SUBPROTOCOL = "hub.v1.json";

export class Line {
  connections = 0;
  confirmations = new Confirmations();
  #url;
  #options;
  #WebSocket;
  #tokens;
  #reports;
  #told;
  #backoff;
  /** @type {Statistics["state"]} */ #state = "connecting";
  /** @type {Connection | null} */ #connection = null;
  #dialled = 0; // how often a connection was begun: what an earlier attempt was given comes too late
  /** @type {Error | null} Why the line is closed. */
  #ended = null;
  /** @type {Deferred<Welcome>} */ #ready = handled(deferred());
  /** @type {Deferred<void>} */ #closed = deferred();
  #wake = () => this.#woken();

  /**
   * @param {string} url @param {Settled} options @param {TokenSource} tokens @param {Reports} reports
   * @param {Part & More} told
   */
  constructor(url, options, tokens, reports, told) {
    this.#url = url;
    this.#options = options;
    this.#WebSocket = options.WebSocket ?? globalThis.WebSocket;
    if (!this.#WebSocket) throw new TypeError("no WebSocket here: Node 22 has one; else pass one as the option WebSocket");
    this.#tokens = tokens;
    this.#reports = reports;
    this.#told = told;
    this.#backoff = new Backoff(options.backoff);
  }

  get state() { return this.#state; }

  get isOpen() { return this.#state === "open"; }

  /** Whether what is written goes out: an open connection may be about to end. */
  get isSending() { return this.isOpen && this.#connection !== null && this.#connection.isSending; }

  /** What the hub that is connected says of itself. */
  get welcome() { return this.#connection?.welcome ?? null; }

  /** Bytes that the socket has not sent yet. */
  get bufferedBytes() { return this.#connection?.bufferedBytes ?? 0; }

  /** A promise that the hub has greeted us, and granted what was wished for. */
  get ready() { return this.#ready.promise; }

  /** A promise that the line is closed, and its connection over. */
  get closed() { return this.#closed.promise; }

  assertNotClosed() {
    if (this.#state === "closed") throw this.#ended;
  }

  /** Begin. Whoever is told of it must be there. */
  begin() {
    globalThis.addEventListener?.("online", this.#wake);
    globalThis.document?.addEventListener("visibilitychange", this.#wake);
    this.#dial();
  }

  // --- what is said -------------------------------------------------------------------------------------------------

  /** @param {object} message */
  send(message) {
    this.#connection?.send(message);
  }

  /** @param {string} text */
  write(text) {
    this.#connection?.write(text);
  }

  /** Send what the hub is to confirm. @param {object} message @param {Settle} settle */
  ask(message, settle) {
    this.send({ ...message, request: this.confirmations.number(settle) });
  }

  /** The hub has refused something that nobody here has asked for: it may be what was wished for at the beginning. */
  refused() {
    this.#connection?.refused();
  }

  // --- connections --------------------------------------------------------------------------------------------------

  /** Make a connection; first ask for a fresh token, where there is a function for that. */
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
    const socket = new this.#WebSocket(this.#url, [SUBPROTOCOL]);
    this.#connection = new Connection(socket, token || undefined, this.#options, () => this.confirmations.number(), {
      opened: (welcome) => this.#opened(welcome),
      granted: (welcome) => this.#granted(welcome),
      heard: this.#told.heard,
      unclear: (error) => this.#reports.report(error),
      lost: (code, reason) => this.#lost(code, reason),
    });
  }

  /** @param {Welcome} welcome */
  #opened(welcome) {
    this.#state = "open";
    this.connections += 1;
    this.#told.opened(welcome);
  }

  /** @param {Welcome} welcome */
  #granted(welcome) {
    this.#tokens.recognised();
    this.#told.granted(welcome);
    this.#ready.resolve(welcome);
    this.#reports.emit("open", welcome);
  }

  /** @param {number} code @param {string} reason */
  #lost(code, reason) {
    const connection = /** @type {Connection} */ (this.#connection);
    this.#connection = null;
    if (this.#state === "closed") return this.#over(code, reason);
    if (this.#state === "open") {
      if (connection.isGranted) this.#ready = handled(deferred());
      this.#backoff.lived(connection.openMs);
    }
    this.#state = "waiting";
    this.confirmations.lose(new HubError(1006, "connection lost before the hub confirmed; it may have taken it"));
    this.#told.lost();
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

  /** The network or the reader is back: try soon when waiting, else ask the hub whether it is still there. */
  #woken() {
    if (globalThis.document?.visibilityState === "hidden") return;
    if (this.#state === "waiting") {
      this.#backoff.restart();
      this.#retry();
    } else if (this.#state === "open") {
      this.#connection?.ask();
    }
  }

  // --- the end ------------------------------------------------------------------------------------------------------

  /** Close for good. */
  close() {
    this.#cease(new HubError(1000, "this client is closed"));
    if (this.#connection === null) this.#over(1000, "");
    else this.#connection.close();
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
    this.#told.finish(error);
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

// One connection: a socket, the greeting over it, its heartbeat and its end.

/**
 * @typedef {object} Told Who is told of it.
 * @property {(welcome: Welcome) => void} opened The hub has greeted us, and can be talked to.
 * @property {(welcome: Welcome) => void} granted It has granted what the hello wished for, as far as it does.
 * @property {(message: any, characters: number) => void} heard It has said something else.
 * @property {(error: Error) => void} unclear It has said something that is not understood.
 * @property {(code: number, reason: string) => void} lost The connection is over.
 */

/** `readyState` of a socket that sends; the name is not on every implementation of WebSocket. */
const OPEN = 1;

/** How long `close()` waits for the hub's answer, milliseconds. */
const CLOSE_MS = 2_000;

class Connection {
  /** @type {Welcome | null} */ welcome = null;
  #socket;
  /** @type {object} */ #hello;
  #told;
  #silence;
  #helloPending = false;
  #openedAt = 0;
  #isOver = false;

  /**
   * @param {Socket} socket @param {string | undefined} token @param {Settled} options
   * @param {() => number} number Gives the number of a ping.
   * @param {Told} told
   */
  constructor(socket, token, options, number, told) {
    const { name, queue, narrow } = options;
    this.#hello = { name, queue, token, narrow };
    this.#socket = socket;
    this.#told = told;
    this.#silence = new Silence(options, () => this.send({ type: "ping", request: number() }), (reason) => this.#abandon(reason));
    socket.onmessage = (/** @type {{data: string}} */ event) => this.#received(event.data);
    socket.onclose = (/** @type {{code: number, reason: string}} */ event) => this.#end(event.code, event.reason);
    // Some implementations tell of a failed attempt by `error` alone; where `close` follows it comes first.
    socket.onerror = () => setTimeout(() => this.#abandon("connection failed"), 0);
    this.#silence.begin();
  }

  /** Whether the hub has granted what was wished for, or was not wished for anything. */
  get isGranted() { return this.welcome !== null && !this.#helloPending; }

  /** How long it has been open, milliseconds. */
  get openMs() { return now() - this.#openedAt; }

  get isSending() { return this.#socket.readyState === OPEN; }

  get bufferedBytes() { return this.#socket.bufferedAmount; }

  /** @param {object} message */
  send(message) {
    this.#socket.send(JSON.stringify(message));
  }

  /** @param {string} text */
  write(text) {
    this.#socket.send(text);
  }

  /** Ask the hub whether it is still there. */
  ask() {
    this.#silence.ask();
  }

  /** The hub has refused something that nothing else has asked for: go on without what the hello wished for. */
  refused() {
    if (this.#helloPending) this.#granted();
  }

  /** Hear nothing more, say that it is over, and wait for the hub's answer, not for ever. */
  close() {
    this.#silence.stop();
    this.#socket.onmessage = null;
    this.#socket.close(1000, "");
    /** @type {unknown} */
    const timer = setTimeout(() => this.#abandon("no answer to the close"), CLOSE_MS);
    /** @type {{unref?: () => void}} */ (timer).unref?.(); // in Node it holds nobody up
  }

  /** @param {string} text */
  #received(text) {
    this.#silence.heard();
    try {
      const message = JSON.parse(text);
      if (message.type === "welcome") this.#welcomed(message);
      else this.#told.heard(message, text.length);
    } catch (error) {
      const reason = error instanceof Error ? error.message : error;
      this.#told.unclear(new HubError(1007, `the hub sent something not understood: ${reason}`));
    }
  }

  /** @param {Welcome} message */
  #welcomed(message) {
    const first = this.welcome === null;
    this.welcome = message;
    if (!first) return this.#granted();
    this.#openedAt = now();
    // To a hub with users a client that has said nothing is a stranger, whose messages must be small.
    this.#helloPending = [...Object.values(this.#hello), message.strangers].some((reason) => reason !== undefined);
    if (this.#helloPending) this.send({ type: "hello", ...this.#hello });
    this.#hello = {}; // the token is forgotten
    this.#told.opened(message);
    return this.#helloPending ? undefined : this.#granted();
  }

  #granted() {
    this.#helloPending = false;
    this.#told.granted(/** @type {Welcome} */ (this.welcome));
  }

  /** @param {string} reason */
  #abandon(reason) {
    if (this.#isOver) return;
    this.#end(1006, reason);
    this.#socket.close();
  }

  /** @param {number} code @param {string} reason */
  #end(code, reason) {
    const socket = this.#socket;
    this.#isOver = true;
    socket.onmessage = socket.onclose = null;
    socket.onerror = () => {};
    this.#silence.stop();
    this.#told.lost(code, reason);
  }
}

// Whether the hub is still there: asked after a silence, given up without an answer.

class Silence {
  #options;
  #ping;
  #gone;
  #receivedAt = 0;
  #pingedAt = 0; // 0: no answer is due
  #spared = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer;

  /**
   * @param {{silenceMs: number, answerMs: number}} options
   * @param {() => void} ping Asks the hub.
   * @param {(reason: string) => void} gone Called when it has not answered.
   */
  constructor(options, ping, gone) {
    this.#options = options;
    this.#ping = ping;
    this.#gone = gone;
  }

  /** Another connection is made. The attempt counts as a ping: no greeting in time, no connection. */
  begin() {
    this.#spared = false;
    this.#pingedAt = this.#receivedAt = now();
    this.#watch(this.#options.answerMs);
  }

  /** Something has come. */
  heard() {
    this.#receivedAt = now();
    this.#pingedAt = 0;
  }

  /** Ask now, unless an answer is due already. */
  ask() {
    if (this.#pingedAt !== 0) return;
    this.#pingedAt = now();
    this.#spared = false;
    this.#ping();
    this.#watch(this.#options.answerMs);
  }

  stop() {
    clearTimeout(this.#timer);
  }

  /** @param {number} leftMs */
  #watch(leftMs) {
    clearTimeout(this.#timer);
    const delayMs = Math.min(leftMs, this.#options.silenceMs); // an answer in between starts the next silence
    const dueAt = now() + delayMs;
    this.#timer = setTimeout(() => this.#check(now() - dueAt), delayMs);
  }

  /** A late check does not judge: the answer may be queued. @param {number} lateMs */
  #check(lateMs) {
    const { silenceMs, answerMs } = this.#options;
    if (this.#pingedAt === 0) {
      const leftMs = this.#receivedAt + silenceMs - now();
      if (leftMs <= 0) this.ask();
      else this.#watch(leftMs);
    } else if (now() < this.#pingedAt + answerMs) {
      this.#watch(this.#pingedAt + answerMs - now());
    } else if (lateMs > answerMs && !this.#spared) {
      this.#spared = true;
      this.#watch(answerMs);
    } else {
      this.#gone(`no answer from the hub for ${answerMs} ms`);
    }
  }
}
