/**
 * What the hub's own services answer, as far as the page asks them: docs/reference/hub-topics.md describes each field.
 *
 * `Answers` has the services by topic; `Session.ask` in shell/session.js gives each answer its type. tests/console/test_files.py
 * compares every field with what a hub really answers. Text ids are 32 hexadecimal digits; units are in the names.
 */

export interface Answers {
  "$hub/consumers": Consumer[];
  "$hub/history": Figures;
  "$hub/journal": Journal | null;
  "$hub/kick": Kicked;
  "$hub/losses": Loss[];
  "$hub/mesh/graph": Hub[];
  "$hub/mesh/trace": Traced[];
  "$hub/names": Name[];
  "$hub/nodes": ClusterNode[];
  "$hub/policy/test": PolicyTested;
  "$hub/rights": Rights;
  "$hub/services": Served[];
  "$hub/settings": Setting[];
  "$hub/state": State;
  "$hub/stores": Store[];
  "$hub/topics": Topics;
  "$hub/users": User[];
  "$hub/who": Connection[];
}

export type ServiceTopic = keyof Answers;

export interface Rights {
  user: string;
  roles: string[];
  admin: boolean;
  may: string[];
  asks: string[];
  hears: string[];
}

export interface State {
  text: string;
  connections: number;
  subscribers: number;
  slow: number;
  dropped_messages: number;
  dropped_by: [label: string, messages: number][];
  droppers: number;
  slow_ids: number[];
  troubles: string[];
}

export interface Figures {
  step_s: number;
  points: number;
  first: number;
  figures: Record<string, (number | null)[]>;
  clock_s: number;
  now_s: number;
}

export interface Connection {
  id: number;
  role: string;
  name: string;
  address: string;
  prefixes: number;
  sample: string[];
  published_messages: number;
  delivered_messages: number;
  delivered_bytes: number;
  queued_messages: number;
  queued_bytes: number;
  dropped_messages: number;
  overflow: string;
  paused: boolean;
  user: string;
  how: string;
  protocol: string;
  queue: Queue;
  received_bytes: number;
  software: string;
  since: number;
  rules: number;
  rates: Rates | null;
  history: Figures | null;
}

export interface Rates {
  in_messages: number;
  out_messages: number;
  dropped_messages: number;
  out_bytes: number;
  offered_messages: number;
}

export interface Queue {
  messages: number;
  bytes: number;
}

export interface Kicked {
  kicked: number;
}

export interface Loss {
  at: number;
  id: number;
  label: string;
  messages: number;
  why: string;
}

export interface Setting {
  setting: string;
  value: string | number | string[];
  unit: string;
  from: string;
  live: boolean;
  description: string;
}

export interface User {
  user: string;
  roles: string[];
  connections: number;
  queued_bytes: number;
  published_messages: number;
  dropped_messages: number;
}

export interface Topics {
  at_s: number;
  counted: number;
  rows: TopicRow[];
  others: OtherTopics | null;
  history: Figures | null;
}

export interface TopicRow {
  prefix: string;
  is_topic: boolean;
  topics: number;
  messages_per_s: number;
  bytes_per_s: number;
  messages: number;
  subscribers: number | null;
}

export interface OtherTopics {
  nodes: number;
  topics: number;
  messages_per_s: number;
  bytes_per_s: number;
}

export interface Hub {
  hub: string;
  name: string;
  own: boolean;
  prefixes: number;
  left_out: number;
  incomplete: boolean;
  lost: number | null;
  links: Record<string, number>;
  zeeks: Record<string, boolean>;
  link: Link | null;
}

export interface Link {
  at: string;
  received_messages: number;
  received_bytes: number;
  sent_messages: number;
  sent_bytes: number;
  path_changes: number;
  queued_messages: number;
  waiting_s: number;
  lag_s: number | null;
  cost: number;
  dropped_messages: number;
  rates: Rates | null;
}

export interface Served {
  prefix: string;
  connections: Serving[];
  connections_total: number;
  pending: number;
  hubs: string[];
  hubs_total: number;
}

export interface Serving {
  id: number | null;
  name: string;
  pending: number;
}

export interface Traced {
  hub: string;
  name: string;
  own: boolean;
  wants: boolean;
  before: string | null;
  cost: number | null;
  barred: boolean;
}

export interface Name {
  name: string;
  labels: string[];
  owner: number;
  hub: string;
}

export interface ClusterNode {
  id: string;
  name: string;
  cluster: string;
}

export interface Store {
  name: string;
  epoch: number;
  fed_from: string[];
  entries: number;
  bytes: number;
  expiring: number;
  number: number;
  kept_changes: number;
  kept_changes_bytes: number;
  changes_total: number;
  refused_total: number;
  expired_total: number;
  commands_total: number;
  reads_total: number;
  snapshots_total: number;
  published_total: number;
  keep_failures_total: number;
}

export interface Journal {
  id: string;
  epoch: number;
  at_s: number;
  topics: string[];
  keep_bytes: number;
  keep_s: number;
  buffer_bytes: number;
  first: number;
  committed: number;
  size_bytes: number;
  recorded_messages_total: number;
  lost_messages_total: number;
  waiting_bytes: number;
  pauses_total: number;
  error: string;
  cut_total: number;
  readers: number;
  fetches: number;
  staged_transactions: number;
  staged_bytes: number;
  tier: Tier | null;
}

export interface Tier {
  first: number;
  next: number;
  files: number;
  size_bytes: number;
  missed: number;
  failures_total: number;
  restarts_total: number;
  error: string;
}

export interface Consumer {
  name: string;
  prefixes: string[];
  members: number;
  position: number;
  lag: number;
  held: number;
  out: number;
  held_bytes: number;
  counters: ConsumerCounters;
  error: string;
  clients: ConsumerClient[];
  committed_s: number | null;
}

export interface ConsumerCounters {
  delivered_total: number;
  redelivered_total: number;
  acknowledged_total: number;
  late_total: number;
  dead_total: number;
  missed_total: number;
}

export interface ConsumerClient {
  id: number;
  hub: string;
  out: number;
}

export interface PolicyTested {
  verdict: Verdict;
}

export interface Verdict {
  user: string;
  roles: string[];
  action: string;
  topic: string;
  allowed: boolean;
  text: string;
  rule: Rule | null;
  limits: Bound[];
}

export interface Rule {
  role: string;
  path: string;
  allowed: boolean;
}

export interface Bound {
  key: string;
  most: number | null;
}
