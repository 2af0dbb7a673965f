/** Errors. The numbers are those of docs/websocket.md and docs/requests.md. */

/** A request's status is added to this for its error's code. */
const REQUEST_CODES = 4_100;

/** The statuses that are spoken of here; all are in docs/requests.md. */
export const FAILED = 1;
export const NO_RESPONDER = 2;
export const RESPONDER_GONE = 3;
export const TIMED_OUT = 4;
export const OVERFLOW = 5;
export const NOT_ALLOWED = 6;

/** Those that may be over by the next time. */
export const PASSING = Object.freeze([NO_RESPONDER, RESPONDER_GONE, TIMED_OUT, OVERFLOW]);

/** Something that the hub or this client refused. `code` is a WebSocket close code, the text names the cause.
 *  With 4011, which is for what the journal does not hold, `first` is the oldest offset that it does. */
export class HubError extends Error {
  /** @param {number} code @param {string} text @param {number} [first] */
  constructor(code, text, first) {
    super(text);
    this.name = "HubError";
    this.code = code;
    if (first !== undefined) this.first = first;
  }
}

/** A request was answered, and not with a value: `status` says what has become of it, see docs/requests.md. */
export class RequestError extends HubError {
  /** @param {number} status @param {string} text */
  constructor(status, text) {
    super(REQUEST_CODES + status, text);
    this.name = "RequestError";
    this.status = status;
  }
}

/** The code of such an error; undefined of any other. @param {unknown} error */
export function codeOf(error) {
  return error instanceof HubError ? error.code : undefined;
}

/** The status of a request that was answered with one; undefined of any other error. @param {unknown} error */
export function statusOf(error) {
  return error instanceof RequestError ? error.status : undefined;
}
