/**
 * Addresses and subnets, as text and as bytes. Pure functions.
 */

/**
 * 4 bytes or 16. What knows addresses of IPv6 best is the URL of this machine.
 *
 * @param {string} text
 * @returns {Uint8Array}
 */
export function addressBytes(text) {
  const parts = text.split(".");
  if (parts.length === 4 && parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256)) {
    return Uint8Array.from(parts, Number);
  }
  const host = /^[\da-f:.]*:[\da-f:.]*$/i.test(text) ? hostOf(text) : null;
  if (host === null) throw new TypeError(`no address: ${text}`);
  const [front, behind = null] = host.split("::").map((part) => part.split(":").filter(Boolean));
  const gap = behind === null ? [] : Array(8 - front.length - behind.length).fill("0");
  const groups = [...front, ...gap, ...(behind ?? [])].map((group) => Number.parseInt(group, 16));
  return Uint8Array.from(groups.flatMap((group) => [group >> 8, group & 0xff]));
}

/**
 * The one short form of an address of IPv6; null if it is none.
 *
 * @param {string} text
 * @returns {string | null}
 */
function hostOf(text) {
  try {
    return new URL(`http://[${text}]/`).hostname.slice(1, -1);
  } catch {
    return null;
  }
}

/**
 * @param {Uint8Array} bytes
 * @returns {string}
 */
export function addressText(bytes) {
  if (bytes.length === 4) return bytes.join(".");
  if (bytes.length !== 16) throw new TypeError(`an address of ${bytes.length} bytes`);
  const groups = Array.from({ length: 8 }, (_, index) => (bytes[2 * index] << 8 | bytes[2 * index + 1]).toString(16));
  return hostOf(groups.join(":")) ?? "";
}

/**
 * The address, and behind it how many bits of it count.
 *
 * @param {string} text
 */
export function subnetBytes(text) {
  const [, address, length] = /^(.+)\/(\d{1,3})$/.exec(text) ?? [];
  if (address === undefined) throw new TypeError(`no subnet: ${text}`);
  const bytes = addressBytes(address);
  if (Number(length) > 8 * bytes.length) throw new TypeError(`no subnet: ${text}`);
  return Uint8Array.of(...bytes.map((byte, index) => {
    const bits = Math.max(0, Math.min(8, Number(length) - 8 * index));
    return byte & (0xff00 >> bits);
  }), Number(length));
}
