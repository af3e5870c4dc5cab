// @ts-check
// Moments of devices at which memory was allocated or released: from columns, as points of a picture, as a table.
import { gridOf } from "./grid.js";
import { Planes } from "./planes.js";
import { Show } from "./show.js";

/** @typedef {import("./events.js").Trace} Trace */

/**
 * @typedef {object} Device what its allocator held over time
 * @property {string} title
 * @property {number} all moments that were recorded; the columns may hold fewer
 * @property {Numbers} time
 * @property {Float64Array} change
 * @property {Float64Array} allocated
 * @property {Numbers | null} reserved
 * @property {Numbers} call one more than the number of the call in which a change was, 0 without one
 * @property {number} peak position of the moment with most allocated
 * @property {number} lowest allocated bytes
 * @property {number} least of all that is drawn, zero included
 * @property {number} most of all that is drawn
 */

const MOST_LISTED = 20_000;

export const Moments = {
  // The devices with the columns of each. A total is the one before, the change, and what else it differs by.
  /** @param {MemoryTitle[]} titles @param {Columns} columns @returns {Device[]} */
  read(titles, columns) {
    let at = 0;
    return titles.map(({ title, n, all, reserved: isReserved }) => {
      /** @param {string} name */
      const part = (name) => columns[`memory.${name}`].subarray(at, at + n);
      const change = Float64Array.from(part("change"), Planes.signed),
        rest = part("rest"),
        allocated = new Float64Array(n),
        reserved = isReserved ? part("reserved") : null,
        [time, call] = [part("time"), part("call")];
      let sum = 0,
        peak = 0,
        lowest = Infinity,
        most = 1;
      for (let i = 0; i < n; i++) {
        allocated[i] = sum += change[i] + Planes.signed(rest[i]);
        if (allocated[i] > allocated[peak]) peak = i;
        lowest = Math.min(lowest, allocated[i]);
        most = Math.max(most, allocated[i], reserved?.[i] ?? 0);
      }
      at += n;
      return { title, all, time, change, allocated, reserved, call, peak, lowest, least: Math.min(lowest, 0), most };
    });
  },

  // Position of the last moment of a device that is not behind a time; -1 where all are.
  /** @param {Pick<Device, "time">} device @param {number} then */
  before({ time }, then) {
    let low = 0,
      high = time.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (time[middle] <= then) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  },

  // What is drawn in view: where several are in one pixel, the ends, extremes and the most reserved of it.
  /**
   * @param {Pick<Device, "time" | "allocated" | "reserved">} device
   * @param {Span} view
   * @param {number} width
   * @param {number} end of the recording
   * @returns {[number[], number[], (number | null)[]]}
   */
  points(device, { from, to }, width, end) {
    const { time, allocated, reserved } = device;
    /** @type {[number[], number[], (number | null)[]]} */
    const found = [[], [], []];
    /** @param {number} i @param {number} x */
    const push = (i, x) => {
      found[0].push(x);
      found[1].push(allocated[i]);
      found[2].push(reserved ? reserved[i] : null);
    };
    const before = Moments.before(device, from),
      last = Moments.before(device, to),
      cell = (to - from) / width;
    if (last < 0) return found;
    if (before >= 0) push(before, from);
    for (let i = before + 1; i <= last;) {
      const place = Math.floor((time[i] - from) / cell),
        kept = [i, i, i, i];
      let next = i;
      for (; next <= last && Math.floor((time[next] - from) / cell) === place; next++) {
        if (allocated[next] > allocated[kept[1]]) kept[1] = next;
        if (allocated[next] < allocated[kept[2]]) kept[2] = next;
        if (reserved && reserved[next] > reserved[kept[3]]) kept[3] = next;
      }
      kept.push(next - 1);
      for (const one of [...new Set(kept)].sort((a, b) => a - b)) push(one, time[one]);
      i = next;
    }
    push(last, Math.max(Math.min(to, end), time[last]));
    return found;
  },

  /** Labels of the axis, all in one unit. @param {number[]} splits */
  labels(splits) {
    const most = splits[splits.length - 1],
      step = splits.length > 1 ? splits[1] - splits[0] : most,
      share = step / 1024 ** Show.power(most);
    // Halves and quarters are in the unit of the greatest, finer steps in their own.
    const isFine = share < 1 / 4,
      digits = isFine || share >= 1 ? 0 : share === 0.5 ? 1 : 2;
    return splits.map((value) => (value || most < 1024 ? Show.bytesAs(value, isFine ? step : most, digits) : "0"));
  },

  // Who made a change: the op, the module.
  /** @param {Trace} trace @param {Device} device @param {number} i @returns {Lines} */
  caller(trace, device, i) {
    const e = device.call[i] - 1;
    if (e < 0) return [["dim", "in no call that was recorded"]];
    const around = [...trace.above(e), e],
      op = around.findLast((one) => trace.className(one) === "op") ?? e;
    return [["", `in ${trace.text(op)}`], ...trace.modulesAround(around), ["dim", `uid ${trace.uid[e]}`]];
  },

  // The moments of devices in view, as a table. The largest changes where they are many.
  /** @param {Device[]} devices @param {Span} view @param {Trace} trace @param {(device: Device, i: number) => void} follow */
  table(devices, { from, to }, trace, follow) {
    let found = devices.flatMap((device) => {
      const low = Moments.before(device, from) + 1,
        count = Math.max(Moments.before(device, to) + 1 - low, 0);
      return Array.from({ length: count }, (_, k) => ({ device, i: low + k }));
    });
    const count = found.length,
      notes = [];
    if (count > MOST_LISTED) {
      found.sort((a, b) => Math.abs(b.device.change[b.i]) - Math.abs(a.device.change[a.i]));
      found = found.slice(0, MOST_LISTED);
      notes.push(`the ${Show.count(found.length)} largest changes of ${Show.count(count)} in view`);
    }
    if (devices.some((one) => one.all > one.time.length))
      notes.push("Of many neighbouring moments those stay that show the shape: ends, extremes, the largest change.");
    found.sort((a, b) => a.device.time[a.i] - b.device.time[b.i]);
    /** @typedef {{ device: Device, i: number }} Moment */
    /** @type {[string, "number", (one: Moment) => Cell, string, number]} */
    const reserved = ["reserved", "number", ({ device, i }) => device.reserved?.[i] ?? null, "bytes", 0];
    /** @type {[string, "text", (one: Moment) => Cell]} */
    const title = ["device", "text", ({ device }) => device.title];
    /** @param {Moment} one */
    const call = ({ device, i }) => device.call[i] - 1;
    return gridOf(
      found,
      [
        ["moment", "number", ({ device, i }) => trace.momentMs(device.time[i]), "ms", 6],
        ...(devices.length > 1 ? [title] : []),
        ["change", "number", ({ device, i }) => device.change[i], "bytes", 0],
        ["allocated", "number", ({ device, i }) => device.allocated[i], "bytes", 0],
        ...(devices.some((one) => one.reserved) ? [reserved] : []),
        ["in", "text", (one) => (call(one) >= 0 ? trace.text(call(one)) : "")],
        ["uid", "uid", (one) => (call(one) >= 0 ? trace.uid[call(one)] : null)],
      ],
      { notes, click: (row) => follow(found[row].device, found[row].i) },
    );
  },
};
