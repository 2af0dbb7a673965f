/**
 * Where a hub is.
 *
 * Pure function.
 */

/**
 * The URL of a hub, which may be relative to that of a module.
 *
 * @param {string} url
 * @param {string} base
 */
export function endpoint(url, base) {
  const target = new URL(url, base);
  target.protocol = target.protocol.replace(/^http/, "ws");
  target.hash = "";
  if (target.pathname === "/") target.pathname = "/v1/hub";
  if (!/^wss?:$/.test(target.protocol)) throw new TypeError(`not the URL of a hub: ${target}`);
  return target.href;
}
