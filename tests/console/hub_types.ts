/**
 * Compared by `make types`: what hub.d.ts declares is what the modules of hub.js are.
 *
 * Beside this, `Client` implements the interface of that name, and `connect` returns it.
 */

import type * as declared from "../../peers/console/static/hub.js";
import { Client } from "../../peers/console/static/client/client.js";
import { HubError, RequestError } from "../../peers/console/static/client/errors.js";
import { Store } from "../../peers/console/static/client/stores/store.js";
import { Address, Count, Enum, Extension, Port, PreciseDate } from "../../peers/console/static/client/values/types.js";
import { Real, Subnet, Table, Timespan, Timestamp } from "../../peers/console/static/client/values/types.js";
import { untyped } from "../../peers/console/static/client/values/packing.js";

/** Each is there, and can be used as it is declared. */
export const exported: Omit<typeof declared, "connect"> = {
  Address, Count, Enum, Extension, HubError, Port, PreciseDate, Real, RequestError, Subnet, Table, Timespan, Timestamp, untyped,
};

type Same<One, Other> = [keyof One, keyof Other] extends [keyof Other, keyof One] ? true : false;

/** Nothing is left out. */
export const clients: Same<Client, declared.Client> = true;
export const stores: Same<Store, declared.Store> = true;
