/**
 * The thread of `Feed`: it reads, counts and samples, with one subscription and one reading of the journal at a time. Its
 * messages bear the number of the subscription or reading, by which the page ignores late ones.
 */

import { connect, HubError } from "../hub.js";
import { Fields, isFound, rowOf, Sampler, TopicCounts } from "./sampler.js";

/** How often rows are posted, and how often topics and fields, milliseconds. */
const ROWS_MS = 100;
const SUMS_MS = 500;

/** Values that are looked at for their fields in so many milliseconds. */
const LOOKED_AT = 50;

/** Topics of the hub itself. They are shown only if asked for, or they would fill the view of an idle hub. */
const RESERVED = "$hub/";

/** Of the journal: most rows in an answer, and most records read for them. */
const HISTORY_ROWS = 500;
const HISTORY_RECORDS = 200_000;

/**
 * @import { Client, Subscription } from "../hub.js"
 * @import { Commands, Told } from "./feed.js"
 * @typedef {{number: number, subscription: Subscription | null, sampler: Sampler, counts: TopicCounts,
 *   fields: Fields | null, looked: number, told: number, stop?: () => void}} Following
 *   `looked`: Values that were looked at for their fields since these were told. `told`: How many messages had been
 *   received as rows were told last.
 */

/** @type {string | undefined} */
let token;
/** @type {Client} Made by the first command. */
let client;
/** @type {Following | null} */
let followed = null;
let reading = 0; // number of the reading that goes on

/** @type {{[Command in keyof Commands]: (said: Commands[Command]) => void}} */
const commands = {
  open(told) {
    token = told.token;
    dial();
  },

  follow({ number, prefix, labels, exact, search, held, withFields }) {
    stop();
    const sampler = new Sampler();
    const counts = new TopicCounts(performance.now());
    sampler.search(search);
    sampler.held = held;
    /** @type {Following} */
    const mine = { number, sampler, counts, fields: withFields ? new Fields() : null, looked: 0, subscription: null, told: 0 };
    const hidesHub = !prefix.startsWith("$");
    followed = mine;
    try {
      const what = labels.length ? { labels, prefix } : prefix;
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
    mine.subscription.confirmed.then(() => tell("confirmed", {}, number), () => {});
    const timers = [setInterval(() => tellRows(mine), ROWS_MS), setInterval(() => tellSums(mine), SUMS_MS)];
    mine.stop = () => timers.forEach(clearInterval);
  },

  stop,

  hold({ held }) {
    if (followed) followed.sampler.held = held;
  },

  /** The oldest record under a prefix: when it was recorded, and its offset. */
  async range({ number, prefix }) {
    try {
      for await (const { offset, time } of client.read(prefix, { startTime: new Date(0), columns: ["offset", "time"] })) {
        tell("range", { oldest: { offset, at: Number(time) } }, number);
        return;
      }
      tell("range", { oldest: null }, number);
    } catch (error) {
      tellProblem(number, error);
    }
  },

  async history({ number, prefix, search, offset, at }) {
    reading = number;
    const wanted = search.toLowerCase();
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
          tell("history", { rows, looked, next, more: true }, number);
          return;
        }
      }
      if (reading === number) tell("history", { rows, looked, next, more: false }, number);
    } catch (error) {
      if (reading === number) tellProblem(number, error);
    }
  },
};

/** Connect, in place of the connection that was there. */
function dial() {
  client?.close();
  const mine = connect("/", { name: "console, messages", token, narrow: true });
  client = mine;
  const number = () => followed?.number ?? 0;
  const isCurrent = () => client === mine;
  mine.on("dropped", (count) => isCurrent() && tell("dropped", { count }, number()));
  mine.on("error", (error) => isCurrent() && tellProblem(number(), error));
  mine.on("open", () => isCurrent() && tell("open", {}));
}

function stop() {
  followed?.stop?.();
  followed?.subscription?.unsubscribe();
  followed = null;
  reading = 0;
}

/** @param {Following} mine */
function tellRows(mine) {
  const { sampler, number } = mine;
  const rows = sampler.take(performance.now());
  if (sampler.received === mine.told && rows.length === 0) return;
  mine.told = sampler.received;
  const { received, matched, taken } = sampler;
  tell("rows", { rows, received, matched, taken }, number);
}

/** @param {Following} mine */
function tellSums(mine) {
  const { counts, fields, number } = mine;
  tell("topics", counts.top(performance.now()), number);
  if (!fields) return;
  mine.looked = 0;
  tell("fields", { fields: fields.list(), values: fields.values, leftOut: fields.leftOut }, number);
}

/** @param {number} number @param {unknown} error */
function tellProblem(number, error) {
  const { code, first } = error instanceof HubError ? error : { code: 0 };
  tell("problem", { code, message: error instanceof Error ? error.message : String(error), first }, number);
}

/**
 * @template {keyof Told} Kind
 * @param {Kind} kind @param {Told[Kind]} told
 * @param {number} [number] Of the subscription, or the reading, that it is of.
 */
function tell(kind, told, number) {
  postMessage({ kind, number, told });
}

/**
 * @template {keyof Commands} Command
 * @param {{command: Command, said: Commands[Command]}} data
 */
function obey({ command, said }) {
  commands[command](said);
}

addEventListener("message", ({ data }) => obey(data));
