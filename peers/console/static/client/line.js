/**
 * The line to a hub, over as many connections as it takes.
 *
 * ```
 * connecting ── welcome ──▶ open ── lost ──▶ waiting ── in time ──▶ connecting      closed: by `close`, or refused for good
 * ```
 *
 * Owner of the state: `Line`, of one client. It owns at most one connection: a new one is made only after the last is over.
 * Invariant: after `close()` nothing is sent, told or opened again, but for the end of the connection. Not here: what is
 * said over it (`exchange.js` and its parts).
 */

import { Backoff, retryAfterMs } from "./backoff.js";
import { Confirmations } from "./confirmations.js";
import { Connection } from "./connection.js";
import { HubError } from "./errors.js";
import { TokenSource } from "./token_source.js";
import { deferred, handled } from "./waiting.js";

/**
 * @import { Statistics, Welcome } from "../hub.js"
 * @import { Settle } from "./confirmations.js"
 * @import { Settled } from "./options.js"
 * @import { Reports } from "./reports.js"
 * @import { Deferred } from "./waiting.js"
 *
 * @typedef {object} Part One of the things that a client and its hub talk about, as the life of the line goes on.
 * @property {(welcome: Welcome) => void} opened There is a connection: say over it what still holds.
 * @property {() => void} lost It is lost.
 * @property {(error: Error) => void} finish The client does nothing any more: tell all who wait why. Once.
 *
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
  /** @type {Statistics["state"]} */
  #state = "connecting";
  /** @type {Connection | null} */
  #connection = null;
  #dialled = 0; // how often a connection was begun: what an earlier attempt was given comes too late
  /** @type {Error | null} Why the line is closed. */
  #ended = null;
  /** @type {Deferred<Welcome>} */
  #ready = handled(deferred());
  /** @type {Deferred<void>} */
  #closed = deferred();
  #wake = () => this.#woken();

  /**
   * @param {string} url
   * @param {Settled} options
   * @param {TokenSource} tokens
   * @param {Reports} reports
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

  get state() {
    return this.#state;
  }

  get isOpen() {
    return this.#state === "open";
  }

  /** Whether what is written goes out: an open connection may be about to end. */
  get isSending() {
    return this.isOpen && this.#connection !== null && this.#connection.isSending;
  }

  /** What the hub that is connected says of itself. */
  get welcome() {
    return this.#connection?.welcome ?? null;
  }

  /** Bytes that the socket has not sent yet. */
  get bufferedBytes() {
    return this.#connection?.bufferedBytes ?? 0;
  }

  /** A promise that the hub has greeted us, and granted what was wished for. */
  get ready() {
    return this.#ready.promise;
  }

  /** A promise that the line is closed, and its connection over. */
  get closed() {
    return this.#closed.promise;
  }

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

  /**
   * Send what the hub is to confirm.
   *
   * @param {object} message
   * @param {Settle} settle
   */
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

  /**
   * @param {number} code
   * @param {string} reason
   */
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

  /**
   * Do nothing any more, and tell all who wait why.
   *
   * @param {Error} error
   */
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

  /**
   * @param {number} code
   * @param {string} reason
   */
  #over(code, reason) {
    this.#reports.emit("close", code, reason);
    this.#closed.resolve();
  }
}
