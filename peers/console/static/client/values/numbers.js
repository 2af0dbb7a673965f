/**
 * Whole numbers of 64 bits, and nanoseconds. Pure functions.
 */

/** The largest whole number of 64 bits, and nanoseconds. */
export const U64_MAX = 2n ** 64n - 1n;
export const MS_NS = 1_000_000n;
export const SECOND_NS = 1_000_000_000n;

/**
 * A number where that is exact, else a BigInt.
 *
 * @param {bigint} whole
 */
export function numberOf(whole) {
  const number = Number(whole);
  return Number.isSafeInteger(number) ? number : whole;
}

/**
 * The quotient, rounded down.
 *
 * @param {bigint} whole
 * @param {bigint} by
 */
export function floored(whole, by) {
  const rest = ((whole % by) + by) % by;
  return (whole - rest) / by;
}
