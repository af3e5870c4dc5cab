// @ts-check
// Events of all lanes in one numbering, the tracks that they are drawn on, and coarser levels of these.
import { Planes } from "./planes.js";

const CELL = 1024;
const FACTOR = 8;
const MOST_LEVELS = 14;

/** @type {("host" | "note" | "gpu" | "idle")[]} */
const PARTS = ["host", "note", "gpu", "idle"];

/** @typedef {Omit<Events, "low" | "high">} Made */

// The events of host, annotations, GPU and idle time, one after the other. A GPU event's parent is its launch.
/** @param {Columns} columns @param {LaneTitles} lanes @param {number} call @returns {Made} */
const eventsOf = (columns, lanes, call) => {
  const counts = PARTS.map((part) => columns[`${part}.dur`].length);
  const n = counts.reduce((sum, count) => sum + count, 0);
  /** @type {Made} */
  const made = {
    n,
    first: { host: 0, note: 0, gpu: 0, idle: 0 },
    start: new Float64Array(n),
    dur: new Float64Array(n),
    uid: new Float64Array(n),
    name: new Int32Array(n),
    parent: new Int32Array(n).fill(-1),
    level: new Int32Array(n),
    args: columns["host.args"],
    culprit: columns["idle.culprit"],
    blamed: columns["idle.blamed"],
    rest: columns["idle.rest"],
    depth: Int32Array.from(columns["host.depth"]),
    lane: new Int32Array(n),
    lanes: [],
  };
  let base = 0;
  PARTS.forEach((part, k) => {
    made.first[part] = base;
    made.dur.set(columns[`${part}.dur`], base);
    made.uid.set(columns[`${part}.uid`], base);
    made.name.set(columns[part === "idle" ? "idle.cause" : `${part}.name`], base);
    if (part !== "gpu") made.start.set(columns[`${part}.start`], base);
    base += counts[k];
  });
  nest(made, columns["name.class"], lanes.host, call);
  flat(made, lanes.note, "note", columns["note.depth"]);
  const gap = columns["gpu.gap"],
    launch = columns["gpu.launch"];
  let end = 0;
  for (let i = 0, e = made.first.gpu; i < gap.length; i++, e++) {
    made.start[e] = end + Planes.signed(gap[i]);
    end = made.start[e] + made.dur[e];
    made.parent[e] = launch[i] - 1;
  }
  flat(made, lanes.gpu, "gpu");
  flat(made, lanes.idle, "idle");
  return made;
};

/** A further lane: its number. @param {Made} made @param {Pick<Lane, "title" | "group" | "n"> & Partial<Lane>} lane */
const added = (made, lane) => made.lanes.push({ name: "", launches: 0, thread: 0, track: 0, deep: 0, ...lane }) - 1;

// Callers follow from depth in pre-order. Calls of the runtime are drawn in a lane of their own.
/** @param {Made} made @param {Numbers} classes @param {LaneTitle[]} lanes @param {number} call */
const nest = (made, classes, lanes, call) => {
  let e = 0;
  const inner = new Int32Array(made.depth.length);
  for (const { title, n, launches } of lanes) {
    const more = { n: 0, launches, thread: n },
      host = added(made, { title, group: "host", ...more }),
      runtime = added(made, { title: `${title}: launches`, name: `launches, ${title}`, group: "call", ...more });
    const open = [];
    for (const end = e + n; e < end; e++) {
      const depth = made.depth[e],
        above = depth ? open[depth - 1] : -1;
      open[depth] = e;
      made.parent[e] = above;
      const isCall = classes[made.name[e]] === call,
        lane = isCall ? runtime : host;
      inner[e] = above < 0 ? (isCall ? -1 : 0) : inner[above] + (isCall ? 0 : 1);
      made.level[e] = isCall ? (above >= 0 && made.lane[above] === runtime ? made.level[above] + 1 : 0) : inner[e];
      made.lane[e] = lane;
      made.lanes[lane].n++;
    }
  }
};

