// @ts-check
// Merged stacks: values of frames in one step or all, inverted on request, and where frames stand.
import { columnsOf } from "./planes.js";

// Callers that an inverted stack has; what is above them is left out, and no time is lost.
const DEEPEST = 500;
// Share of the widest from which on frames count as equally wide.
const EQUAL = 0.95;
const MOST_NAMES = 2 ** 26;

// A chain of frames in one box; each has all the time of the one around it.
/** @typedef {{ chain: number[], x: number, width: number, row: number }} Box */
/** @typedef {Record<"parent" | "name" | "first" | "frame" | "step" | "ns" | "count" | "uid" | "idle", Numbers>} View */

/** The columns of a view. @param {Columns} columns @param {string} view @returns {View} */
const viewOf = (columns, view) => {
  const found = columnsOf(columns, view, ["parent", "name", "first", "frame", "step", "ns", "count", "uid", "idle"]);
  return { ...found, parent: found.parent.map((value) => value - 1) };
};

// Frames, each behind the one that it is in, with what is theirs alone; `sum` adds up what is in them.
export class Stack {
  sum = 0;
  events = 0;
  /** @type {Int32Array | undefined} */
  outermost = undefined;
  /** @type {Numbers | undefined} of merged frames how many are in each */
  times = undefined;

  // parent: of each frame the one that it is in, -1 for none. first: where it stands in the order of time.
  /** @param {Numbers} parent @param {Numbers} name @param {Numbers} first */
  constructor(parent, name, first) {
    const n = parent.length;
    this.n = n;
    this.parent = parent;
    this.name = name;
    this.first = first;
    this.own = new Float64Array(n);
    this.total = new Float64Array(n);
    this.count = new Float64Array(n);
    // Of host time the part during which the GPU was idle.
    this.idle = new Float64Array(n);
    // Time of the longest GPU event in a frame, and its uid; -1 without any.
    this.most = new Float64Array(n).fill(-1);
    this.uid = new Float64Array(n).fill(-1);
    // Children of each frame, side by side: those of frame f are `kid[from[f + 1] .. from[f + 2])`, the roots' f is -1.
    this.from = new Int32Array(n + 2);
    this.kid = new Int32Array(n);
  }

  /** @param {number} frame @param {number} ns @param {number} count @param {number} uid @param {number} [idle] */
  add(frame, ns, count, uid, idle = 0) {
    this.own[frame] += ns;
    this.idle[frame] += idle;
    this.count[frame] += count;
    if (ns >= this.most[frame]) [this.most[frame], this.uid[frame]] = [ns, uid];
  }

  // Once all is added.
  summed() {
    const { n, parent, own, total, count, idle, most, uid, from, kid } = this;
    total.set(own);
    for (let frame = n - 1; frame >= 0; frame--) {
      const above = parent[frame];
      if (above < 0) {
        this.sum += total[frame];
        this.events += count[frame];
        continue;
      }
      total[above] += total[frame];
      count[above] += count[frame];
      idle[above] += idle[frame];
      if (most[frame] > most[above]) [most[above], uid[above]] = [most[frame], uid[frame]];
    }
    for (let frame = 0; frame < n; frame++) if (parent[frame] + 2 < n + 2) from[parent[frame] + 2]++;
    for (let i = 1; i < n + 2; i++) from[i] += from[i - 1];
    const next = from.slice();
    for (let frame = 0; frame < n; frame++) kid[next[parent[frame] + 1]++] = frame;
    return this;
  }

  // Frames of a view, in one step or in all (0).
  /** @param {Columns} columns @param {string} view @param {number} step @param {boolean} isInverted */
  static of(columns, view, step, isInverted) {
    const read = viewOf(columns, view);
    if (isInverted) return Stack.inverted(read, step);
    const made = new Stack(read.parent, read.name, read.first);
    made.times = columns[`${view}.times`];
    for (let i = 0; i < read.frame.length; i++)
      if (!step || read.step[i] === step) made.add(read.frame[i], read.ns[i], read.count[i], read.uid[i], read.idle[i]);
    return made.summed();
  }

  /** The innermost frames outside: who is above a kernel, with its time. @param {View} view @param {number} step */
  static inverted({ parent, name, first, ...parts }, step) {
    /** @type {number[]} */
    const parents = [],
      /** @type {number[]} */
      names = [],
      /** @type {number[]} */
      firsts = [],
      leaves = [],
      known = new Map();
    for (let i = 0; i < parts.frame.length; i++) {
      if (step && parts.step[i] !== step) continue;
      let at = -1;
      for (let frame = parts.frame[i], depth = 0; frame >= 0 && depth < DEEPEST; frame = parent[frame], depth++) {
        const key = (at + 1) * MOST_NAMES + name[frame];
        let next = known.get(key);
        if (next === undefined) {
          next = parents.push(at) - 1;
          names.push(name[frame]);
          firsts.push(first[frame]);
          known.set(key, next);
        } else if (first[frame] < firsts[next]) firsts[next] = first[frame];
        at = next;
      }
      leaves.push([at, i]);
    }
    const made = new Stack(Int32Array.from(parents), Int32Array.from(names), Float64Array.from(firsts));
    for (const [frame, i] of leaves) made.add(frame, parts.ns[i], parts.count[i], parts.uid[i], parts.idle[i]);
    return made.summed();
  }

