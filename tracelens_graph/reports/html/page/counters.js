// @ts-check
// Quantities over time, in lanes below those of the GPU: the queue of each stream, and how fast copies move bytes.
import { Show } from "./show.js";

/** @typedef {import("./events.js").Trace} Trace */

// The course of a quantity: from each moment to the next it is `level`, before the first 0.
export class Counter {
  /**
   * @param {string} title
   * @param {string} color name of its colour
   * @param {ArrayLike<number>} at moments, ascending
   * @param {ArrayLike<number>} level
   * @param {(value: number) => string} says a level with its unit
   * @param {(time: number) => number} pick the event that a click at a time selects; -1 for none
   * @param {number} full from this level on it is full
   */
  constructor(title, color, at, level, says, pick, full = Infinity) {
    this.title = title;
    this.color = color;
    this.at = at;
    this.level = level;
    this.says = says;
    this.pick = pick;
    this.full = full;
    this.most = this.greatest(-1, at.length - 1);
  }

  /** Position of the last moment that is not behind a time; -1 for none. @param {number} time */
  place(time) {
    let low = 0,
      high = this.at.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.at[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** The greatest level of moments from one position to another. @param {number} first @param {number} last */
  greatest(first, last) {
    let most = this.level[first] ?? 0;
    for (let i = first + 1; i <= last; i++) if (this.level[i] > most) most = this.level[i];
    return most;
  }

  /** Its mean in a range. @param {Span} range */
  mean({ from, to }) {
    let sum = 0;
    for (let i = Math.max(this.place(from), 0); i < this.at.length && this.at[i] < to; i++)
      sum += this.level[i] * Math.max(Math.min(this.at[i + 1] ?? to, to) - Math.max(this.at[i], from), 0);
    return sum / (to - from);
  }

  /** What a range has of it. @param {Span} range */
  saysOf(range) {
    const most = this.greatest(this.place(range.from), this.place(range.to - 1));
    return `${this.title}: mean ${this.says(this.mean(range))}, at most ${this.says(most)}`;
  }
}

// Work that was launched on a stream and has not begun; it enters as its launch call begins.
/** @param {Float64Array} launched @param {Float64Array} begun as many moments */
const queueOf = (launched, begun) => {
  launched.sort();
  begun.sort();
  const at = [],
    level = [];
  for (let i = 0, k = 0; k < begun.length; ) {
    const now = Math.min(launched[i] ?? Infinity, begun[k]);
    while (launched[i] === now) i++;
    while (begun[k] === now) k++;
    at.push(now);
    level.push(i - k);
  }
  return { at, level };
};

/** @param {Trace} trace @param {Record<string, number>} full @returns {Counter[]} */
const queuesOf = ({ lanes, lane, start, parent, first }, full) => {
  const waiting = lanes.map(() => /** @type {number[]} */ ([]));
  for (let e = first.gpu; e < first.idle; e++)
    if (parent[e] >= 0 && start[e] > start[parent[e]]) waiting[lane[e]].push(e);
  return waiting.flatMap((some, k) => {
    if (!some.length) return [];
    const launched = Float64Array.from(some, (e) => start[parent[e]]),
      { at, level } = queueOf(launched, Float64Array.from(some, (e) => start[e]));
    /** @param {number} value */
    const says = (value) => `${Show.number(value, Number.isInteger(value) ? 0 : 2)} launched`;
    // What is at the head of the queue.
    /** @param {number} time */
    const pick = (time) => some.find((e) => start[e] > time && start[parent[e]] <= time) ?? -1;
    return [new Counter(`${lanes[k].title} queue`, "allocated", at, level, says, pick, full[lanes[k].title])];
  });
};

/** Rates of copies that run at once add up. @param {Trace} trace @param {string[]} ways @returns {Counter[]} */
const ratesOf = ({ columns, start, dur, first }, ways) =>
  ways.map((title, way) => {
    /** @type {[number, number, number][]} */
    const changes = [],
      /** @type {number[]} */
      copies = [];
    columns["copy.way"].forEach((/** @type {number} */ of, /** @type {number} */ i) => {
      const e = first.gpu + columns["copy.event"][i],
        rate = columns["copy.bytes"][i] / dur[e];
      if (of !== way) return;
      changes.push([start[e], rate, 1], [start[e] + dur[e], -rate, -1]);
      copies.push(e);
    });
    changes.sort((a, b) => a[0] - b[0]);
    /** @type {number[]} */
    const at = [],
      level = [];
    let rate = 0,
      running = 0;
    for (const [time, change, one] of changes) {
      // Sums of fractions leave a rest where nothing runs any more.
      running += one;
      rate = running ? rate + change : 0;
      if (at.at(-1) === time) level[level.length - 1] = rate;
      else {
        at.push(time);
        level.push(rate);
      }
    }
    /** @param {number} value */
    const says = (value) => `${Show.number(value, 3)} GB/s`;
    /** @param {number} time */
    const pick = (time) => copies.find((e) => start[e] <= time && time < start[e] + dur[e]) ?? -1;
    return new Counter(`${title} bandwidth`, "copy", at, level, says, pick);
  });

/** All of a trace; none where only some of its events are on the page. @param {Trace} trace */
export const countersOf = (trace) => {
  const { counters } = trace.body;
  return counters ? [...queuesOf(trace, counters.full), ...ratesOf(trace, counters.ways)] : [];
};