/** @param {Made} made @param {LaneTitle[]} lanes @param {"note" | "gpu" | "idle"} group @param {Numbers} [depth] */
const flat = (made, lanes, group, depth) => {
  const first = made.first[group];
  let e = first;
  for (const { title, n } of lanes) {
    const lane = added(made, { title, group, n });
    for (const end = e + n; e < end; e++) {
      made.lane[e] = lane;
      made.level[e] = depth ? depth[e - first] : 0;
    }
  }
};

/** Tracks: the events of one lane and level, by start. @param {Made} made @returns {Level} */
const tracksOf = (made) => {
  const { n, lanes, lane, level } = made;
  for (let e = 0; e < n; e++) if (level[e] >= lanes[lane[e]].deep) lanes[lane[e]].deep = level[e] + 1;
  let count = 0;
  for (const one of lanes) {
    one.track = count;
    count += one.deep;
  }
  const from = new Int32Array(count + 1);
  for (let e = 0; e < n; e++) from[lanes[lane[e]].track + level[e] + 1]++;
  for (let t = 0; t < count; t++) from[t + 1] += from[t];
  const next = from.slice(),
    event = new Int32Array(n),
    start = new Float64Array(n),
    end = new Float64Array(n);
  for (let e = 0; e < n; e++) {
    const at = next[lanes[lane[e]].track + level[e]]++;
    event[at] = e;
    start[at] = made.start[e];
    end[at] = made.start[e] + made.dur[e];
  }
  return { cell: 0, isEvent: true, from, event, start, end, sum: made.dur };
};

// Events shorter than a cell that start in one cell are one item, with the longest of them for its colour.
/** @param {Level} fine @param {number} cell @param {Float64Array} dur @returns {Level} */
const coarser = (fine, cell, dur) => {
  const n = fine.event.length,
    tracks = fine.from.length - 1;
  const from = new Int32Array(tracks + 1),
    event = new Int32Array(n);
  const start = new Float64Array(n),
    end = new Float64Array(n),
    sum = new Float64Array(n);
  let m = 0;
  for (let t = 0; t < tracks; t++) {
    let open = -1,
      place = -1;
    for (let i = fine.from[t]; i < fine.from[t + 1]; i++) {
      const begin = fine.start[i],
        stop = fine.end[i],
        one = fine.event[i];
      const total = fine.isEvent ? stop - begin : fine.sum[i];
      const isShort = stop - begin < cell,
        at = Math.floor(begin / cell);
      if (isShort && open >= 0 && at === place) {
        if (stop > end[open]) end[open] = stop;
        sum[open] += total;
        if (dur[one] > dur[event[open]]) event[open] = one;
        continue;
      }
      start[m] = begin;
      end[m] = stop;
      sum[m] = total;
      event[m] = one;
      open = isShort ? m : -1;
      place = at;
      m++;
    }
    from[t + 1] = m;
  }
  const rest = { event: event.slice(0, m), start: start.slice(0, m), end: end.slice(0, m), sum: sum.slice(0, m) };
  return { cell, isEvent: false, from, ...rest };
};

// What the page of a report holds in columns: events with their levels, and the columns of other views.
/** @param {Packed} packed @returns {Promise<Unpacked>} */
export const unpackedEvents = async ({ planes, columns: described, lanes, call }) => {
  const columns = Planes.columns(described, await Planes.inflate(planes)),
    made = eventsOf(columns, lanes, call),
    levels = [tracksOf(made)];
  let low = Infinity,
    high = made.n ? 0 : 1;
  for (let e = 0; e < made.n; e++) {
    if (made.start[e] < low) low = made.start[e];
    if (made.start[e] + made.dur[e] > high) high = made.start[e] + made.dur[e];
  }
  if (!made.n) low = 0;
  for (let cell = CELL; cell < (high - low) / 64 && levels.length < MOST_LEVELS; cell *= FACTOR)
    levels.push(coarser(levels[levels.length - 1], cell, made.dur));
  for (const at of columns["memory.time"] ?? []) {
    if (at < low) low = at;
    if (at > high) high = at;
  }
  const others = Object.entries(columns).filter(([name]) => !/^(host|note|gpu|idle)\./.test(name));
  return { events: { ...made, low, high }, levels, columns: Object.fromEntries(others) };
};
