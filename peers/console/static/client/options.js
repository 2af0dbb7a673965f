/**
 * What a client is told at its beginning, and what holds where it is told nothing.
 *
 * Pure function.
 */

/**
 * @import { Backoff, Options } from "../hub.js"
 *
 * @typedef {Required<Pick<Options, "outboundBytes" | "silenceMs" | "answerMs">> & Options & {backoff: Required<Backoff>}} Settled
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

/**
 * @param {Options} options
 * @returns {Settled}
 */
export function settled(options) {
  return { ...DEFAULTS, ...options, backoff: { ...DEFAULTS.backoff, ...options.backoff } };
}
