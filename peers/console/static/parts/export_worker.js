/**
 * A thread that reads a range of the journal, and hands it to the page as bytes of NDJSON.
 *
 * ```
 * page ── begin, taken ──▶ thread ══ a connection of its own ══▶ hub
 *      ◀── piece, done, problem ──
 * ```
 *
 * The next piece comes when the page has taken the one before, however slow the disk is.
 */

import { connect, HubError } from "../hub.js";
import { reason } from "./figures.js";
import { isRounded, lineOf } from "./file_sink.js";

/**
 * @typedef {{records: number, first: number, next: number, at: number, rounded: number}} Progress
 *   `records`: How many were read. `first`: The offset of the first one. `next`: The one behind the last one. `at`:
 *   When the last one was recorded, milliseconds since 1970. `rounded`: How many have numbers that this browser has
 *   rounded.
 * @typedef {Progress & ({kind: "piece", bytes: Uint8Array<ArrayBuffer>} | {kind: "done"} | {kind: "problem", code: number, message: string})} Told
 * @typedef {{command: "begin", token: string | undefined, prefix: string, from: number | null,
 *   to: number | null}} Order
 *   `from`: Milliseconds since 1970; null: from the oldest record on. `to`: Likewise, without it; null: up to where
 *   the journal ends.
 */

/** A piece is handed over when it has so many characters, or after so long, milliseconds. */
const PIECE_CHARACTERS = 256 * 1024;
const PIECE_MS = 250;

const encoder = new TextEncoder();
let onTaken = () => {};

/** @param {Order} order */
async function begin({ token, prefix, from, to }) {
  const client = connect("/", { name: "console, export", token, narrow: true });
  const told = { records: 0, first: 0, next: 0, at: 0, rounded: 0 };
  /** @type {string[]} */
  let lines = [];
  let characters = 0;
  let since = performance.now();
  const hand = async () => {
    const bytes = encoder.encode(lines.join(""));
    lines = [];
    characters = 0;
    /** @type {Promise<void>} */
    const taken = new Promise((resolve) => { onTaken = resolve; });
    tell({ kind: "piece", bytes, ...told }, [bytes.buffer]);
    await taken;
    since = performance.now();
  };
  try {
    for await (const { topic, offset, time, value } of client.read(prefix, { startTime: new Date(from ?? 0) })) {
      const at = Number(time);
      if (to !== null && at >= to) break;
      const text = JSON.stringify(value);
      const line = lineOf({ topic, at, offset, text });
      lines.push(line);
      characters += line.length;
      if (told.records === 0) told.first = offset;
      told.records += 1;
      told.rounded += Number(isRounded(value, text));
      told.next = offset + 1;
      told.at = at;
      if (characters >= PIECE_CHARACTERS || performance.now() - since >= PIECE_MS) await hand();
    }
    if (lines.length > 0) await hand();
    tell({ kind: "done", ...told });
  } catch (error) {
    if (lines.length > 0) await hand();
    const code = error instanceof HubError ? error.code : 0;
    tell({ kind: "problem", code, message: reason(error), ...told });
  }
  await client.close();
}

/** @param {Told} told @param {Transferable[]} [transfer] */
function tell(told, transfer = []) {
  postMessage(told, { transfer });
}

addEventListener("message", (/** @type {MessageEvent<Order | {command: "taken"}>} */ { data }) => (data.command === "begin" ? begin(data) : onTaken()));
