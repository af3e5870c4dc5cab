// @ts-check
// What lies in a range of time: sums by name, with self time, and how busy the GPU is.
import { gridOf } from "./grid.js";
import { Lanes } from "./lanes.js";
import { Show } from "./show.js";

/** @typedef {import("./events.js").Trace} Trace */

/**
 * @typedef {object} Sum what events of one name have of a range
 * @property {number} event the longest of them
 * @property {number} count
 * @property {number} ns calls within one of the same name are not added again
 * @property {number} own without what they call; of annotations 0
 */

/** The part of an event that lies in a range. @param {Trace} trace @param {Span} range @param {number} e */
const within = (trace, { from, to }, e) => Math.min(trace.end(e), to) - Math.max(trace.start[e], from);

export const Range = {
  /** By name, those with most time of their own first. @param {Trace} trace @param {Span} range @returns {Sum[]} */
  sums(trace, range) {
    const { first, n, name, parent, lane } = trace,
      own = new Float64Array(first.note),
      /** @type {Map<number, Sum & { until: number, lane: number }>} */
      found = new Map();
    for (let e = 0; e < first.note; e++) {
      const ns = Math.max(within(trace, range, e), 0);
      own[e] += ns;
      if (parent[e] >= 0) own[parent[e]] -= ns;
    }
    for (let e = 0; e < n; e++) {
      const ns = within(trace, range, e);
      if (ns <= 0) continue;
      const key = e < first.idle ? name[e] : -1 - name[e],
        one = found.get(key) ?? { event: e, count: 0, ns: 0, own: 0, until: -Infinity, lane: -1 };
      found.set(key, one);
      one.count++;
      one.own += e < first.note ? Math.max(own[e], 0) : e < first.gpu ? 0 : ns;
      if (trace.dur[e] > trace.dur[one.event]) one.event = e;
      if (e < first.note && lane[e] === one.lane && trace.start[e] < one.until) continue;
      one.ns += ns;
      one.until = trace.end(e);
      one.lane = lane[e];
    }
    return [...found.values()].sort((a, b) => b.own - a.own || b.ns - a.ns);
  },

  // The union of GPU events in a range, by device: ns of each.
  /** @param {Trace} trace @param {Span} range @returns {Map<number, number>} */
  busy(trace, range) {
    const { first, start } = trace,
      /** @type {Map<number, number[]>} */
      events = new Map();
    for (let e = first.gpu; e < first.idle; e++) {
      const device = Lanes.device(trace.laneOf(e));
      if (!events.has(device)) events.set(device, []);
      if (within(trace, range, e) > 0) events.get(device)?.push(e);
    }
    return new Map(
      [...events].map(([device, some]) => {
        let ns = 0,
          end = range.from;
        for (const e of some.sort((a, b) => start[a] - start[b])) {
          const stop = Math.min(trace.end(e), range.to);
          ns += Math.max(stop - Math.max(start[e], end), 0);
          end = Math.max(end, stop);
        }
        return [device, ns];
      }),
    );
  },

  /** @param {Trace} trace @param {Span} range @returns {Lines} */
  says(trace, range) {
    const length = range.to - range.from,
      busy = Range.busy(trace, range);
    /** @type {Lines} */
    const lines = [
      ["name", `range of ${Show.span(length)}`],
      ["", `from ${trace.moment(range.from)} to ${trace.moment(range.to)}`],
    ];
    for (const [device, ns] of busy)
      lines.push(["", `GPU${busy.size > 1 ? ` ${device}` : ""} busy ${Show.span(ns)}, ${Show.percent(ns, length)}`]);
    return lines;
  },

  /** @param {Trace} trace @param {Span} range @param {string[]} notes @param {(e: number) => void} select @returns {GridContent} */
  table(trace, range, notes, select) {
    const sums = Range.sums(trace, range),
      length = range.to - range.from,
      classes = Object.fromEntries(trace.body.classes.map((one) => [trace.categories(one), one]));
    return gridOf(
      sums,
      [
        ["name", "text", ({ event }) => trace.text(event)],
        ["kind", "text", ({ event }) => trace.categories(trace.className(event)), "", 0, { classes }],
        ["self", "number", ({ own }) => own / 1e3, "µs", 3],
        ["sum", "number", ({ ns }) => ns / 1e3, "µs", 3],
        ["sum of the range", "number", ({ ns }) => (100 * ns) / length, "%", 1],
        ["count", "number", ({ count }) => count, "", 0],
        ["longest", "uid", ({ event }) => trace.uid[event]],
      ],
      {
        notes: ["Events count with the part of them that lies in the range.", ...notes],
        click: (row) => select(sums[row].event),
      },
    );
  },
};
