/**
 * The messages of a subscription to iterate over, with a bounded buffer: the oldest live messages are dropped and counted; a
 * journal is read no further.
 */

import { HubError } from "./errors.js";
import { deferred } from "./waiting.js";

/**
 * @import { Message } from "../hub.js"
 * @import { Subscription } from "./subscriptions.js"
 * @import { Deferred } from "./waiting.js"
 */

export const STREAM_DEFAULTS = Object.freeze({ bufferMessages: 8_192, bufferBytes: 64 * 1024 * 1024 });

/** What `client.messages()` returns: an async iterator over a buffer that drops its oldest when it is full. */
export class MessageStream {
  dropped = 0;
  /** @type {Subscription} Set by whoever made both. */
  subscription;
  #options;
  #skipped;
  /** @type {({message: Message, size: number} | undefined)[]} From `#head` on. */
  #buffer = [];
  #head = 0;
  #bytes = 0;
  /** @type {Deferred<IteratorResult<Message>>[]} */ #takers = [];
  #ended = false;
  /** @type {Error | null} */ #error = null;
  /** @type {Deferred<void> | null} Of who waits for room. */
  #relieved = null;

  /**
   * @param {{bufferMessages: number, bufferBytes: number}} options
   * @param {((count: number) => void) | null} skipped Is told of what is dropped; null: nothing is, who fills it waits for room.
   */
  constructor(options, skipped) {
    this.#options = options;
    this.#skipped = skipped;
  }

  get confirmed() { return this.subscription.confirmed; }

  /** @param {Message} message @param {number} size */
  push(message, size) {
    const taker = this.#takers.shift();
    if (taker) return taker.resolve({ value: message, done: false });
    this.#buffer.push({ message, size });
    this.#bytes += size;
    const { bufferMessages, bufferBytes } = this.#options;
    while (this.#skipped && (this.#buffer.length - this.#head > bufferMessages || this.#bytes > bufferBytes)) {
      this.#shift();
      this.dropped += 1;
      this.#skipped(1);
    }
    return undefined;
  }

  /** A promise while more than half of what may wait does; for who can wait with more. */
  room() {
    if (this.#ended || this.#hasRoom()) return undefined;
    this.#relieved = deferred();
    return this.#relieved.promise;
  }

  // What is buffered can still be taken; then the iteration ends, with the error if the hub refused us.
  /** @param {Error | null} error */
  end(error) {
    this.#ended = true;
    this.#relieved?.resolve();
    this.#error = error instanceof HubError && error.code === 1000 ? null : error;
    for (const taker of this.#takers.splice(0)) this.#finish(taker);
  }

  /** @returns {Promise<IteratorResult<Message>>} */
  next() {
    if (this.#head < this.#buffer.length) return Promise.resolve({ value: this.#shift(), done: false });
    /** @type {Deferred<IteratorResult<Message>>} */
    const taker = deferred();
    if (this.#ended) this.#finish(taker);
    else this.#takers.push(taker);
    return taker.promise;
  }

  /** @returns {Promise<IteratorResult<Message>>} */
  async return() {
    this.#buffer.length = this.#head = this.#bytes = 0;
    this.#relieved?.resolve();
    await this.subscription.unsubscribe();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** @param {Deferred<IteratorResult<Message>>} taker */
  #finish(taker) {
    if (this.#error) taker.reject(this.#error);
    else taker.resolve({ value: undefined, done: true });
    this.#error = null;
  }

  #hasRoom() {
    const { bufferMessages, bufferBytes } = this.#options;
    return this.#buffer.length - this.#head <= bufferMessages / 2 && this.#bytes <= bufferBytes / 2;
  }

  /** Amortised O(1): the taken front is cut off once it is as long as the buffer may be. */
  #shift() {
    const { message, size } = /** @type {{message: Message, size: number}} */ (this.#buffer[this.#head]);
    this.#buffer[this.#head] = undefined;
    this.#head += 1;
    this.#bytes -= size;
    if (this.#hasRoom()) this.#relieved?.resolve();
    if (this.#head === this.#buffer.length || this.#head > this.#options.bufferMessages) {
      this.#buffer = this.#buffer.slice(this.#head);
      this.#head = 0;
    }
    return message;
  }
}
