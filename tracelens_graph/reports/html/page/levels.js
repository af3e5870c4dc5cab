// @ts-check
// Events of all lanes in one numbering, the tracks that they are drawn on, and coarser levels of these.
const Levels = {
  CELL: 1024,
  FACTOR: 8,

  // The events of host, annotations, GPU and idle time, one after the other. A GPU event's parent is its launch.
  events(columns, lanes, call) {
    const parts = ["host", "note", "gpu", "idle"];
    const counts = parts.map((part) => columns[`${part}.dur`].length);
    const n = counts.reduce((sum, count) => sum + count, 0);
    const made = {
      n,
      first: {},
      start: new Float64Array(n),
      dur: new Float64Array(n),
      uid: new Float64Array(n),
      name: new Int32Array(n),
      parent: new Int32Array(n).fill(-1),
      level: new Int32Array(n),
      args: columns["host.args"],
      depth: Int32Array.from(columns["host.depth"]),
      lane: new Int32Array(n),
      lanes: [],
    };
    let base = 0;
    parts.forEach((part, k) => {
      made.first[part] = base;
      made.dur.set(columns[`${part}.dur`], base);
      made.uid.set(columns[`${part}.uid`], base);
      made.name.set(columns[part === "idle" ? "idle.cause" : `${part}.name`], base);
      if (part !== "gpu") made.start.set(columns[`${part}.start`], base);
      base += counts[k];
    });
    made.first.end = n;
    Levels.ofHost(made, columns["name.class"], lanes.host, call);
    Levels.flat(made, lanes.notes, made.first.note, "note", columns["note.depth"]);
    let end = 0;
    const gap = columns["gpu.gap"],
      launch = columns["gpu.launch"];
    for (let i = 0, e = made.first.gpu; i < gap.length; i++, e++) {
      made.start[e] = end + Planes.signed(gap[i]);
      end = made.start[e] + made.dur[e];
      made.parent[e] = launch[i] - 1;
    }
    Levels.flat(made, lanes.gpu, made.first.gpu, "gpu", null);
    Levels.flat(made, lanes.idle, made.first.idle, "idle", null);
    return made;
  },

  // Callers follow from depth in pre-order. Calls of the runtime are drawn in a lane of their own.
  ofHost(made, classes, lanes, call) {
    let e = 0;
    const inner = new Int32Array(made.depth.length);
    for (const { title, n, launches } of lanes) {
      const host = made.lanes.push({ title, group: "host", n: 0, launches, thread: n }) - 1;
      const runtime =
        made.lanes.push({
          title: `${title}: launches`,
          name: `launches, ${title}`,
          group: "call",
          n: 0,
          launches,
          thread: n,
        }) - 1;
      const open = [];
      for (const end = e + n; e < end; e++) {
        const depth = made.depth[e],
          above = depth ? open[depth - 1] : -1;
        open[depth] = e;
        made.parent[e] = above;
        const isCall = classes[made.name[e]] === call;
        const lane = isCall ? runtime : host;
        inner[e] = above < 0 ? (isCall ? -1 : 0) : inner[above] + (isCall ? 0 : 1);
        made.level[e] = isCall ? (above >= 0 && made.lane[above] === runtime ? made.level[above] + 1 : 0) : inner[e];
        made.lane[e] = lane;
        made.lanes[lane].n++;
      }
    }
  },

  flat(made, lanes, first, group, depth) {
    let e = first;
    for (const { title, n } of lanes) {
      const lane = made.lanes.push({ title, group, n }) - 1;
      for (const end = e + n; e < end; e++) {
        made.lane[e] = lane;
        made.level[e] = depth ? depth[e - first] : 0;
      }
    }
  },

  // Tracks: the events of one lane and level, by start; a lane has the tracks `track .. track + deep - 1`.
  tracks(made) {
    const { n, lanes, lane, level } = made;
    for (const one of lanes) one.deep = 0;
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
    return { cell: 0, from, event, start, end, sum: made.dur, isEvent: true };
  },

  // Events shorter than a cell that start in one cell are one item, with the longest of them for its colour.
  coarser(fine, cell, dur) {
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
    return {
      cell,
      from,
      event: event.slice(0, m),
      start: start.slice(0, m),
      end: end.slice(0, m),
      sum: sum.slice(0, m),
      isEvent: false,
    };
  },

  all(made) {
    const found = [Levels.tracks(made)];
    let low = Infinity,
      high = 0;
    for (let e = 0; e < made.n; e++) {
      if (made.start[e] < low) low = made.start[e];
      if (made.start[e] + made.dur[e] > high) high = made.start[e] + made.dur[e];
    }
    made.low = made.n ? low : 0;
    made.high = made.n ? high : 1;
    for (let cell = Levels.CELL; cell < (made.high - made.low) / 64 && found.length < 14; cell *= Levels.FACTOR) {
      found.push(Levels.coarser(found[found.length - 1], cell, made.dur));
    }
    return found;
  },

  async unpack({ planes, columns, lanes, call }) {
    const read = Planes.columns(columns, await Planes.inflate(planes));
    const events = Levels.events(read, lanes, call);
    const levels = Levels.all(events);
    for (const at of read["memory.time"] ?? []) {
      if (at < events.low) events.low = at;
      if (at > events.high) events.high = at;
    }
    const flame = {};
    for (const name in read) if (!/^(host|note|gpu|idle)\./.test(name)) flame[name] = read[name];
    return { events, levels, columns: flame };
  },
};
