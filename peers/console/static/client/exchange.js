/**
 * The parts of a client, and the line that they share.
 *
 * ```
 *        ┌── subscriptions   services   names   journal   publishing   requests   renewal ───────┐
 *        │      ▲ messages of the hub, each to its part       their messages, once a turn ▼      │
 *        └── Line: opened ─▶ each part │ lost ─▶ each part │ closed, or refused for good: finish ┘
 * ```
 *
 * Once the line is open, subscriptions, services and names are sent before values that waited, and those before requests.
 */

import { checkedText } from "./checks.js";
import { HubError } from "./errors.js";
import { isLive, JournalAccess } from "./journal.js";
import { Line, settled } from "./line.js";
import { Names } from "./names.js";
import { Publishing } from "./publishing.js";
import { Reports } from "./reports.js";
import { Requests } from "./requests.js";
import { Services } from "./services.js";
import { Subscriptions } from "./subscriptions.js";
import { TokenRenewal, TokenSource } from "./tokens.js";
import { Turn } from "./waiting.js";

/**
 * @import { From, Options, Statistics, Wanted, Welcome } from "../hub.js"
 * @import { Part } from "./line.js"
 * @import { Reader } from "./subscriptions.js"
 */

export class Exchange {
  reports = new Reports();
  /** @type {readonly Part[]} */ #parts;
  #turn = new Turn(() => this.#write());

  /** @param {string} url @param {Options} given */
  constructor(url, given) {
    const options = settled(given);
    const tokens = new TokenSource(options);
    this.line = new Line(url, options, tokens, this.reports, {
      opened: (welcome) => this.#opened(welcome),
      granted: (welcome) => this.renewal.before(welcome.until),
      heard: (message, characters) => this.#heard(message, characters),
      lost: () => this.#parts.forEach((part) => part.lost()),
      finish: (error) => this.#parts.forEach((part) => part.finish(error)),
    });
    this.subscriptions = new Subscriptions(this.line, this.#turn, this.reports);
    this.services = new Services(this.line, this.#turn, this.reports);
    this.names = new Names(this.line, this.reports);
    this.journal = new JournalAccess(this.line, this.reports);
    this.publishing = new Publishing(options.outboundBytes, this.line, this.#turn);
    this.requests = new Requests(options, this.line, this.#turn);
    this.renewal = new TokenRenewal(tokens, options.backoff.random, this.line, this.reports);
    this.#parts = [
      this.subscriptions, this.services, this.names, this.journal, this.publishing, this.requests, this.renewal,
    ];
    this.line.begin();
  }

  // Subscribe to what comes, or from a place in the journal on.
  /** @param {Wanted} prefixes @param {From} from @param {Reader} reader */
  subscribe(prefixes, from, reader) {
    if (isLive(from)) return this.subscriptions.subscribe(prefixes, reader.deliver, reader.ended);
    return this.journal.follow(prefixes, from, reader);
  }

  /** @returns {Statistics} */
  statistics() {
    const { reports, line, subscriptions, publishing, requests } = this;
    return Object.freeze({
      state: line.state,
      hub: line.welcome?.hub ?? null,
      connections: line.connections,
      receivedMessages: subscriptions.receivedMessages,
      receivedBatches: subscriptions.receivedBatches,
      droppedMessages: reports.droppedMessages,
      skippedMessages: reports.skippedMessages,
      publishedMessages: publishing.publishedMessages,
      publishedBatches: publishing.publishedBatches,
      discardedMessages: publishing.discardedMessages,
      errors: reports.errors,
      prefixes: subscriptions.size,
      unconfirmed: line.confirmations.size,
      pendingRequests: requests.pending,
      outboundBytes: publishing.size + requests.size + line.bufferedBytes,
    });
  }

  /** Send what is ready to be sent, then close, for good. */
  close() {
    if (this.line.state !== "closed") {
      this.#turn.flush();
      this.line.close();
    }
    return this.line.closed;
  }

  /** @param {Welcome} welcome */
  #opened(welcome) {
    for (const part of this.#parts) part.opened(welcome);
    this.#turn.flush();
  }

  #write() {
    this.publishing.seal();
    if (!this.line.isSending) return;
    this.publishing.write();
    this.requests.write();
    this.services.write();
  }

  /** @param {any} message @param {number} characters */
  #heard(message, characters) {
    switch (message.type) {
      case "messages": return this.subscriptions.deliver(message, characters);
      case "confirmed": // the same, but for what stands in it
      case "recorded": return this.line.confirmations.settle(message.request, null, message);
      case "records": return this.journal.receive(message, characters);
      case "dropped": return this.reports.dropped(message.count);
      case "reply": return this.requests.answer(message);
      case "request": return this.services.receive(message);
      case "name": return this.names.stands(message);
      case "error": return this.#refused(message);
      default: return checkedText(message.type, "type of a message"); // pong, and what later hubs may say
    }
  }

  /** @param {{request: number, code: number, text: string, offset?: number, about?: string}} refusal */
  #refused({ request, code, text, offset, about }) {
    const error = new HubError(code, text, offset);
    if (about === "request" && this.requests.refuse(request, error)) return;
    if (this.line.confirmations.settle(request, error) || this.journal.refuse(request, error)) return;
    this.reports.report(error);
    this.line.refused();
  }
}
