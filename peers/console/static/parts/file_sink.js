/**
 * `fileSink`: a file of the reader's that is written piece by piece, so that the page need not hold what stands in it.
 *
 * Where the browser lets one choose a file, what is written goes there at once. Elsewhere the pieces are kept by the browser
 * until all are there, `MOST_BYTES` at most, and are then saved as a download.
 *
 * Owner of the state: whoever asked for it; he ends it by `close`, or `abort`, after which nothing is left.
 */

import { element } from "./element.js";

/**
 * @typedef {Uint8Array<ArrayBuffer>} Bytes
 *
 * @typedef {object} Sink
 * @property {number} room How many bytes it takes.
 * @property {(bytes: Bytes) => Promise<void>} write
 * @property {() => Promise<void>} close
 * @property {() => Promise<void>} abort
 *
 * @typedef {(options: object) => Promise<{createWritable: () => Promise<Omit<Sink, "room">>}>} Choose
 */

/** Largest file where the browser has to keep it, bytes. */
export const MOST_BYTES = 256 * 1024 * 1024;

const TYPE = "application/x-ndjson";

/**
 * @param {string} name Of the file, as it is proposed.
 * @returns {Promise<Sink | null>} Null if the reader has chosen none.
 */
export async function fileSink(name) {
  const { showSaveFilePicker: choose } = /** @type {{showSaveFilePicker?: Choose}} */ (globalThis);
  if (choose === undefined) return keptByBrowser(name);
  let handle;
  try {
    handle = await choose.call(globalThis, { suggestedName: name, types: [{ accept: { [TYPE]: [".ndjson"] } }] });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return null;
    throw error;
  }
  const writable = await handle.createWritable();
  return { room: Infinity, write: (bytes) => writable.write(bytes), close: () => writable.close(), abort: () => writable.abort() };
}

/**
 * @param {string} name
 * @returns {Sink}
 */
function keptByBrowser(name) {
  /** @type {Blob[]} */
  let parts = [];
  return {
    room: MOST_BYTES,
    write: async (bytes) => {
      parts.push(new Blob([bytes]));
    },
    close: async () => {
      const link = URL.createObjectURL(new Blob(parts, { type: TYPE }));
      element("a", { href: link, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(link), 60_000); // the browser has begun to save it by then
      parts = [];
    },
    abort: async () => {
      parts = [];
    },
  };
}
