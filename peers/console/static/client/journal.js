/**
 * Places in a journal, and its records, as they travel.
 *
 * Pure functions, but `goOn`, which changes the order that it is given.
 */

/**
 * @import { From, JournalRecord } from "../hub.js"
 *
 * @typedef {object} Order What is asked of a journal; it goes on behind each piece.
 * @property {string[]} prefixes
 * @property {string} journal Its id; empty before the first piece.
 * @property {string} [hub]
 * @property {number} [start]
 * @property {number} [epoch] In which `start` was told.
 * @property {number} [time_ms]
 * @property {number} [end]
 * @property {number} [wait_ms]
 * @property {readonly string[]} [columns]
 *
 * @typedef {object} Found A piece of it.
 * @property {({time_ms?: number} & Omit<JournalRecord, "time">)[]} records
 * @property {number} start
 * @property {number} next The offset to go on at.
 * @property {number} head The one behind the newest record.
 * @property {number} [epoch] In which all this is told.
 * @property {string} [journal]
 * @property {number} [dropped] Records without a JSON form, which are left out.
 * @property {number} [characters] How long its text was.
 */

/** A time behind all records, milliseconds since 1970: who begins there begins with what comes. */
export const END_OF_TIME_MS = Number.MAX_SAFE_INTEGER;

/**
 * Where in the journal: an offset, with its epoch if that is known, or, where it is given, a time.
 *
 * @param {number} start
 * @param {Date | number} [time]
 * @param {number} [epoch]
 * @returns {{time_ms?: number, start?: number, epoch?: number}}
 */
export function place(start, time, epoch) {
  if (time !== undefined) return { time_ms: Number(time) };
  for (const number of [start, epoch ?? 0]) {
    if (!Number.isSafeInteger(number) || number < 0) {
      throw new TypeError(`an offset, and its epoch, is a whole number from 0 on, not ${number}`);
    }
  }
  return { start, epoch };
}

/**
 * Whose journal is read: that of the hub that is connected, or of another one. Its id is told with the first piece.
 *
 * @param {string} [hub]
 * @returns {{journal: string, hub?: string}}
 */
export function whose(hub) {
  return hub === undefined || hub === "" ? { journal: "" } : { journal: "", hub: String(hub) };
}

/**
 * Whether a subscription has no place in a journal to begin at.
 *
 * @param {From} from
 */
export function isLive({ fromOffset, fromTime, epoch, hub, recorded }) {
  if (epoch && fromOffset === undefined) throw new TypeError("epoch: it belongs to an offset; give fromOffset as well");
  if (fromOffset !== undefined || fromTime !== undefined || recorded) return false;
  if (hub !== undefined && hub !== "") throw new TypeError("hub: give fromOffset, fromTime or recorded as well");
  return true;
}

/**
 * Let an order go on behind a piece, in the same journal.
 *
 * @param {Order} order
 * @param {Found} found
 */
export function goOn(order, found) {
  order.start = found.next;
  order.epoch = found.epoch;
  order.journal = found.journal ?? order.journal;
  delete order.time_ms;
}

/**
 * Whether a piece begins earlier than it was asked to: what was read before is lost, and others have its offsets.
 *
 * @param {Order} order
 * @param {Found} found
 */
export function isCut({ start }, found) {
  return start !== undefined && found.start < start;
}

/**
 * A record as the hub has sent it: without what was not asked for. Its offset is told with the epoch of its piece.
 *
 * @param {{time_ms?: number} & Omit<JournalRecord, "time">} record
 * @param {number} [epoch]
 * @returns {JournalRecord}
 */
export function recordOf({ time_ms, ...fields }, epoch) {
  const record = time_ms === undefined ? fields : { time: new Date(time_ms), ...fields };
  if (epoch !== undefined && "offset" in record) Object.assign(record, { epoch });
  return /** @type {JournalRecord} */ (record);
}