  // A further view of the frames of one: frames at one place whose names stand for one are merged.
  /** @param {Columns} columns @param {string} view @param {string} merged @param {Int32Array} standsFor */
  static merge(columns, view, merged, standsFor) {
    const { parent, name, first, frame, ...parts } = viewOf(columns, view);
    const known = new Map(),
      number = new Int32Array(parent.length);
    /** @type {Record<string, number[]>} */
    const made = { parent: [], name: [], first: [], times: [] };
    for (let at = 0; at < parent.length; at++) {
      const above = parent[at] < 0 ? 0 : number[parent[at]] + 1,
        called = standsFor[name[at]],
        key = above * MOST_NAMES + called;
      let into = known.get(key);
      if (into === undefined) {
        known.set(key, (into = made.name.length));
        made.parent.push(above);
        made.name.push(called);
        made.first.push(first[at]);
        made.times.push(0);
      } else if (first[at] < made.first[into]) made.first[into] = first[at];
      made.times[into]++;
      number[at] = into;
    }
    for (const [part, values] of Object.entries(parts)) columns[`${merged}.${part}`] = values;
    for (const [part, values] of Object.entries(made)) columns[`${merged}.${part}`] = Float64Array.from(values);
    columns[`${merged}.frame`] = frame.map((one) => number[one]);
  }

  /** The frames in one, the outermost ones for -1. @param {number} frame */
  kids(frame) {
    return this.kid.subarray(this.from[frame + 1], this.from[frame + 2] ?? this.n);
  }

  /** A frame with those around it, the outermost first. @param {number} frame */
  path(frame) {
    const found = [];
    for (let at = frame; at >= 0; at = this.parent[at]) found.unshift(at);
    return found;
  }

  // Frames side by side: by time, or the widest first. Those of about one width keep the order of time, as the layers
  // of a model have it.
  /** @param {Int32Array} kids @param {boolean} byTime */
  ordered(kids, byTime) {
    const { total, first } = this,
      found = [...kids];
    /** @param {number} a @param {number} b */
    const earlier = (a, b) => first[a] - first[b];
    if (byTime) return found.sort(earlier);
    found.sort((a, b) => total[b] - total[a]);
    for (let from = 0, to; from < found.length; from = to) {
      const least = EQUAL * total[found[from]];
      for (to = from + 1; to < found.length && total[found[to]] >= least;) to++;
      const equal = found.slice(from, to).sort(earlier);
      for (let i = from; i < to; i++) found[i] = equal[i - from];
    }
    return found;
  }

  // The frames around one, as text: the outermost, which is the pass, and the nearest.
  /** @param {number} frame @param {(frame: number) => string} called */
  around(frame, called) {
    const { parent } = this,
      found = [];
    let at = parent[frame];
    for (; at >= 0 && found.length < 3; at = parent[at]) found.unshift(called(at));
    if (at < 0) return found.join(" › ");
    if (parent[at] >= 0) found.unshift("…");
    this.outermost ??= this.outermostOfAll();
    return [called(this.outermost[at]), ...found].join(" › ");
  }

  // The outermost frame around each.
  outermostOfAll() {
    const found = new Int32Array(this.n);
    for (let at = 0; at < this.n; at++) found[at] = this.parent[at] < 0 ? at : found[this.parent[at]];
    return found;
  }

  // Boxes from a frame on, left-heavy or by time; too narrow ones are left out. A frame joins the chain above it where
  // it has all of its time; `joins` may ask for more, and `isApart` keeps a frame by itself.
  /**
   * @param {number} root -1 for all
   * @param {object} options
   * @param {boolean} options.byTime
   * @param {boolean} options.collapsed
   * @param {number} options.least share of the whole that a box has at least
   * @param {(frame: number) => boolean} options.isApart
   * @param {(frame: number, kid: number) => boolean} options.joins
   */
  boxes(root, { byTime, collapsed, least, isApart, joins }) {
    /** @type {Box[]} */
    const found = [],
      { total } = this;
    const whole = root < 0 ? this.sum : total[root];
    /** @type {[number, number, number][]} */
    const open = [];
    /** @param {number} frame @param {number} x @param {number} row */
    const lay = (frame, x, row) => {
      const width = total[frame] / whole;
      if (!(width >= least)) return;
      /** @param {number} last */
      const onlyKid = (last) => {
        const [kid, ...others] = this.kids(last).filter((one) => total[one] > 0);
        return kid !== undefined && !others.length && total[kid] === total[frame] && joins(frame, kid) ? kid : -1;
      };
      const chain = [frame];
      if (collapsed && !isApart(frame)) for (let kid = onlyKid(frame); kid >= 0; kid = onlyKid(kid)) chain.push(kid);
      found.push({ chain, x, width, row });
      open.push([chain[chain.length - 1], x, row + 1]);
    };
    /** @param {number} frame @param {number} x @param {number} row */
    const spread = (frame, x, row) => {
      for (const kid of this.ordered(this.kids(frame), byTime)) {
        lay(kid, x, row);
        x += total[kid] / whole;
      }
    };
    if (root < 0) spread(-1, 0, 0);
    else lay(root, 0, 0);
    for (let one = open.pop(); one; one = open.pop()) spread(...one);
    return found;
  }

  // Time of the frames that fit, each GPU event once: what is inside of a frame that fits is not added again. Of one
  // frame that in it, with -1 that of all.
  /** @param {ArrayLike<number> | null} fits @param {number} [root] */
  matched(fits, root = -1) {
    if (!fits) return 0;
    const { n, parent, name, total } = this,
      inside = new Uint8Array(n),
      counts = new Uint8Array(n);
    let sum = 0;
    for (let frame = 0; frame < n; frame++) {
      const above = parent[frame];
      counts[frame] = Number(root < 0 || frame === root || (above >= 0 && !!counts[above]));
      const isNew = !(above >= 0 && inside[above]);
      inside[frame] = isNew ? fits[name[frame]] : 1;
      if (inside[frame] && (isNew ? counts[frame] : frame === root)) sum += total[frame];
    }
    return sum;
  }
}
