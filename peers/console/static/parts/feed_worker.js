/**
 * A thread that follows messages for the page: it reads, counts and samples, so that the page draws what can be seen
 * however fast they come. `Feed` (`feed.js`) is its face in the page; what both say is told there.
 *
 * Owner of the state: this thread: a connection of its own, and at most one subscription and one reading of the journal.
 * Invariants: whatever is told of an earlier subscription or reading bears its number, by which the page leaves it out.
 */

import { connect } from "../hub.js";
import { Fields } from "./fields.js";
import { Sampler, isFound, rowOf } from "./sampler.js";
import { TopicCounts } from "./topic_counts.js";

/** How often rows are told, and how often topics and fields, milliseconds. */
const ROWS_MS = 50;
const SUMS_MS = 500;

/** Values that are looked at for their fields in so many milliseconds. */
const LOOKED_AT = 50;

/** What begins so is the hub's own; it is shown to those who ask for it, lest it fill the view of an idle hub. */
const RESERVED = "$hub/";

/** Of the journal: rows that are told at once, and records that are looked at for them. */
const HISTORY_ROWS = 500;
const HISTORY_RECORDS = 200_000;

let client = null;
let followed = null; // {number, subscription, sampler, counts, fields, looked, stop}
let reading = 0; // number of the reading that goes on

const commands = {
  open({ token }) {
    client = connect("/", { name: "console, messages", token, narrow: true });
    client.on("dropped", (count) => postMessage({ kind: "dropped", number: followed?.number ?? 0, count }));
    client.on("error", (error) => tellProblem(followed?.number ?? 0, error));
    client.on("open", () => postMessage({ kind: "open" }));
  },

  follow({ number, prefix, labels, exact, search, held, withFields }) {
    stop();
    const sampler = new Sampler();
    const counts = new TopicCounts(performance.now());
    sampler.search(search ?? "");
    sampler.held = held ?? false;
    followed = { number, sampler, counts, fields: withFields ? new Fields() : null, looked: 0, subscription: null, told: 0 };
    const hidesHub = !prefix.startsWith("$");
    const mine = followed;
    try {
      const what = labels?.length ? { labels, prefix } : prefix;
      mine.subscription = client.subscribe(what, (message) => {
        if (hidesHub && message.topic.startsWith(RESERVED)) return;
        if (exact && message.topic !== prefix) return;
        const at = Date.now();
        sampler.add({ ...message, at });
        counts.add(message.topic);
        if (mine.fields && mine.looked < LOOKED_AT) {
          mine.looked += 1;
          mine.fields.add(message.value);
        }
      });
    } catch (error) {
      tellProblem(number, error);
      return;
    }
    mine.subscription.confirmed.then(() => postMessage({ kind: "confirmed", number }), () => {});
    const timers = [setInterval(() => tellRows(mine), ROWS_MS), setInterval(() => tellSums(mine), SUMS_MS)];
    mine.stop = () => timers.forEach(clearInterval);
  },

  stop,

  search({ text }) {
    followed?.sampler.search(text);
  },

  hold({ held }) {
    if (followed) followed.sampler.held = held;
  },

  /** The oldest record under a prefix: when it was recorded, and its offset. */
  async range({ number, prefix }) {
    try {
      for await (const { offset, time } of client.read(prefix, { startTime: new Date(0), columns: ["offset", "time"] })) {
        postMessage({ kind: "range", number, oldest: { offset, at: Number(time) } });
        return;
      }
      postMessage({ kind: "range", number, oldest: null });
    } catch (error) {
      tellProblem(number, error);
    }
  },

  async history({ number, prefix, search, offset, at }) {
    reading = number;
    const wanted = (search ?? "").toLowerCase();
    const rows = [];
    let looked = 0;
    let next = offset ?? null;
    try {
      for await (const record of client.read(prefix, at === undefined ? { start: offset } : { startTime: new Date(at) })) {
        if (reading !== number) return;
        looked += 1;
        next = record.offset + 1;
        if (!wanted || isFound(record, wanted)) {
          rows.push(rowOf({ topic: record.topic, value: record.value, offset: record.offset, at: Number(record.time) }));
        }
        if (rows.length === HISTORY_ROWS || looked === HISTORY_RECORDS) {
          postMessage({ kind: "history", number, rows, looked, next, more: true });
          return;
        }
      }
      if (reading === number) postMessage({ kind: "history", number, rows, looked, next, more: false });
    } catch (error) {
      if (reading === number) tellProblem(number, error);
    }
  },
};

function stop() {
  followed?.stop?.();
  followed?.subscription?.unsubscribe();
  followed = null;
  reading = 0;
}

function tellRows(mine) {
  const { sampler, number } = mine;
  const rows = sampler.take(performance.now());
  if (sampler.received === mine.told && rows.length === 0) return;
  mine.told = sampler.received;
  const { received, matched, taken } = sampler;
  postMessage({ kind: "rows", number, rows, received, matched, taken });
}

function tellSums(mine) {
  const { counts, fields, number } = mine;
  postMessage({ kind: "topics", number, ...counts.top(performance.now()) });
  if (!fields) return;
  mine.looked = 0;
  postMessage({ kind: "fields", number, fields: fields.list(), values: fields.values, leftOut: fields.leftOut });
}

function tellProblem(number, error) {
  postMessage({ kind: "problem", number, code: error.code ?? 0, message: String(error.message), first: error.first });
}

addEventListener("message", ({ data }) => commands[data.command](data));
