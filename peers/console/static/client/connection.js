/**
 * One connection: a socket, the greeting over it, its heartbeat and its end.
 *
 * ```
 * dialled ── welcome ──▶ open ── welcome, where a hello was said ──▶ granted        over: once, from any of them
 * ```
 */

import { HubError } from "./errors.js";
import { now } from "./waiting.js";

/**
 * @import { Socket, Welcome } from "../hub.js"
 * @import { Settled } from "./line.js"
 */

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

export class Connection {
  /** @type {Welcome | null} */ welcome = null;
  #socket;
  /** @type {object} */ #hello;
  #told;
  #silence;
  #helloPending = false;
  #openedAt = 0;
  #isOver = false;

  /**
   * @param {Socket} socket
   * @param {string | undefined} token
   * @param {Settled} options
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

  // A late check does not judge: the answer may be queued.
  /** @param {number} lateMs */
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
