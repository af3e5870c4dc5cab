// @ts-check
// Where lanes stand: regions one below the other; that of the GPU is always in sight.

/** @typedef {import("./events.js").Trace} Trace */
/** @typedef {import("./counters.js").Counter} Counter */
/**
 * @typedef {Lane & {
 *   isLow: boolean, y: number, row: number, height: number, button?: HTMLElement, counter?: Counter,
 * }} Placed
 */

class Region {
  scroll = 0;
  y = 0;
  height = 0;
  total = 0;
  /** @type {HTMLElement | null} */
  element = null;

  /** @param {Placed[]} lanes @param {number} share */
  constructor(lanes, share) {
    this.lanes = lanes;
    this.share = share;
  }

  /** @param {number} scroll */
  scrollTo(scroll) {
    this.scroll = Math.max(0, Math.min(scroll, this.total - this.height));
  }

  /** Top of a lane within the picture. @param {Placed} lane */
  topOf(lane) {
    return this.y + lane.y - this.scroll;
  }
}

export class Lanes {
  static ROW = 16;
  static LOW = 3;
  // Height of a counter.
  static HIGH = 34;
  static GAP = 6;
  // Lanes of launches that stand with the GPU: those of the threads that launch most.
  static NEAR = 2;

  /** @param {Trace} trace @param {Counter[]} counters */
  constructor(trace, counters) {
    this.trace = trace;
    const placed = trace.lanes.map((lane) => Object.assign(lane, { isLow: false, y: 0, row: Lanes.ROW, height: 0 }));
    /** @param {string[]} groups @returns {Placed[]} */
    const of = (...groups) => placed.filter((lane) => lane.n && groups.includes(lane.group));
    /** @param {Placed} lane */
    const busy = (lane) => (lane.launches ? 1e12 : 0) + lane.thread;
    const near = of("call")
      .filter((lane) => lane.launches > 0)
      .sort((a, b) => b.launches - a.launches)
      .slice(0, Lanes.NEAR);
    const host = of("host", "call")
      .filter((lane) => !near.includes(lane))
      .sort((a, b) => busy(b) - busy(a) || (a.group < b.group ? 1 : -1));
    host.forEach((lane, k) => (lane.isLow = k > 3 && lane.deep > 1));
    const notes = of("note");
    notes.forEach((lane, k) => (lane.name = k ? `annotations, ${lane.title}` : "steps, annotations"));
    const order = ["call", "gpu", "idle"];
    const gpu = [...near, ...of("gpu"), ...of("idle")].sort(
      (a, b) => order.indexOf(a.group) - order.indexOf(b.group) || Lanes.device(a) - Lanes.device(b) || b.n - a.n,
    );
    this.notes = new Region(notes, 0.25);
    this.host = new Region(host, 1);
    this.gpu = new Region(gpu, 0.45);
    const numbers = { launches: 0, thread: 0, track: 0, deep: 1, isLow: false, y: 0, row: Lanes.HIGH, height: 0 };
    this.counters = new Region(
      [...counters]
        .sort((a, b) => b.at.length - a.at.length)
        .map((counter) => {
          const { title, at } = counter;
          return { title, name: title, group: /** @type {const} */ ("counter"), n: at.length, ...numbers, counter };
        }),
      0.2,
    );
    this.regions = [this.notes, this.host, this.gpu, this.counters];
  }

  /** @param {Lane} lane */
  static device = ({ title }) => Number(/^GPU (\d+)/.exec(title)?.[1] ?? 0);

  /** Lay lanes out in a height, below the axis. @param {number} top @param {number} height */
  place(top, height) {
    for (const region of this.regions) {
      let y = region.lanes.length ? Lanes.GAP / 2 : 0;
      for (const lane of region.lanes) {
        lane.y = y;
        lane.row = lane.counter ? Lanes.HIGH : Lanes.ROW;
        if (lane.isLow) lane.row = lane.counter ? Lanes.ROW : Lanes.LOW;
        lane.height = lane.deep * lane.row;
        if (lane.isLow) lane.height = Math.max(lane.height, Lanes.ROW);
        y += lane.height + Lanes.GAP;
      }
      region.total = y;
    }
    const { notes, host, gpu, counters } = this;
    counters.height = Math.min(counters.total, counters.share * (height - top));
    const room = height - top - counters.height;
    notes.height = Math.min(notes.total, notes.share * room);
    gpu.height = Math.min(gpu.total, host.lanes.length ? gpu.share * room : room - notes.height);
    host.height = Math.min(host.total, Math.max(room - notes.height - gpu.height, 0));
    notes.y = top;
    host.y = top + notes.height;
    gpu.y = Math.min(height - counters.height - gpu.height, host.y + host.total);
    counters.y = gpu.y + gpu.height;
    for (const region of this.regions) region.scrollTo(region.scroll);
  }

  // Where the last lane ends: below it is nothing.
  get bottom() {
    return this.counters.y + this.counters.height;
  }

  /** @param {number} y */
  regionAt(y) {
    return this.regions.find((region) => y >= region.y && y < region.y + region.height);
  }

  /** The lane at a height, and which of its rows; null between lanes. @param {number} y */
  laneAt(y) {
    const region = this.regionAt(y);
    for (const lane of region?.lanes ?? []) {
      const level = Math.floor((y - /** @type {Region} */ (region).topOf(lane)) / lane.row);
      if (level >= 0 && level < lane.deep) return { lane, level };
    }
    return null;
  }

  /** Region, lane and top of the row of an event. @param {number} e */
  placeOf(e) {
    const at = this.trace.laneOf(e);
    for (const region of this.regions)
      for (const lane of region.lanes)
        if (lane === at) return { region, lane, y: region.topOf(lane) + this.trace.level[e] * lane.row };
    return null;
  }

  /** @param {number} e */
  reveal(e) {
    const place = this.placeOf(e);
    if (!place || place.lane.isLow) return;
    const { region, y } = place;
    if (y < region.y || y + Lanes.ROW > region.y + region.height)
      region.scrollTo(region.scroll + y - region.y - region.height / 2);
  }
}
